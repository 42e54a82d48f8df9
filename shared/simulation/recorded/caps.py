"""Caps of power that take the place of those that a record declares."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from coplace.v1.control_pb2 import ClusterDeclared, PowerCapDeclared, PowerCapStep

from shared.domain.cluster import Cluster
from shared.domain.errors import RejectedError, UnusableError
from shared.messaging.events.contents.check import check_contents
from shared.messaging.events.event import Event
from shared.messaging.payloads.domain_types import cluster_of
from shared.placement.power.caps import MESSAGES, SCOPES, Covered, idle_mw, require_possible
from shared.scheduling.power import Scope

_AUTHOR: Final = "what-if"


class NewCap(NamedTuple):
    """A cap that holds from the moment on in which what it covers is declared."""

    covered: Covered
    watts: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """A cap written as SCOPE[:NAME]=WATTS. Raises UnusableError."""
        subject, is_set, watts = text.partition("=")
        scope, _, name = subject.partition(":")
        try:
            found = cls(Covered(Scope(scope), name), float(watts))
        except ValueError:
            is_set = ""
        if not is_set or bool(name) == (scope == Scope.REGION):
            problem = f"{text[:80]!r} is no cap: write cluster:NAME=WATTS, site:NAME=WATTS"
            raise UnusableError(f"{problem} or region=WATTS")
        return found

    @property
    def text(self) -> str:
        """As `parse` takes it."""
        scope, name = self.covered
        return f"{scope}:{name}={self.watts:.15g}" if name else f"{scope}={self.watts:.15g}"

    def declared(self, like: Event) -> Event:
        """The declaration, at the time of another event."""
        steps = [PowerCapStep(from_us=like.time_us, watts=self.watts)]
        payload = PowerCapDeclared(
            scope=MESSAGES[self.covered.scope],
            name=self.covered.name,
            steps=steps,
            declared_at_us=like.time_us,
            reason="what if",
        )
        name = f"{_AUTHOR}/{payload.DESCRIPTOR.full_name}/{self.covered.scope}/{self.covered.name}"
        return replace(like, id=name, source=_AUTHOR, payload=payload, traceparent="")


@dataclass(frozen=True, slots=True)
class CapChanges:
    """Which caps hold: the recorded ones, unless all are `dropped`, but for what `instead` is
    of."""

    dropped: bool = False
    instead: tuple[NewCap, ...] = ()

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
            except RejectedError as error:
                raise UnusableError(f"the cap {cap.text}: {error}") from error

    def changed(self) -> Callable[[Event], Iterable[Event]]:
        """What becomes of one event of a record after the other, in their order."""
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
