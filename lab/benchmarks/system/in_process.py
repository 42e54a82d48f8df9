"""How fast one process decides: ingest's checks and every stage over the log in memory."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.placement_pb2 import VERDICT_START

from lab.benchmarks.system.jobs import Submitted, requests, started, submitted_at
from lab.benchmarks.system.step import Kind
from lab.demo import embedded
from lab.demo.embedded import EmbeddedSystem
from lab.demo.options import DemoOptions
from lab.emulator.adapters import MARKED
from lab.emulator.emulator import RoundOutput
from shared.catalogue.event import Event, Publish
from shared.streams.stages.stage import Round

# Enough finished jobs and pairs for both models to be trained on.
HISTORY_JOBS: Final = 250
_ROUND_US: Final = 100_000
_ROUND_JOBS: Final = 50


class InProcess:
    """A system with a past: the built-in workload has been played on it."""

    def __init__(self) -> None:
        self._system: EmbeddedSystem = embedded.run(DemoOptions(jobs=HISTORY_JOBS), _ignore)
        self.history = [*_without_barriers(self._system)]
        barriers = (event.payload for event in self._system.topic(MARKED[0]))
        ended = [barrier for barrier in barriers if isinstance(barrier, RoundEnded)]
        self._round = Round(ended[-1].round, ended[-1].ended_at_us)
        self._system.new_answers()

    def jobs_per_s(self, queued: int, rounds: int) -> float:
        """Measure jobs decided a second of rounds in which nothing starts, behind `queued` waiting
        jobs."""
        first_index = 0
        for kind, jobs in ((Kind.FILL, 64), (Kind.WIDE, 16), (Kind.QUEUE, queued)):
            self._play(kind, jobs, first_index, jobs)
            first_index += jobs
        jobs = rounds * _ROUND_JOBS
        return jobs / self._play(Kind.WAIT, jobs, first_index, _ROUND_JOBS)

    def _play(self, kind: Kind, jobs: int, first_index: int, per_round: int) -> float:
        """Seconds that these rounds took."""
        wanted = requests(kind, jobs, first_index)
        took_s = 0.0
        for begin in range(0, jobs, per_round):
            due = wanted[begin : begin + per_round]
            now_us = self._round.ended_at_us + 1
            submitted = [submitted_at(request, now_us) for request in due]
            began_s = time.perf_counter()
            self._end_round([job.submission() for job in submitted])
            took_s += time.perf_counter() - began_s
            self._obey({job.job_id: job for job in submitted})
        return took_s

    def _end_round(self, events: Sequence[Publish]) -> None:
        self._round = Round(self._round.number + 1, self._round.ended_at_us + _ROUND_US)
        self._system.publish(RoundOutput(tuple(events), self._round))

    def _obey(self, jobs: dict[str, Submitted]) -> None:
        decided = self._system.new_answers().decisions
        starts = [d for d in decided if d.verdict == VERDICT_START]
        now_us = self._round.ended_at_us
        if starts:
            self._end_round([started(jobs[d.job_id], d, now_us) for d in starts])


def _without_barriers(system: EmbeddedSystem) -> Iterator[Publish]:
    """Everything that ingest took in, in the order of its time."""
    found: list[tuple[str, Event]] = [(topic, e) for topic in MARKED for e in system.topic(topic)]
    for topic, event in sorted(found, key=lambda pair: (pair[1].time_us, pair[1].id)):
        if not isinstance(event.payload, RoundEnded):
            yield Publish(topic, event)


def _ignore(_finished: int) -> None:
    return None
