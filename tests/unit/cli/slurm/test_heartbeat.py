"""A Slurm that answers is said to be there, every 30 s."""

import pytest
from coplace.v1.ingest_service_pb2 import Envelope

from cli.slurm.heartbeat import SlurmHeartbeat


class Ingest:
    """Takes what is sent, unless it is down."""

    def __init__(self) -> None:
        self.taken: list[Envelope] = []
        self.is_down = False

    def send(self, address: str, event: Envelope) -> None:
        if self.is_down:
            raise OSError("down")
        self.taken.append(event)


def test_it_is_said_at_once_and_then_every_30_s() -> None:
    ingest, clock = Ingest(), iter([0.0, 0.0, 5.0, 29.0, 30.0, 35.0, 61.0])
    heartbeat = SlurmHeartbeat("ingest:1", "north", "alpha", ingest.send, lambda: next(clock))
    said = []
    for _ in range(6):
        heartbeat.beat()
        said.append(len(ingest.taken))
    assert said == [1, 1, 1, 2, 2, 3]
    word = ingest.taken[0].manager_alive
    assert (word.manager, [*word.clusters]) == ("Slurm alpha of north", ["alpha"])
    assert word.silent_after_s == 90


def test_what_did_not_arrive_is_said_again_at_the_next_look() -> None:
    ingest = Ingest()
    clock = iter([0.0, 0.0, 5.0])
    heartbeat = SlurmHeartbeat("ingest:1", "north", "alpha", ingest.send, lambda: next(clock))
    ingest.is_down = True
    with pytest.raises(OSError, match="down"):
        heartbeat.beat()
    ingest.is_down = False
    heartbeat.beat()
    assert len(ingest.taken) == 1
