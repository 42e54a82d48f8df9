"""Caps of power as operators declare them, and the budgets that a round decides under."""

from collections.abc import Iterable, Iterator, Mapping
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
from shared.domain.power import unrated_words
from shared.scheduling.power import NO_CAP_MW, Cap, Scope, Step, milliwatts

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
        """Return whether a cluster is part of it."""
        match self.scope:
            case Scope.CLUSTER:
                return cluster.name == self.name
            case Scope.SITE:
                return cluster.site == self.name
            case Scope.REGION:
                return True

    def among(self, clusters: Mapping[str, Cluster]) -> list[str]:
        """Return the names of those that are part of it."""
        if self.scope is Scope.CLUSTER:
            return [self.name] if self.name in clusters else []
        return [name for name, cluster in clusters.items() if self.covers(cluster)]


class Declared(NamedTuple):
    """A cap and when it was declared."""

    cap: Cap
    declared_at_us: int


def declared_cap(event: Event, message: PowerCapDeclared) -> Declared:
    """Return a cap as its operator declared it."""
    steps = tuple(map(_step, message.steps))
    scope = SCOPES[message.scope]
    cap = Cap(scope, message.name, steps, event.source, message.reason)
    return Declared(cap, message.declared_at_us)


def in_order(caps: Mapping[Covered, Declared]) -> dict[Covered, Declared]:
    """Sort caps: of clusters first, then of sites, then of the region, by name. The order in which
    they were declared is unknown after a restart."""
    scopes = [*Scope]
    return dict(sorted(caps.items(), key=lambda one: (scopes.index(one[0].scope), one[0].name)))


def covered_by(clusters: Iterable[Cluster]) -> Iterator[Covered]:
    """Yield what caps can be declared for: the clusters, their sites, and the region."""
    known = list(clusters)
    yield from (Covered(Scope.CLUSTER, cluster.name) for cluster in known)
    yield from (Covered(Scope.SITE, name) for name in sorted({c.site for c in known}))
    yield Covered(Scope.REGION)


def idle_mw(covered: Covered, clusters: Iterable[Cluster]) -> int:
    """Return what all nodes draw that nobody uses, of lost clusters too."""
    return sum(c.nodes * milliwatts(c.idle_power_w) for c in clusters if covered.covers(c))


def unrated(covered: Covered, clusters: Iterable[Cluster]) -> list[str]:
    """Return the names of those that do not declare what a node draws at most."""
    return [each.name for each in clusters if covered.covers(each) and not each.most_node_w]


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


def require_rated(message: PowerCapDeclared, clusters: Iterable[Cluster]) -> None:
    """Raise RejectedError for a cap over clusters of which one does not say what its nodes draw at
    most: nothing would hold a job back there of which nobody knows what it draws."""
    if any(step.HasField("watts") for step in message.steps):
        for name in unrated(Covered(SCOPES[message.scope], message.name), clusters):
            raise RejectedError("name", f"{unrated_words(name)}: declare one first")


def step_messages(cap: Cap, now_s: float) -> list[PowerCapStep]:
    """Return the steps of a cap after a time."""
    return [_step_message(step) for step in cap.steps if step[0] > now_s]


def watts_or_none(cap_mw: int) -> float | None:
    """Return a cap in watts; None for no cap."""
    return cap_mw / 1000 if cap_mw < NO_CAP_MW else None


def _step(step: PowerCapStep) -> Step:
    return step.from_us / 1e6, milliwatts(step.watts) if step.HasField("watts") else NO_CAP_MW


def _step_message(step: Step) -> PowerCapStep:
    return PowerCapStep(from_us=round(step[0] * 1e6), watts=watts_or_none(step[1]))
