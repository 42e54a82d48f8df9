"""What the auditor demands of a surcharge on two neighbours, one of whom slowed a run down more."""

from types import SimpleNamespace
from typing import cast

from coplace.v1.pricing_pb2 import ChargeMade

from tests.chaos.audit.evidence import Evidence
from tests.chaos.audit.surcharges import each_surcharge_is_a_part_of_the_discount
from tests.chaos.mutants import surcharges_go_by_time_beside
from tests.unit.services.pricing.test_surcharges import Beside, played, run_of, tariff


def violations() -> list[str]:
    """Job a is ten minutes beside b, and ten beside d, which slows it down less."""
    facts = [fact for job_id in "abd" for fact in run_of(job_id)]
    beside = [Beside("a", "b", 0).message, Beside("a", "d", 1).message]
    _, published = played(*facts, *beside, declared=tariff("1"))
    charges = [message for message in published if isinstance(message, ChargeMade)]
    evidence = cast("Evidence", SimpleNamespace(charges=charges))
    assert any(row.surcharge_su for charge in charges for row in charge.evidence)
    return list(each_surcharge_is_a_part_of_the_discount(evidence))


def test_a_surcharge_by_the_time_that_each_cost_violates_nothing() -> None:
    assert violations() == []


def test_a_surcharge_by_time_beside_is_found() -> None:
    with surcharges_go_by_time_beside():
        found = violations()
    assert len(found) == 2
    assert "of a/1 surcharges b" in found[0]
