"""A job that a defect of placement meets is held; the others start."""

from collections.abc import Callable
from typing import Any

import pytest
from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.placement_pb2 import (
    PlacementDecided,
)

from services.placement.app import stages
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import TopicPartition
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.placement.evaluate import evaluation as model
from shared.placement.evaluate import layer
from shared.placement.explain.pass_decisions import PassDecisions
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import verdict

BAD = "bad"


class Region:
    """Placement under a supervisor, fed with what the sequencer would write."""

    def __init__(self) -> None:
        self.deaths = 0
        self._codec = Codec(Topics(kafka_partitions=1))
        self._log = InMemoryLog()
        self._stage = stages(Settings(rounds=RoundSource.BARRIERS))[1]
        self._runtime = self._start()
        self._round = 0

    def round_of(self, *events: Event) -> list[PlacementDecided]:
        """What is decided at the end of a round that brings these events."""
        partition, seen = TopicPartition("placement.inputs", 0), len(self._decided())
        self._log.append(self._codec.encode(Publish("placement.inputs", e)) for e in events)
        self._live()
        ended_us, source = region.end_us(self._round), "placement.sequencer.0"
        barrier = RoundEnded(round=self._round, ended_at_us=ended_us)
        event_id = f"{source}/coplace.v1.RoundEnded/round/{self._round}"
        self._round += 1
        self._log.append(
            self._codec.encode_barrier(partition, Event(event_id, source, ended_us, "", barrier))
        )
        self._live()
        return self._decided()[seen:]

    def _live(self) -> None:
        while True:
            try:
                self._runtime.run_until_quiet()
            except AssertionError:
                self.deaths += 1
                if self.deaths > 9:
                    raise
                self._runtime.leave()
                self._runtime = self._start()
            else:
                return

    def _decided(self) -> list[PlacementDecided]:
        records = self._log.read(TopicPartition("placement.decisions", 0), 0, 9_999)
        payloads = [self._codec.decode(record).payload for record in records]
        return [payload for payload in payloads if isinstance(payload, PlacementDecided)]

    def _start(self) -> EmbeddedRuntime:
        return EmbeddedRuntime(self._log, [self._stage], codec=self._codec)


def fails_for_bad(healthy: Callable[..., Any], job_of: Callable[..., str]) -> Callable[..., Any]:
    def planted(*args: Any) -> Any:
        assert BAD not in job_of(*args), "a planted bug"
        return healthy(*args)

    return planted


def plant_in_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = fails_for_bad(
        PassDecisions.started, lambda _self, outcome, *_: outcome.job.job.job_id
    )
    monkeypatch.setattr(PassDecisions, "started", planted)


def plant_in_weighing(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = fails_for_bad(model.evaluate, lambda jobs, *_: " ".join(job.job_id for job in jobs))
    monkeypatch.setattr(layer, "evaluate", planted)


@pytest.mark.parametrize("plant", [plant_in_starts, plant_in_weighing])
def test_only_the_job_that_a_bug_meets_is_held_and_a_release_after_the_repair_starts_it(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    partition = Region()
    partition.round_of(*region.models(nodes=16))
    plant(monkeypatch)
    jobs = ["a", "b", BAD, "c", "d"]
    decided = partition.round_of(*[region.submitted(f"{job}/{n}") for n, job in enumerate(jobs)])
    assert dict(region.verdicts(decided)) == {
        f"{job}/{n}": "held" if job == BAD else "start" for n, job in enumerate(jobs)
    }
    [held] = [found for found in decided if verdict(found) == "held"]
    assert "deciding on it failed" in held.reason
    assert "a planted bug" in held.reason
    assert partition.deaths == 3
    [other] = partition.round_of(region.submitted("e"))
    assert (other.job_id, verdict(other)) == ("e", "start")
    monkeypatch.undo()
    released = region.released(f"{BAD}/2", region.end_us(3))
    assert region.starts(partition.round_of(released)) == [f"{BAD}/2"]
