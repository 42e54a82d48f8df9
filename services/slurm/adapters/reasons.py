"""Notes in jobs why they wait, and when they are expected to start."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import ListedJob

from coplace_client.errors import RejectedError
from services.slurm.adapters.notes import JobNotes, noted
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.jobs import SlurmJob
from shared.slurm.facts import Site, identify

_MINUTE_S: Final = 60.0
# Of the time until a start that is expected: by less it may move before that is noted.
_MOVES: Final = 0.1


class _NotedReason(NamedTuple):
    """What was noted in a job, when, and the start that was expected; 0: none."""

    reason: str
    at_s: float
    start_s: float = 0.0


class Reasons:
    """Makes notes where what they say has changed, so many commands of Slurm a minute at most: a
    job whose note is the oldest comes first, and jobs with the same note go together."""

    def __init__(
        self,
        region: AskedRegion,
        notes: JobNotes,
        site: Site,
        clusters: Iterable[str],
        every_s: float,
        per_minute: int,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._region, self._notes, self._site = region, notes, site
        self._clusters, self._per_minute, self._clock_s = list(clusters), per_minute, clock_s
        self._every_s, self._due_s = every_s, -inf
        self._noted: dict[str, _NotedReason] = {}
        self._left, self._filled_s = float(per_minute), clock_s()

    def note(self, shown: Iterable[SlurmJob], held_because: Mapping[int, str]) -> None:
        """Note it in those that wait, where it is time to, or somebody waits in salloc or srun to
        whom nothing was said; some are held for reasons that are known here. Raises UnansweredError
        and SlurmError."""
        now_s = self._clock_s()
        waiting = [job for job in shown if self._has_note(job)]
        is_due = now_s >= self._due_s or any(map(self._is_unanswered, waiting))
        if not waiting or not self._per_minute or not is_due:
            return
        self._due_s = now_s + self._every_s
        listed = {
            each.job_id: each
            for cluster in self._clusters
            for each in self._region.waiting_jobs(cluster)
        }
        fresh: dict[str, _NotedReason] = {}
        by_note: dict[str, list[SlurmJob]] = {}
        for job in waiting:
            name = self._id(job)
            found = self._found(listed.get(name), held_because.get(job.job_id, ""), now_s)
            before = self._noted.get(name)
            if found is None or (before is not None and _is_as_before(found, before)):
                continue
            if job.note == (words := _words(found)):
                self._noted[name] = found
                continue
            fresh[name] = found
            by_note.setdefault(words, []).append(job)
        names = {self._id(job) for job in waiting}
        self._noted = {name: each for name, each in self._noted.items() if name in names}
        for words, jobs in sorted(by_note.items(), key=lambda each: self._oldest_s(each[1])):
            if not self._may_ask(now_s):
                break
            self._notes.note(jobs, words)
            self._noted.update((name, fresh[name]) for name in map(self._id, jobs))

    def _has_note(self, job: SlurmJob) -> bool:
        is_decided = job.is_given_back or job.word.is_started
        is_asked = job.is_pending and job.is_placed and not is_decided
        return is_asked and self._notes.may_note(job)

    def _is_unanswered(self, job: SlurmJob) -> bool:
        return job.is_interactive and self._id(job) not in self._noted

    def _found(self, listed: ListedJob | None, held: str, now_s: float) -> _NotedReason | None:
        """Return what is to be noted; None where nothing is known."""
        if held:
            return _NotedReason(f"held: {held}", now_s)
        if listed is None or not listed.reason:
            return None
        start_s = listed.forecast.start_at_us / 1e6 if listed.forecast.cluster else 0.0
        return _NotedReason(listed.reason, now_s, start_s)

    def _oldest_s(self, jobs: Sequence[SlurmJob]) -> float:
        return min(
            each.at_s if each else -inf for each in map(self._noted.get, map(self._id, jobs))
        )

    def _may_ask(self, now_s: float) -> bool:
        """Take one of the commands of this minute."""
        refilled = (now_s - self._filled_s) / _MINUTE_S * self._per_minute
        self._left = min(self._per_minute, self._left + max(0.0, refilled))
        self._filled_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _id(self, job: SlurmJob) -> str:
        try:
            return identify(job.message(), self._site)
        except RejectedError:
            return ""


def _is_as_before(found: _NotedReason, before: _NotedReason) -> bool:
    """Return whether a note says about the same: a start moves a little with each round."""
    if found.reason != before.reason or bool(found.start_s) != bool(before.start_s):
        return False
    least_s = max(_MINUTE_S, _MOVES * (before.start_s - found.at_s))
    return abs(found.start_s - before.start_s) < least_s


def boot_note(decided: PlacementDecided) -> str:
    """Return what is noted in a job that starts on nodes which boot first."""
    nodes = ",".join(decided.booting) or "its nodes"
    return _noted_start(decided.decided_at_us / 1e6 + decided.boot_s, f"{nodes} boot first")


def _words(found: _NotedReason) -> str:
    return _noted_start(found.start_s, found.reason) if found.start_s else noted(found.reason)


def _noted_start(start_s: float, reason: str) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M", time.localtime(start_s))
    return noted(f"start expected {at}: {reason}")
