"""The plan that a planner proposed, as long as it holds: a fold, and what it says of each job.

The newest proposed plan waits until the round that brought it ends, when all jobs are evaluated.
Then each of its items is reckoned anew with what is known here: nothing that a plan says of limits
and draws is believed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from coplace.v1.plans_pb2 import PlanItem, PlanProposed

from shared.catalogue.event import Event
from shared.domain.pstates import same_ghz
from shared.placement.state.candidate import Candidate, Modes
from shared.placement.state.job_record import JobRecord
from shared.placement.state.planned import PLANNED, PlanInForce, PlannedJob, PlannedMode
from shared.scheduling.power import milliwatts
from shared.streams.stages.stage import AlreadyAppliedError, Round
from shared.streams.state.state import State

# How much more a mode may take than the plan was reckoned with: signatures move between rounds.
_STILL_FITS: Final = 1.1


class Plans:
    """Folds plans, newest first: see the module. `now_s` is the end of the round in hand."""

    def __init__(self, state: State) -> None:
        self.now_s = -inf
        self._kept_proposal = state.value("plan-proposed", PlanProposed)
        self._kept_in_force = state.value("plan", PlanInForce)
        self._rows = state.table("planned", PLANNED)
        self.in_force = self._kept_in_force.get() or PlanInForce()
        self._jobs: Mapping[str, PlannedJob] = self._rows.rows

    def propose(self, event: Event, message: PlanProposed) -> None:
        """Keep a plan until the round ends. Raises AlreadyAppliedError for one that is not made
        after the newest that is known."""
        if message.based_at_us <= self.newest_us:
            raise AlreadyAppliedError(event.id)
        self._kept_proposal.put(message)

    def take_proposed(self, ended: Round) -> PlanProposed | None:
        """Remove and return the proposed plan, if it may replace the one in force: a plan is made
        after a round that has ended, and of now."""
        proposed = self._kept_proposal.get()
        if proposed is None:
            return None
        self._kept_proposal.drop()
        is_past = proposed.round < ended.number and proposed.based_at_us < ended.ended_at_us
        return proposed if is_past and proposed.valid_until_us > ended.ended_at_us else None

    def follow(
        self, proposed: PlanProposed, jobs: Mapping[str, JobRecord], modes: Modes
    ) -> set[str]:
        """Put a plan in force, by these modes of its jobs; return jobs whose entries may change."""
        planned = _planned(proposed, jobs, modes)
        changed = self._jobs.keys() | planned.keys()
        self._put_in_force(
            PlanInForce(proposed.round, proposed.based_at_us, proposed.valid_until_us / 1e6),
            planned,
        )
        return changed

    def pass_time(self, now_s: float) -> set[str]:
        """End a round then; return the ids of the jobs whose entries this changes: the plan does
        not hold any more, or a time has come that it names."""
        before_s, self.now_s = self.now_s, now_s
        if self._jobs and self.in_force.valid_until_s <= now_s:
            changed = set(self._jobs)
            self._put_in_force(self.in_force, {})
            return changed
        return {
            job_id
            for job_id, planned in self._jobs.items()
            if any(before_s < mode.not_before_s <= now_s for mode in planned.modes.values())
        }

    def of(self, job: JobRecord) -> Mapping[str, PlannedMode]:
        """Return what the plan says of a job, by cluster; nothing where it has none."""
        planned = self._jobs.get(job.job.job_id)
        return planned.modes if planned and planned.attempt == job.job.attempt else {}

    def leave_out(self, job_id: str) -> None:
        """Plan a job no more: it asks for something else than was reckoned with."""
        if job_id in self._jobs:
            self._rows.drop(job_id)

    def due_s(self) -> Iterator[float]:
        """Yield when the plan lets something start that it holds back, and when it ends."""
        for planned in self._jobs.values():
            for mode in planned.modes.values():
                if mode.not_before_s > self.now_s:
                    yield mode.not_before_s
        if self._jobs:
            yield self.in_force.valid_until_s

    def forget(self) -> None:
        """Forget all plans."""
        self._kept_proposal.drop()
        self._kept_in_force.drop()
        self._rows.clear()

    @property
    def newest_us(self) -> int:
        """Return when the newest plan that is known was made, -1 without any."""
        proposed = self._kept_proposal.get()
        return max(self.in_force.based_at_us, proposed.based_at_us if proposed else -1)

    def _put_in_force(self, plan: PlanInForce, jobs: dict[str, PlannedJob]) -> None:
        if plan != self.in_force:
            self.in_force = plan
            self._kept_in_force.put(plan)
        for job_id in list(self._jobs.keys() - jobs.keys()):
            self._rows.drop(job_id)
        for job_id, planned in jobs.items():
            if self._jobs.get(job_id) != planned:
                self._rows.put(job_id, planned)


def repair(state: State, now_us: int) -> None:
    """Drop a plan that a wrong clock dated to the future, since none of now would replace it."""
    plans = Plans(state)
    if plans.newest_us > now_us:
        plans.forget()


def jobs_of(proposed: PlanProposed) -> Sequence[str]:
    """Return the ids of the jobs that a plan names, each once."""
    return list(dict.fromkeys(item.job_id for item in proposed.items))


def wanted_ghz(proposed: PlanProposed) -> dict[tuple[str, str], list[float]]:
    """Return the P-states that a plan names, by job id and cluster."""
    wanted: dict[tuple[str, str], list[float]] = {}
    for item in proposed.items:
        wanted.setdefault((item.job_id, item.cluster), []).append(item.freq_ghz)
    return wanted


def _planned(
    proposed: PlanProposed, jobs: Mapping[str, JobRecord], modes: Modes
) -> dict[str, PlannedJob]:
    """Return the items that can be followed, by job; of two for one cluster the first."""
    found: dict[str, dict[str, PlannedMode]] = {}
    for place, item in enumerate(proposed.items):
        job_id, cluster = item.job_id, item.cluster
        job = jobs.get(job_id)
        if job is None or job.job.attempt != item.attempt:
            continue
        mode = _mode(item, modes.get((job_id, cluster), ()))
        if mode is not None:
            planned = PlannedMode(place, item.tier, item.not_before_us / 1e6, mode)
            found.setdefault(job_id, {}).setdefault(cluster, planned)
    return {job_id: PlannedJob(jobs[job_id].job.attempt, on) for job_id, on in found.items()}


def _mode(item: PlanItem, modes: Iterable[Candidate]) -> Candidate | None:
    """Return the mode that an item means, unless it takes more than the plan reckoned with."""
    for mode in modes:
        if same_ghz(mode.freq_ghz, item.freq_ghz):
            fits = mode.walltime_s <= item.walltime_s * _STILL_FITS
            most_mw = milliwatts(item.draw_w * _STILL_FITS)
            return mode if fits and mode.draw_mw <= most_mw else None
    return None
