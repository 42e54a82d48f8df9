"""How something is asked of a job that runs: whether it may be, and as which action."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from coplace.v1.placement_pb2 import PowerShortage

from shared.catalogue.event import Publish
from shared.placement.candidates.candidate import Candidate
from shared.placement.candidates.modes import modes_of
from shared.placement.jobs.actions import Action, ActionKind
from shared.placement.jobs.table import JobTable
from shared.placement.jobs.tracked import Placed, Tracked
from shared.placement.model_store import ModelStore
from shared.placement.outcomes import Decisions
from shared.placement.power.clock_steps import Pace

# A P-state draws so much more or less than another one to be worth an action.
WORTH_IT: Final = 0.9


class Asking:
    """Asks as of the end of a round."""

    def __init__(self, job_table: JobTable, models: ModelStore) -> None:
        self._job_table, self._models = job_table, models
        self.now_s = 0.0

    @property
    def retry_s(self) -> float:
        """How long nothing is asked again that was refused."""
        return self._models.rules.now.action_retry_s

    def may_ask(self, job: Tracked, placed: Placed, kind: ActionKind) -> bool:
        """False for a job that is to end, or was asked to be put back, whose cluster is lost, or
        where it was just refused."""
        is_to_go = job.cancelled is not None or any(
            action.kind is ActionKind.REQUEUE for action in job.actions
        )
        is_there = not is_to_go and placed.cluster not in self._models.lost
        return is_there and not job.is_refused(kind, self.now_s - self.retry_s)

    def may_set_pstate(self, job: Tracked, placed: Placed) -> bool:
        """The same, and False for one that stands still or that nobody meters."""
        is_metered_run = not (job.is_suspended or placed.silent_units)
        return is_metered_run and self.may_ask(job, placed, ActionKind.SET_PSTATE)

    def action(self, job: Tracked, placed: Placed, kind: ActionKind, *, stops: bool) -> Action:
        """The next action on a job, in the mode that it has or was asked to have."""
        mode = placed.freq_ghz, placed.draw_mw or 0, placed.walltime_s
        if job.actions:
            last = job.actions[-1]
            mode = last.freq_ghz, last.draw_mw, last.walltime_s
        return Action(job.asked_actions + 1, kind, *mode, stops, self.now_s, "")

    def set_pstate(self, job: Tracked, mode: Candidate, reason: str = "") -> Action:
        """The next action on a job: it is to run in this mode."""
        return self.set_pace(job, Pace(mode.freq_ghz, mode.draw_mw or 0, mode.walltime_s), reason)

    def set_pace(self, job: Tracked, pace: Pace, reason: str) -> Action:
        """The same, at this pace."""
        kind, number = ActionKind.SET_PSTATE, job.asked_actions + 1
        return Action(number, kind, *pace, False, self.now_s, reason)

    def ask(
        self,
        job: Tracked,
        placed: Placed,
        action: Action,
        decisions: Decisions,
        caps: Iterable[PowerShortage] = (),
    ) -> Publish:
        """It is asked, with the caps that are the cause."""
        self._job_table.ask(job, action)
        return decisions.action(job, placed, action, caps)

    def modes(self, job: Tracked, placed: Placed) -> Sequence[Candidate]:
        """In which a job that runs could run there."""
        found = self.modes_of([job], placed.cluster)
        return found.get((job.job.job_id, placed.cluster), ())

    def modes_of(
        self, jobs: Sequence[Tracked], cluster: str
    ) -> Mapping[tuple[str, str], tuple[Candidate, ...]]:
        """The same of several jobs on one cluster, by job id and cluster."""
        on = [each for each in self._models.per_cluster() if each.cluster.name == cluster]
        return modes_of(jobs, on, self._models.rules.now)
