"""Caps of power that take the place of those that a record declares."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple, Self

from coplace.v1.control_pb2 import ClusterDeclared, PowerCapDeclared, PowerCapStep

from coplace_client.errors import RejectedError, UnusableError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import cluster_of
from shared.domain.cluster import Cluster
from shared.placement.state.caps import (
    MESSAGES,
    SCOPES,
    Covered,
    covered_by,
    idle_mw,
    require_possible,
    require_rated,
)
from shared.scheduling.power import Scope

_AUTHOR: Final = "what-if"


class CapSchedule(NamedTuple):
    """The steps of a cap over time, and what it is called."""

    name: str
    steps: Sequence[PowerCapStep]


class NewCap(NamedTuple):
    """A cap that holds from the moment on in which what it covers is declared: so many watts, or a
    schedule's."""

    covered: Covered
    allows: float | CapSchedule

    @property
    def text(self) -> str:
        """Return the cap as GivenCap.parse takes it."""
        scope, name = self.covered
        allows = self.allows
        told = f"{allows:.15g}" if isinstance(allows, float) else allows.name
        return f"{scope}:{name}={told}" if name else f"{scope}={told}"

    def declared(self, like: Event) -> Event:
        """Return the declaration, at the time of another event."""
        steps: Sequence[PowerCapStep]
        if isinstance(self.allows, CapSchedule):
            steps = self.allows.steps
        else:
            steps = [PowerCapStep(from_us=like.time_us, watts=self.allows)]
        payload = PowerCapDeclared(
            scope=MESSAGES[self.covered.scope],
            name=self.covered.name,
            steps=steps,
            declared_at_us=like.time_us,
            reason="what if",
        )
        name = f"{_AUTHOR}/{payload.DESCRIPTOR.full_name}/{self.covered.scope}/{self.covered.name}"
        return replace(like, id=name, source=_AUTHOR, payload=payload, traceparent="")


class GivenCap(NamedTuple):
    """A cap as it was given: of what, and what it allows."""

    subject: str
    allows: float | CapSchedule

    @classmethod
    def parse(cls, text: str, read: Callable[[Path], Sequence[PowerCapStep]]) -> Self:
        """Parse a cap written as SUBJECT=WATTS, or SUBJECT=FILE of a schedule, which is read; the
        subject as `among` takes it. Raises OSError for a file that cannot be read, UnusableError
        for an invalid cap."""
        subject, _, allows = text.partition("=")
        scope, colon, name = subject.partition(":")
        is_scope = colon and scope in [*Scope]
        if not subject or (is_scope and (scope == Scope.REGION or not name)):
            raise _no_cap(text)
        try:
            return cls(subject, float(allows))
        except ValueError:
            path = Path(allows)
            if not path.is_file():
                raise _no_cap(text) from None
        return cls(subject, CapSchedule(path.name, tuple(read(path))))

    def among(self, clusters: Iterable[Cluster]) -> NewCap:
        """Return the cap of a cluster or site by its name, of `region`, or of `cluster NAME` or
        `site NAME`, with a colon too. Raises UnusableError for a name of none or of two of them."""
        known = [*covered_by(clusters)]
        named = [covered for covered in known if self.subject in _names(covered)]
        if len(named) == 1:
            return NewCap(named[0], self.allows)
        told = ", ".join(_names(covered)[0] for covered in named or known)
        if named:
            raise UnusableError(f"the cap of {self.subject!r} is ambiguous: give one of {told}")
        problem = f"{self.subject[:80]!r} is neither a cluster nor a site"
        raise UnusableError(f"{problem}: known are {told}")


def _names(covered: Covered) -> tuple[str, ...]:
    """Return what a cap may say that it is of: the first one is of nothing else."""
    scope, name = covered
    return (f"{scope}:{name}", f"{scope} {name}", name) if name else (f"{scope}",)


def _no_cap(text: str) -> UnusableError:
    problem = f"{text[:80]!r} is not a cap: write CLUSTER=WATTS, SITE=WATTS or region=WATTS"
    return UnusableError(f"{problem}, or a schedule's file in place of watts")


@dataclass(frozen=True, slots=True)
class CapChanges:
    """Which caps hold: the recorded ones, unless all are `dropped`, but for what `instead` is
    of. Raises UnusableError for two caps of the same."""

    dropped: bool = False
    instead: tuple[NewCap, ...] = ()

    def __post_init__(self) -> None:
        for cap, other in combinations(self.instead, 2):
            if cap.covered == other.covered:
                raise UnusableError(f"{cap.text} and {other.text} are of the same: leave one out")

    def require_possible(
        self, clusters: Mapping[str, Cluster], at_us: int, *, counts_idle: bool
    ) -> None:
        """Raise UnusableError for a cap of what these are not, and below what idles there."""
        for cap in self.instead:
            least_mw = idle_mw(cap.covered, clusters.values()) if counts_idle else 0
            message = cap.declared(Event("", _AUTHOR, at_us, "", PowerCapDeclared())).payload
            assert isinstance(message, PowerCapDeclared)
            try:
                check_contents(message)
                require_possible(message, clusters, least_mw)
                require_rated(message, clusters.values())
            except RejectedError as error:
                raise UnusableError(f"the cap {cap.text}: {error}") from error

    def changed(self) -> Callable[[Event], Iterable[Event]]:
        """Return a function that changes the events of a record, one after the other in their
        order."""
        missing = list(self.instead)

        def of(event: Event) -> Iterable[Event]:
            if isinstance(event.payload, PowerCapDeclared):
                return [] if self._replaces(event.payload) else [event]
            if not isinstance(event.payload, ClusterDeclared):
                return [event]
            cluster = cluster_of(event.payload)
            found = [cap for cap in missing if cap.covered.covers(cluster)]
            missing[:] = [cap for cap in missing if cap not in found]
            return [event, *(cap.declared(event) for cap in found)]

        return of

    def _replaces(self, message: PowerCapDeclared) -> bool:
        covered = Covered(SCOPES[message.scope], message.name)
        return self.dropped or any(cap.covered == covered for cap in self.instead)


AS_RECORDED: Final = CapChanges()
