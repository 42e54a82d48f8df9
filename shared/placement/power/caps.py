"""Caps of power as operators declare them, and the budgets that a round decides under."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    PowerCapDeclared,
    PowerCapStep,
    PowerScope,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.cluster import Cluster
from shared.scheduling.power import NO_CAP_MW, Cap, PowerBudget, Scope, Step, milliwatts

SCOPES: Final[Mapping[PowerScope.ValueType, Scope]] = {
    POWER_SCOPE_CLUSTER: Scope.CLUSTER,
    POWER_SCOPE_SITE: Scope.SITE,
    POWER_SCOPE_REGION: Scope.REGION,
}
MESSAGES: Final = {scope: message for message, scope in SCOPES.items()}


class Covered(NamedTuple):
    """What a cap can be declared for."""

    scope: Scope
    name: str = ""

    def covers(self, cluster: Cluster) -> bool:
        """Whether a cluster is part of it."""
        match self.scope:
            case Scope.CLUSTER:
                return cluster.name == self.name
            case Scope.SITE:
                return cluster.site == self.name
            case Scope.REGION:
                return True


class Declared(NamedTuple):
    """A cap and when it was declared."""

    cap: Cap
    declared_at_us: int


def declared_cap(event: Event, message: PowerCapDeclared) -> Declared:
    """A cap as its operator declared it."""
    steps = tuple(map(_step, message.steps))
    scope = SCOPES[message.scope]
    cap = Cap(scope, message.name, steps, event.source, message.reason)
    return Declared(cap, message.declared_at_us)


def in_order(caps: Mapping[Covered, Declared]) -> dict[Covered, Declared]:
    """Those of clusters first, then of sites, then of the region, by name: whoever was restored has
    the order in which they were declared no more."""
    scopes = [*Scope]
    return dict(sorted(caps.items(), key=lambda one: (scopes.index(one[0].scope), one[0].name)))


def covered_by(clusters: Iterable[Cluster]) -> Iterator[Covered]:
    """The clusters, their sites, and the region."""
    known = list(clusters)
    yield from (Covered(Scope.CLUSTER, cluster.name) for cluster in known)
    yield from (Covered(Scope.SITE, name) for name in sorted({c.site for c in known}))
    yield Covered(Scope.REGION)


def idle_mw(covered: Covered, clusters: Iterable[Cluster]) -> int:
    """What all nodes draw that nobody uses, of lost clusters too."""
    return sum(c.nodes * milliwatts(c.idle_power_w) for c in clusters if covered.covers(c))


def require_possible(
    message: PowerCapDeclared, clusters: Mapping[str, Cluster], least: int
) -> None:
    """Raise RejectedError for a cap of what is not known, or below `least` milliwatts."""
    scope = SCOPES[message.scope]
    known = [c.name for c in covered_by(clusters.values()) if c.scope is scope]
    if message.name not in known:
        problem = f"{message.name[:80]!r} is no {scope}: known are {', '.join(known) or 'none'}"
        raise RejectedError("name", problem)
    for number, step in enumerate(message.steps):
        if step.HasField("watts") and milliwatts(step.watts) < least:
            problem = f"{step.watts:,g} W is below the idle power of its nodes, {least / 1000:,g} W"
            raise RejectedError(f"steps[{number}].watts", problem)


def lowered(cap: Cap, share: float) -> Cap:
    """A cap of which a share is kept free, to the milliwatt below."""
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
    """Those that each cluster is under from a time on, that of the cluster first. `base_mw` says
    what is drawn or kept free there whatever runs."""
    found: dict[str, list[PowerBudget]] = {name: [] for name in clusters}
    for cap in sorted(caps, key=lambda cap: [*Scope].index(cap.scope)):
        if not holds(cap, now_s):
            continue
        covered = Covered(cap.scope, cap.name)
        budget = PowerBudget(cap, base_mw(covered), is_shared=cap.scope is not Scope.CLUSTER)
        for name, cluster in clusters.items():
            if covered.covers(cluster):
                found[name].append(budget)
    return found


def holds(cap: Cap, now_s: float) -> bool:
    """False where there is no cap now or later."""
    later = (cap_mw for from_s, cap_mw in cap.steps if from_s > now_s)
    return any(cap_mw < NO_CAP_MW for cap_mw in [cap.limit_mw(now_s), *later])


def next_step_s(caps: Iterable[Cap], now_s: float) -> float:
    """When a cap changes next; infinite where none will."""
    return min((s for cap in caps for s, _ in cap.steps if s > now_s), default=inf)


def step_messages(cap: Cap, now_s: float) -> list[PowerCapStep]:
    """How a cap changes after a time."""
    return [_step_message(step) for step in cap.steps if step[0] > now_s]


def watts_or_none(cap_mw: int) -> float | None:
    """A cap in watts; None for no cap."""
    return cap_mw / 1000 if cap_mw < NO_CAP_MW else None


def _step(step: PowerCapStep) -> Step:
    return step.from_us / 1e6, milliwatts(step.watts) if step.HasField("watts") else NO_CAP_MW


def _step_message(step: Step) -> PowerCapStep:
    return PowerCapStep(from_us=round(step[0] * 1e6), watts=watts_or_none(step[1]))
