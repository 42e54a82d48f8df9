"""What node agents send, mutated: the small form of `make fuzz ADAPTER=agents`."""

from services.energy.processor import appdb
from tests.attacks.agents import Region, attack


def test_no_mutant_of_what_agents_send_ends_a_stage_or_costs_an_honest_record() -> None:
    found = attack(mutants=3_000, seed=7)
    assert found.lost == []
    assert found.taken > 1_000
    assert found.refused.total() > 1_000
    assert found.letters.total() > 100


def test_every_stage_that_reads_telemetry_is_attacked() -> None:
    assert {appdb.SOURCE, "pricing", "prediction"} < set(Region().stages)
