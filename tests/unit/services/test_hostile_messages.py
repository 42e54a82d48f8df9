"""An adversary speaks to ingest and writes to every topic; `make fuzz` does so for longer."""

import pytest

from tests.support.hostile_run import HostileRun


@pytest.mark.parametrize("seed", [2, 3])
def test_nothing_that_is_sent_stops_a_stage_or_makes_one_write_what_another_refuses(
    seed: int,
) -> None:
    run = HostileRun(seed)
    run.play(rounds=8, messages=40)
    assert run.faults() == []
    assert run.taken > 80
    assert run.refused.total() > 20


@pytest.mark.rest
def test_what_lasts_longer_stops_no_stage_either() -> None:
    """Clusters are declared smaller meanwhile, so that a job alone is too much for its nodes."""
    run = HostileRun(1)
    run.play(rounds=25, messages=40)
    assert run.faults() == []


def test_the_same_seed_draws_the_same_messages() -> None:
    runs = [HostileRun(4) for _ in range(2)]
    for run in runs:
        run.play(rounds=2, messages=20)
    assert runs[0].refused == runs[1].refused
    assert runs[0].taken == runs[1].taken
