"""Notes in jobs why they wait, and when they are expected to start."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from coplace.v1.placement_service_pb2 import ListedJob

from coplace_client.errors import RejectedError
from services.slurm.adapters.notes import JobNotes, NotesAMinute, noted_start
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.jobs import SlurmJob
from shared.slurm.facts import Site

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
        commands: NotesAMinute,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """As many `commands` as there are, also for others."""
        self._region, self._notes, self._site = region, notes, site
        self._clusters, self._commands, self._clock_s = list(clusters), commands, clock_s
        self._every_s, self._due_s = every_s, -inf
        self._noted: dict[str, _NotedReason] = {}
        self.prices: dict[str, str] = {}
        """What jobs that wait will cost, in words, by their ids."""

    def note(self, shown: Iterable[SlurmJob], held_because: Mapping[int, str]) -> None:
        """Note it in those that wait, where it is time to, or somebody waits in salloc or srun to
        whom nothing was said; some are held for reasons that are known here. Raises UnansweredError
        and SlurmError."""
        now_s = self._clock_s()
        waiting = [job for job in shown if self._has_note(job)]
        is_due = now_s >= self._due_s or any(map(self._is_unanswered, waiting))
        if not waiting or not self._commands.per_minute or not is_due:
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
            words = noted_start(found.start_s, self.prices.get(name, ""), found.reason)
            if job.note == words:
                self._noted[name] = found
                continue
            fresh[name] = found
            by_note.setdefault(words, []).append(job)
        names = {self._id(job) for job in waiting}
        self._noted = {name: each for name, each in self._noted.items() if name in names}
        self.prices = {name: each for name, each in self.prices.items() if name in names}
        for words, jobs in sorted(by_note.items(), key=lambda each: self._oldest_s(each[1])):
            if not self._commands.take():
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

    def _id(self, job: SlurmJob) -> str:
        try:
            return job.id_at(self._site)
        except RejectedError:
            return ""


def _is_as_before(found: _NotedReason, before: _NotedReason) -> bool:
    """Return whether a note says about the same: a start moves a little with each round."""
    if found.reason != before.reason or bool(found.start_s) != bool(before.start_s):
        return False
    least_s = max(_MINUTE_S, _MOVES * (before.start_s - found.at_s))
    return abs(found.start_s - before.start_s) < least_s
