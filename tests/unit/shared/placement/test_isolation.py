"""A job that a defect of placement meets is held; the others start."""

from collections.abc import Callable
from typing import Any

import pytest
from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.placement_pb2 import (
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_START,
    PlacementDecided,
)

from services.placement.app import stages
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import TopicPartition
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.placement import processor
from shared.placement.candidates import candidate as model
from shared.placement.outcomes import Outcomes
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from tests.unit.shared.placement import region

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
        if BAD in job_of(*args):
            raise AssertionError("a planted bug")
        return healthy(*args)

    return planted


def plant_in_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = fails_for_bad(Outcomes.started, lambda _self, job, *_rest: job.job.job_id)
    monkeypatch.setattr(Outcomes, "started", planted)


def plant_in_weighing(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = fails_for_bad(
        model.evaluate, lambda jobs, *_rest: " ".join(job.job_id for job in jobs)
    )
    monkeypatch.setattr(processor, "evaluate", planted)


@pytest.mark.parametrize("plant", [plant_in_starts, plant_in_weighing])
def test_only_the_job_that_a_bug_meets_is_held_and_a_release_after_the_repair_starts_it(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    partition = Region()
    partition.round_of(*region.models(nodes=16))
    plant(monkeypatch)
    jobs = ["a", "b", BAD, "c", "d"]
    decided = partition.round_of(*[region.submitted(f"{job}/{n}") for n, job in enumerate(jobs)])
    verdicts = {found.job_id: found.verdict for found in decided}
    assert verdicts == {
        f"{job}/{n}": VERDICT_HELD if job == BAD else VERDICT_START for n, job in enumerate(jobs)
    }
    [held] = [found for found in decided if found.verdict == VERDICT_HELD]
    assert "deciding on it failed" in held.reason
    assert "a planted bug" in held.reason
    assert partition.deaths == 3
    monkeypatch.undo()
    released = region.released(f"{BAD}/2", region.end_us(2))
    assert [found.verdict for found in partition.round_of(released)] == [VERDICT_START]


def test_a_job_that_is_held_for_a_bug_stays_held_over_rounds_and_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = Region()
    partition.round_of(*region.models(nodes=1))
    plant_in_weighing(monkeypatch)
    partition.round_of(region.submitted("bad/1"))
    [decided] = partition.round_of(region.submitted("good/1"))
    assert decided.verdict in (VERDICT_START, VERDICT_QUEUED)
    assert decided.job_id == "good/1"
