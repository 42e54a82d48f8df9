"""What a play on one Slurm showed, and what is wrong with it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

from tests.slurm.lines import Line
from tests.slurm.play import Play
from tests.slurm.watcher import ShownJob

MOST_WASTED_S: Final = 10.0
MOST_HELD_SHARE: Final = 0.02
# Of a heterogeneous job.
_PARTS: Final = 2
# slurmctld saves its state so long behind a change at most (SAVE_MAX_WAIT), and takes a moment.
_FORGETS_S: Final = 6.0
# Slurm writes whole seconds.
_A_SECOND_S: Final = 1.0


class Outcome:
    """The end of a play in which slurmctld was killed at some times, in seconds since 1970: what it
    did just before, it may have forgotten."""

    def __init__(self, play: Play, killed_s: Sequence[float] = ()) -> None:
        self._play, self.lines, self.watcher = play, play.lines, play.watcher
        self._killed_s = killed_s
        self._eligible = play.eligible()
        self.jobs = [job for job in play.jobs if job.number in play.places]

    def line(self, job: ShownJob) -> Line:
        """Return the line of a job."""
        return self.lines[self._play.places[job.number]]

    @property
    def runs(self) -> Counter[tuple[int, int]]:
        """How often a task of a line began, by what it wrote itself; but those of its runs that
        Slurm may have forgotten, where it began again."""
        began = defaultdict[tuple[int, int], list[float]](list)
        for place, _, task, at_s in self._play.journal():
            began[place, task].append(at_s)
        return Counter(
            {
                key: 1 + sum(not self._may_forget(at_s) for at_s in sorted(times_s)[:-1])
                for key, times_s in began.items()
            }
        )

    def is_lost(self, place: int) -> bool:
        """Return whether Slurm may have forgotten that a line was submitted."""
        return self._may_forget(self._play.submitted_s.get(place, 0.0))

    def _may_forget(self, at_s: float) -> bool:
        return any(0 <= killed_s - at_s <= _FORGETS_S for killed_s in self._killed_s)

    @property
    def began(self) -> set[int]:
        """The lines of which something ran."""
        return {self._play.places[job.number] for job in self.jobs if job.has_run} | {
            place for place, _ in self.runs
        }

    @property
    def makespan_s(self) -> float:
        """From the first submission to the last end."""
        ran = [job for job in self.jobs if job.has_run]
        first_s = min(job.submit_s for job in self.jobs)
        return max((job.end_s for job in ran), default=0) - first_s

    def waits_s(self) -> dict[tuple[int, int], float]:
        """How long jobs waited that were eligible, by line and task. Those that were requeued have
        other times, and those that were cancelled may not have begun."""
        found = {}
        for job in self.jobs:
            since_s = self._eligible.since_s(job)
            line = self.line(job)
            if since_s is not None and job.has_run and not job.restarts and not line.cancel_s:
                found[self._play.places[job.number], job.task] = job.start_s - since_s
        return found

    def wrong(self) -> Iterator[str]:
        """Yield what is not as it must be of jobs that ran."""
        for (place, task), times in self.runs.items():
            if times > 1 + self.lines[place].requeues:
                yield f"line {place} task {task} began {times} times"
        for job in self.jobs:
            line = self.line(job)
            for problem in (*_of_where(job, line), *self._of_when(job), *_of_end(job, line)):
                yield f"{job.number}_{job.task} ({line.kind}) {problem}"
        yield from self._of_parts()
        if "BadConstraints" in self.watcher.reasons:
            yield "BadConstraints was seen"

    def _of_parts(self) -> Iterator[str]:
        """Yield which heterogeneous jobs did not start whole; squeue numbers their parts as it does
        tasks."""
        began = defaultdict[int, list[int]](list)
        for job in self.jobs:
            if self.line(job).beside:
                began[job.number].append(job.start_s if job.has_run else 0)
        for number, times_s in began.items():
            if len(times_s) != _PARTS or len({*times_s}) != 1:
                yield f"{number} (het) has parts that began at {times_s}"

    def _of_when(self, job: ShownJob) -> Iterator[str]:
        since_s = self._eligible.since_s(job)
        if not job.has_run or job.restarts:
            return
        if since_s is None:
            yield "ran, and was not eligible"
        elif job.start_s + _A_SECOND_S < since_s:
            yield f"began {since_s - job.start_s:g} s before it was eligible"

    def summary(self) -> str:
        """Return a line of figures."""
        waits = list(self.waits_s().values())
        states = dict(Counter(job.state for job in self.jobs))
        return (
            f"{len(self.jobs)} jobs and tasks {states}, makespan {self.makespan_s:g} s, mean wait "
            f"{fmean(waits) if waits else 0:.2f} s, node idle beside a job at most "
            f"{self.watcher.longest_wasted_s:.1f} s ({self.watcher.longest.get('node')}), "
            f"job passed over "
            f"{self.watcher.longest_passed_s:.1f} s ({self.watcher.longest.get('job')}), "
            f"{self._play.looks} looks, refused {self._play.refused}"
        )


def _of_where(job: ShownJob, line: Line) -> Iterator[str]:
    may_use = line.beside_may_use if line.beside and job.task else line.may_use
    if not may_use.issuperset(job.names):
        yield f"ran on {job.nodes}, not in {sorted(may_use)}"


def _of_end(job: ShownJob, line: Line) -> Iterator[str]:
    wanted = "FAILED" if line.exit_code else "COMPLETED"
    if job.state != wanted and not (line.cancel_s and job.state == "CANCELLED"):
        yield f"is {job.state} ({job.reason}), restarts {job.restarts}"
