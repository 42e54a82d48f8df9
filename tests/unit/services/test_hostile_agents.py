"""What node agents send, mutated: the small form of `make fuzz ADAPTER=agents`."""

import pytest

from services.energy.processor import appdb
from tests.attacks.agents import Region, attack


@pytest.mark.parametrize("mutants", [1_200, pytest.param(3_000, marks=pytest.mark.rest)])
def test_no_mutant_of_what_agents_send_ends_a_stage_or_costs_an_honest_record(mutants: int) -> None:
    found = attack(mutants, seed=7)
    assert found.lost == []
    assert found.taken > mutants // 3
    assert found.refused.total() > mutants // 3
    assert found.letters.total() > mutants // 30


def test_every_stage_that_reads_telemetry_is_attacked() -> None:
    assert {appdb.SOURCE, "pricing", "prediction"} < set(Region().stages)
