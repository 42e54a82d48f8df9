"""The jobs that run at the end of a round, and what each of them could give up."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from shared.domain.job import JobState
from shared.domain.pstates import same_ghz
from shared.placement.measures.asking import WORTH_IT, Asking
from shared.placement.measures.clock_steps import ClockStep, Pace, steps_down, worth
from shared.placement.state.candidate import Candidate
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord

JobOnNodes = tuple[JobRecord, JobAllocation]


class Givers:
    """Jobs with nodes, by cluster; what can be said of them is worked out when it is asked for."""

    def __init__(self, asking: Asking, holding: Iterable[JobOnNodes]) -> None:
        self._asking = asking
        self._on: dict[str, list[JobOnNodes]] = {}
        for job, placed in holding:
            self._on.setdefault(placed.cluster, []).append((job, placed))
        self._full: dict[str, int] = {}
        self._steps: dict[frozenset[str], list[ClockStep]] = {}
        self._modes: dict[str, Mapping[tuple[str, str], tuple[Candidate, ...]]] = {}

    @cached_property
    def by_arrival(self) -> Mapping[int, JobOnNodes]:
        """Return each job by its arrival number."""
        return {job.arrival: (job, on) for runs in self._on.values() for job, on in runs}

    def full_mw(self, clusters: Collection[str]) -> int:
        """Return what all jobs on these clusters would draw beyond idle, each at the P-state that
        it wants."""
        for name in clusters:
            if name not in self._full:
                self._full[name] = sum(self._full_mw(*run) for run in self._on.get(name, ()))
        return sum(self._full[name] for name in clusters)

    def steps(self, clusters: Collection[str]) -> list[ClockStep]:
        """Return all steps down of the jobs on these clusters that may be asked, in their order."""
        key = frozenset(clusters)
        if key not in self._steps:
            runs = (run for name in sorted(key) for run in self._on.get(name, ()))
            self._steps[key] = sorted(step for run in runs for step in self._steps_of(*run))
        return self._steps[key]

    def worth_per_mw(self, run: JobOnNodes) -> float:
        """Return what one more milliwatt takes off the bounded slowdown of a run that is slowed
        down, in the mean until it runs as it wants to, 1/s."""
        job, placed = run
        own = self._own(job, placed)
        if own is None:
            return 0.0
        gain = worth(own.walltime_s, own.walltime_s) - worth(placed.walltime_s, own.walltime_s)
        return gain / max(own.draw_mw - job.run.drawn_mw, 1)

    def _full_mw(self, job: JobRecord, placed: JobAllocation) -> int:
        own = self._own(job, placed) if placed.freq_ghz < placed.wanted_ghz else None
        return max(placed.counted_mw, job.run.drawn_mw, own.draw_mw if own else 0)

    def _steps_of(self, job: JobRecord, placed: JobAllocation) -> Iterator[ClockStep]:
        """Yield the steps of a job: none where it is to change already, or runs at a P-state of its
        own."""
        own = self._own(job, placed)
        is_still = (
            job.life.state is JobState.RUNNING
            and not job.run.actions
            and job.requests.suspend is None
        )
        if own is None or not is_still or not self._asking.may_set_pstate(job, placed):
            return
        # A P-state that placement did not choose is 0: none is lower.
        now = Pace(placed.freq_ghz, job.run.drawn_mw, placed.walltime_s)
        lower = [
            Pace(mode.freq_ghz, mode.draw_mw, mode.walltime_s)
            for mode in self._modes_of(job, placed)
            if mode.draw_mw <= WORTH_IT * job.run.drawn_mw
            if mode.freq_ghz < placed.freq_ghz
        ]
        yield from steps_down(job.arrival, now, lower, own.walltime_s)

    def _own(self, job: JobRecord, placed: JobAllocation) -> Candidate | None:
        """Return a job in the P-state that it wants; None where nothing is known of that any
        more."""
        modes = self._modes_of(job, placed)
        return next((m for m in modes if same_ghz(m.freq_ghz, placed.wanted_ghz)), None)

    def _modes_of(self, job: JobRecord, placed: JobAllocation) -> tuple[Candidate, ...]:
        name = placed.cluster
        if name not in self._modes:
            jobs = [each for each, _ in self._on[name]]
            self._modes[name] = self._asking.modes_of(jobs, name)
        return self._modes[name].get((job.job.job_id, name), ())
