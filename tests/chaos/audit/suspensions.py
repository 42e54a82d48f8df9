"""What operators say of runs is done. That who was suspended runs on at last is seen by its end."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_RESUME,
    VERDICT_ACTION,
    VERDICT_START,
    PlacementDecided,
)

from shared.catalogue.event import Event
from tests.chaos.audit.arrays import array_of
from tests.chaos.audit.evidence import Evidence

_MAY_END = (
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)


@dataclass(slots=True)
class _Run:
    """A start that was decided; untouched until anything is asked of it."""

    cluster: str
    start: tuple[int, int]
    is_confirmed: bool = False
    is_untouched: bool = True
    is_to_stand: bool = False
    is_to_go_back: bool = False


@dataclass(slots=True)
class _Known:
    """What runs, and the newest word of operators on each job: copies of older ones, which may be
    of runs before, say nothing."""

    runs: dict[str, _Run] = field(default_factory=dict)
    newest: dict[str, tuple[int, str]] = field(default_factory=dict)
    asked_back: dict[str, tuple[int, str]] = field(default_factory=dict)

    def fold(self, event: Event) -> None:
        """What placement takes in."""
        payload, job_id = event.payload, getattr(event.payload, "job_id", "")
        run = self.runs.get(job_id)
        match payload:
            case JobSuspended() | JobResumed():
                stamp = event.time_us, event.id
                is_news = stamp > self.newest.get(job_id, (0, ""))
                self.newest[job_id] = max(stamp, self.newest.get(job_id, stamp))
                if run is not None and is_news:
                    run.is_to_stand = isinstance(payload, JobSuspended)
            case JobRequeueAsked():
                stamp = event.time_us, event.id
                is_news = stamp > self.asked_back.get(job_id, (0, ""))
                self.asked_back[job_id] = max(stamp, self.asked_back.get(job_id, stamp))
                if run is not None and is_news and payload.attempt == run.start[0]:
                    run.is_to_go_back = True
            case JobStarted() if run and (payload.attempt, payload.grant) == run.start:
                run.is_confirmed = payload.cluster == run.cluster
            case _ if isinstance(payload, _MAY_END):
                self._end(job_id, with_tasks=isinstance(payload, JobCancelled))

    def _end(self, job_id: str, *, with_tasks: bool) -> None:
        ended = {job_id}
        if with_tasks:
            ended |= {one for one in self.runs if array_of(one) == job_id}
        for one in ended & self.runs.keys():
            del self.runs[one]


def whoever_an_operator_suspends_is_asked_to_stand_still(evidence: Evidence) -> Iterator[str]:
    """In the round in which that is known of a run that its resource manager confirmed and of which
    nothing else was asked."""
    for ended, runs, _ in _rounds(evidence):
        lost = evidence.known.lost_at(ended.round)
        for job_id, run in runs.items():
            is_there = run.is_confirmed and run.cluster not in lost
            if is_there and run.is_to_stand and run.is_untouched:
                yield f"round {ended.round}: {job_id} is suspended, and is not asked"


def whoever_is_to_be_put_back_is_asked_to(evidence: Evidence) -> Iterator[str]:
    """In the round in which that is known, too."""
    for ended, runs, _ in _rounds(evidence):
        lost = evidence.known.lost_at(ended.round)
        for job_id, run in runs.items():
            is_there = run.is_confirmed and run.cluster not in lost
            if is_there and run.is_to_go_back and run.is_untouched:
                yield f"round {ended.round}: {job_id} is to be requeued, and is not asked"


def nobody_is_asked_to_run_on_whom_an_operator_suspends(evidence: Evidence) -> Iterator[str]:
    """Whatever watts there are."""
    for ended, runs, asked in _rounds(evidence):
        for decided in asked:
            run = runs.get(decided.job_id)
            if run and run.is_to_stand and decided.action.kind == ACTION_KIND_RESUME:
                yield f"round {ended.round}: {decided.job_id} is suspended, and is to run on"


def _rounds(
    evidence: Evidence,
) -> Iterator[tuple[RoundEnded, dict[str, _Run], list[PlacementDecided]]]:
    """Each round with the runs as placement knew them, and what it asked of them."""
    known = _Known()
    runs = known.runs
    for ended in evidence.ends_of_rounds(known.fold):
        decisions = evidence.by_round.get(ended.round, [])
        asked = [decided for decided in decisions if decided.verdict == VERDICT_ACTION]
        for decided in asked:
            if decided.job_id in runs:
                runs[decided.job_id].is_untouched = False
        yield ended, runs, asked
        for decided in decisions:
            if decided.verdict == VERDICT_START:
                runs[decided.job_id] = _Run(decided.cluster, (decided.attempt, decided.grant))
