"""The looks of Slurm's backfill on each cluster, from round to round."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from shared.domain.queue_discipline import QueueDiscipline
from shared.placement.state.policy_in_force import PolicyInForce
from shared.scheduling.backfill import ClusterScheduler, Dispatch, looking
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.looks import NO_LOOK, Look
from shared.scheduling.power import PowerBudget
from shared.scheduling.slurm import SlurmBackfill
from shared.streams.state.state import State

_SHARED: Final = "a cap of power is over it and other clusters"
_IN_PARTS: Final = "a job has or wants parts of its nodes, or may run on some alone"
_LICENSED: Final = "a job has or wants licences"
_GANG: Final = "a gang has or wants nodes of it"
_RESERVED: Final = "nodes of it are reserved or maintained"


class KeptLook(NamedTuple):
    """The last look on a cluster, and when another is due: never where nothing changed."""

    look: Look
    due_s: float


class Looks:
    """Keeps the last look on each cluster: no rebuild finds out when that was. All passes of a
    round begin with the same."""

    def __init__(self, state: State, rules: PolicyInForce) -> None:
        self._rules = rules
        self._kept = state.table("backfill-looks", KeptLook)

    @property
    def are_made(self) -> bool:
        """Return whether the policy is to look."""
        return self._rules.now.discipline is QueueDiscipline.SLURM

    def are_made_under(self, budgets: Iterable[PowerBudget]) -> bool:
        """Return whether the policy is to look at a cluster under these budgets."""
        return self.are_made and not has_shared(budgets)

    @property
    def parameters(self) -> SlurmBackfill:
        """Return what the policy says of a look."""
        now = self._rules.now
        return SlurmBackfill(now.bf_depth, now.bf_window_s, now.bf_interval_s, now.bf_records)

    def last(self, cluster: str) -> Look:
        """Return the last look on a cluster."""
        kept = self._kept.get(cluster)
        return NO_LOOK if kept is None else kept.look

    def note(self, plan: Dispatch) -> None:
        """Keep the looks as of the last pass of a round; those of no cluster that was not in it, or
        is under EASY by now."""
        for cluster in [*self._kept.rows]:
            if looking(plan.schedulers.get(cluster)) is None:
                self._kept.drop(cluster)
        for cluster, each in plan.schedulers.items():
            scheduler = looking(each)
            if scheduler is not None and scheduler.has_looked:
                kept = KeptLook(scheduler.look, scheduler.wake_s)
                if kept != self._kept.get(cluster):
                    self._kept.put(cluster, kept)

    def under_easy(self, plan: Dispatch) -> dict[str, str]:
        """Return the clusters that were under EASY in a pass though the policy is to look there,
        and why, in words."""
        return {
            name: _SHARED
            for name, scheduler in plan.schedulers.items()
            if self.are_made and looking(scheduler) is None
        }

    def due_s(self) -> Iterator[float]:
        """Return when the next looks are due."""
        for kept in self._kept.values():
            yield kept.due_s


def has_shared(budgets: Iterable[PowerBudget]) -> bool:
    """Return whether a cap is over a cluster and others."""
    return any(budget.is_shared for budget in budgets)


def why_under_easy(scheduler: ClusterScheduler) -> str:
    """Return why a cluster is under EASY by requests though the policy chose another rule."""
    if has_shared(scheduler.budgets):
        return _SHARED
    if not isinstance(scheduler, ConsumableScheduler):
        return _IN_PARTS
    if scheduler.windows.any:
        return _RESERVED
    kinds = [scheduler.kinds[entry.kind] for entry in scheduler.queue if entry.in_parts]
    kinds += [each.kind for each in scheduler.allocated.values()]
    if any(kind.licences for kind in kinds):
        return _LICENSED
    return _GANG if any(kind.shape.parts for kind in kinds) else _IN_PARTS
