"""A Slurm that answers is said to be there, every 30 s."""

import pytest

from services.slurm.adapters.heartbeat import SlurmHeartbeat
from tests.unit.services.slurm.region import PlayedRegion


def test_it_is_said_at_once_and_then_every_30_s() -> None:
    region, clock = PlayedRegion(), iter([0.0, 0.0, 5.0, 29.0, 30.0, 35.0, 61.0])
    heartbeat = SlurmHeartbeat(
        region, "north", "alpha", ["alpha", "beta"], 30.0, lambda: next(clock)
    )
    said = []
    for _ in range(6):
        heartbeat.beat()
        said.append(len(region.told))
    assert said == [1, 1, 1, 2, 2, 3]
    word = region.told[0].manager_alive
    assert (word.manager, [*word.clusters]) == ("Slurm alpha of north", ["alpha", "beta"])
    assert word.silent_after_s == 90


def test_what_did_not_arrive_is_said_again_at_the_next_look() -> None:
    region = PlayedRegion()
    clock = iter([0.0, 0.0, 5.0])
    heartbeat = SlurmHeartbeat(
        region, "north", "alpha", ["alpha", "beta"], 30.0, lambda: next(clock)
    )
    region.failures = [OSError("down")]
    with pytest.raises(OSError, match="down"):
        heartbeat.beat()
    heartbeat.beat()
    assert len(region.told) == 1
