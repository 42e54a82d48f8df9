"""Requests to a job that runs: whether it may be asked, and as which action."""

from collections.abc import Mapping, Sequence
from typing import Final

from shared.placement.decide.outcomes import ActionAsked
from shared.placement.evaluate.known_clusters import KnownClusters
from shared.placement.evaluate.modes import modes_of
from shared.placement.measures.clock_steps import Pace
from shared.placement.state.actions import Action, ActionCause, ActionKind
from shared.placement.state.candidate import Candidate
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.model_store import ModelStore

# A P-state draws so much more or less than another one to be worth an action.
WORTH_IT: Final = 0.9


class Asking:
    """Asks as of the end of a round."""

    def __init__(self, job_table: JobTable, models: ModelStore, clusters: KnownClusters) -> None:
        self._job_table, self._models, self._clusters = job_table, models, clusters
        self.now_s = 0.0

    @property
    def retry_s(self) -> float:
        """Return how long nothing is asked again that was refused."""
        return self._models.rules.now.action_retry_s

    def may_ask(self, job: JobRecord, placed: JobAllocation, kind: ActionKind) -> bool:
        """Return False for a job that is to end, or was asked to be requeued, whose cluster is
        lost, or where it was just refused."""
        is_to_go = job.requests.cancelled is not None or any(
            action.kind is ActionKind.REQUEUE for action in job.run.actions
        )
        is_there = not is_to_go and placed.cluster not in self._models.lost
        return is_there and not job.run.is_refused(kind, self.now_s - self.retry_s)

    def may_set_pstate(self, job: JobRecord, placed: JobAllocation) -> bool:
        """Return False where nothing may be asked, and for a job that is suspended or not
        metered."""
        is_metered_run = not (job.run.is_suspended or placed.silent_units)
        return is_metered_run and self.may_ask(job, placed, ActionKind.SET_PSTATE)

    def action(
        self,
        job: JobRecord,
        placed: JobAllocation,
        kind: ActionKind,
        cause: ActionCause,
        *,
        stops: bool,
    ) -> Action:
        """Return the next action on a job, in the mode that it has or was asked to have."""
        mode = placed.freq_ghz, placed.draw_mw or 0, placed.walltime_s
        if job.run.actions:
            last = job.run.actions[-1]
            mode = last.freq_ghz, last.draw_mw, last.walltime_s
        return Action(job.run.asked_actions + 1, kind, *mode, stops, self.now_s, cause)

    def set_pstate(self, job: JobRecord, mode: Candidate, cause: ActionCause) -> Action:
        """Return the next action on a job: it is to run in this mode."""
        return self.set_pace(job, Pace(mode.freq_ghz, mode.draw_mw, mode.walltime_s), cause)

    def set_pace(self, job: JobRecord, pace: Pace, cause: ActionCause) -> Action:
        """Return the next action on a job: it is to run at this pace."""
        kind, number = ActionKind.SET_PSTATE, job.run.asked_actions + 1
        return Action(number, kind, *pace, False, self.now_s, cause)

    def ask(
        self,
        job: JobRecord,
        placed: JobAllocation,
        action: Action,
    ) -> ActionAsked:
        """Ask a resource manager for an action."""
        self._job_table.ask(job, action)
        return ActionAsked(job, placed, action)

    def modes(self, job: JobRecord, placed: JobAllocation) -> Sequence[Candidate]:
        """Return the modes in which a running job could run where it is."""
        found = self.modes_of([job], placed.cluster)
        return found.get((job.job.job_id, placed.cluster), ())

    def modes_of(
        self, jobs: Sequence[JobRecord], cluster: str
    ) -> Mapping[tuple[str, str], tuple[Candidate, ...]]:
        """Return the modes of several jobs on one cluster, by job id and cluster. One of which
        nothing says what it draws has none: it may draw its nameplate at any clock."""
        jobs = [
            job for job in jobs if not (job.run.allocation and job.run.allocation.power_unknown)
        ]
        on = [each for each in self._clusters() if each.cluster.name == cluster]
        return modes_of(jobs, on, self._models.rules.now)
