"""What caps of power leave for jobs, as budgets that a round decides under."""

from collections.abc import Callable, Iterable, Mapping
from math import inf

from shared.domain.cluster import Cluster
from shared.placement.state.caps import Covered
from shared.placement.state.model_store import ModelStore
from shared.scheduling.power import NO_CAP_MW, Cap, PowerBudget, Scope


class CapBudgets:
    """Reads the caps in force, each less the share that the policy keeps free."""

    def __init__(self, models: ModelStore) -> None:
        self._models = models

    def budgets(
        self, now_s: float, kept_mw: Callable[[Covered], int]
    ) -> dict[str, list[PowerBudget]]:
        """Return the budgets that each cluster is under: nothing is committed yet but idle power
        and what is to be kept free there."""
        models = self._models
        caps = (lowered(declared.cap, self._share) for declared in models.caps.values())
        return budgets(
            caps, models.clusters, now_s, lambda covered: models.idle_mw(covered) + kept_mw(covered)
        )

    def allowed_mw(self, cap: Cap, at_s: float) -> int:
        """Return what a cap allows at a time, less the share that is kept free."""
        return lowered(cap, self._share).limit_mw(at_s)

    def next_step_s(self, now_s: float) -> float:
        """Return when a cap changes next."""
        return next_step_s((declared.cap for declared in self._models.caps.values()), now_s)

    @property
    def _share(self) -> float:
        return self._models.rules.now.cap_margin


class UnratedClusters:
    """The clusters under a cap that do not declare what a node draws at most, each with the cap:
    nobody knows what a job draws there of which nothing says so."""

    def __init__(self, models: ModelStore) -> None:
        self._models = models
        self._caps: dict[str, Cap] = {}

    def begin_round(self, now_s: float) -> bool:
        """Follow what is declared and in force now; return whether these are others than before."""
        before, models = self._caps, self._models
        unrated = [each for each in models.declared.values() if not each.most_node_w]
        self._caps = {
            cluster.name: declared.cap
            for covered, declared in (models.caps.items() if unrated else ())
            for cluster in unrated
            if covered.covers(cluster) and holds(declared.cap, now_s)
        }
        return self._caps != before

    def cap_over(self, cluster: str) -> Cap | None:
        """Return the cap over such a cluster; None over any other."""
        return self._caps.get(cluster)


def lowered(cap: Cap, share: float) -> Cap:
    """Return a cap of which a share is kept free, to the milliwatt below."""
    if not share:
        return cap
    steps = [
        (from_s, cap_mw if cap_mw >= NO_CAP_MW else int(cap_mw * (1 - share)))
        for from_s, cap_mw in cap.steps
    ]
    return cap._replace(steps=tuple(steps))


def budgets(
    caps: Iterable[Cap],
    clusters: Mapping[str, Cluster],
    now_s: float,
    base_mw: Callable[[Covered], int],
) -> dict[str, list[PowerBudget]]:
    """Return the budgets that each cluster is under from a time on, that of the cluster first.
    `base_mw` says what is drawn or kept free there whatever runs."""
    found: dict[str, list[PowerBudget]] = {name: [] for name in clusters}
    for cap in sorted(caps, key=lambda cap: [*Scope].index(cap.scope)):
        if not holds(cap, now_s):
            continue
        covered = Covered(cap.scope, cap.name)
        budget = PowerBudget(cap, base_mw(covered), is_shared=cap.scope is not Scope.CLUSTER)
        for name in covered.among(clusters):
            found[name].append(budget)
    return found


def holds(cap: Cap, now_s: float) -> bool:
    """Return whether there is a cap now or later."""
    later = (cap_mw for from_s, cap_mw in cap.steps if from_s > now_s)
    return any(cap_mw < NO_CAP_MW for cap_mw in [cap.limit_mw(now_s), *later])


def next_step_s(caps: Iterable[Cap], now_s: float) -> float:
    """Return when a cap changes next; infinite where none will."""
    return min((s for cap in caps for s, _ in cap.steps if s > now_s), default=inf)
