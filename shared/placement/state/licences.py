"""How many licences there are on clusters, of sites and of the region: a fold over what is
declared.

What was removed stays known, so that a copy of an earlier declaration counts no more.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_CLUSTER,
    LICENCE_SCOPE_REGION,
    LICENCE_SCOPE_SITE,
    LicenceScope,
    LicencesDeclared,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.cluster import Cluster
from shared.domain.resources import Resources
from shared.placement.state.caps import Covered, covered_by
from shared.placement.state.stamps import Stamp, is_ahead, require_newer, set_back, stamp_of
from shared.scheduling.power import Cap, Scope
from shared.streams.state.state import State

_TABLE: Final = "licences"
_SEPARATOR: Final = "|"
# Names of one cluster, one site or the region; and these with those that were removed: as many rows
# are kept of all places that were removed together.
_MOST: Final = 256
_MOST_ROWS: Final = 1024
_MOST_TEXT: Final = 256
# Places that an error names.
_MOST_NAMED: Final = 10
_SCOPES: Final[Mapping[LicenceScope.ValueType, Scope]] = {
    LICENCE_SCOPE_CLUSTER: Scope.CLUSTER,
    LICENCE_SCOPE_SITE: Scope.SITE,
    LICENCE_SCOPE_REGION: Scope.REGION,
}
_MESSAGES: Final = {scope: message for message, scope in _SCOPES.items()}
_ORDER: Final = tuple(Scope)


@dataclass(frozen=True, slots=True)
class LicencePool:
    """The newest declaration of a name in one place; without a `count` it is removed."""

    declared: Stamp
    by: str
    scope: Scope
    place: str
    name: str
    count: int | None
    reason: str
    declared_at_us: int

    @property
    def covered(self) -> Covered:
        """Return where it is."""
        return Covered(self.scope, self.place)

    @property
    def cap(self) -> Cap:
        """Return it as the cap of a budget whose unit is one licence."""
        steps = ((float("-inf"), self.count or 0),)
        return Cap(self.scope, self.place, steps, self.by, self.reason)

    def message(self) -> LicencesDeclared:
        """Return it as it was declared."""
        return LicencesDeclared(
            scope=_MESSAGES[self.scope],
            place=self.place,
            name=self.name,
            count=self.count,
            reason=self.reason,
            declared_at_us=self.declared_at_us,
        )


class LicencePools:
    """Folds declarations; `clusters` are those of now."""

    def __init__(self, state: State, clusters: Callable[[], Mapping[str, Cluster]]) -> None:
        self._clusters = clusters
        self._rows = state.table(_TABLE, LicencePool)
        # Those that were not removed, in the order of the answers.
        self._known: dict[str, LicencePool] = {}
        # Saved since the last round ended; after a restart all.
        self._saved_now = {key for key, _ in self._rows.items()}
        self._refresh()

    @property
    def any(self) -> bool:
        """Return whether there are any."""
        return bool(self._known)

    def declare(self, event: Event, message: LicencesDeclared) -> None:
        """Take a declaration in. Raises RejectedError for a place that is not known and for the
        removal of what is not there, AlreadyAppliedError for a copy, and OvertakenError."""
        scope = _SCOPES[message.scope]
        key = _key(scope, message.place, message.name)
        before = self._rows.get(key)
        if before is not None:
            require_newer(event, before.declared)
        if message.HasField("count") or key not in self._known:
            self._require_known(scope, message)
        self._require_room(scope, message)
        row = LicencePool(
            declared=stamp_of(event),
            by=event.source[:_MOST_TEXT],
            scope=scope,
            place=message.place,
            name=message.name,
            count=message.count if message.HasField("count") else None,
            reason=message.reason,
            declared_at_us=message.declared_at_us,
        )
        if before is None:
            self._drop_oldest(row.covered)
        self._save(key, row)

    def set_back(self, ended_us: int) -> None:
        """Set back what was declared from a clock ahead of the end of this round."""
        for key in sorted(self._saved_now):
            row = self._rows.get(key)
            if row is not None and is_ahead(row.declared[0], ended_us):
                self._save(key, replace(row, declared=set_back(row.declared, ended_us)))
        self._saved_now.clear()

    def remove_gone(self) -> None:
        """Remove what was declared of clusters and sites that are there no more."""
        there = set(covered_by(self._clusters().values()))
        gone = [(key, row) for key, row in self._rows.items() if row.covered not in there]
        for key, row in gone:
            if row.count is not None:
                self._rows.put(key, replace(row, count=None))
        oldest = sorted((row.declared, key) for key, row in gone)
        for _, key in oldest[: max(0, len(oldest) - _MOST_ROWS)]:
            self._rows.drop(key)
        self._refresh()

    def listed(self) -> Iterator[LicencePool]:
        """Yield all by name, of clusters before those of sites and of the region."""
        yield from self._known.values()

    def on(self, cluster: Cluster) -> dict[str, int]:
        """Return how many of each name a job on a cluster may have at most."""
        kept = self._on.get(cluster.name)
        if kept is not None and kept[0] is cluster:
            return kept[1]
        found: dict[str, int] = {}
        for pool in self._known.values():
            if pool.covered.covers(cluster):
                count = pool.count or 0
                found[pool.name] = min(found.get(pool.name, count), count)
        self._on[cluster.name] = cluster, found
        return found

    def lacking_on(self, cluster: Cluster, needs: Resources) -> tuple[str, int, int | None] | None:
        """Return the first name of which a job needs more than a cluster can ever give it, how many
        it needs, and how many there are: None where the cluster has no such name."""
        there = self.on(cluster)
        for name, count in needs:
            if count > there.get(name, -1):
                return name, count, there.get(name)
        return None

    def _require_known(self, scope: Scope, message: LicencesDeclared) -> None:
        known = [c.name for c in covered_by(self._clusters().values()) if c.scope is scope]
        if message.place not in known:
            named = ", ".join(known[:_MOST_NAMED]) or "none"
            problem = f"{message.place[:80]!r} is no {scope}: known are {named}"
            raise RejectedError("place", problem)

    def _require_room(self, scope: Scope, message: LicencesDeclared) -> None:
        there = [p.name for p in self._known.values() if p.covered == (scope, message.place)]
        if message.HasField("count"):
            if len(there) >= _MOST and message.name not in there:
                raise RejectedError("name", f"{_MOST} names are declared there: remove one first")
        elif message.name not in there:
            named = ", ".join(there[:_MOST_NAMED]) or "none"
            problem = f"{message.name[:80]!r} is not declared there: known are {named}"
            raise RejectedError("name", problem)

    def _drop_oldest(self, covered: Covered) -> None:
        """Forget what was removed first, where one place has too many rows."""
        rows = [(row.declared, key) for key, row in self._rows.items() if row.covered == covered]
        if len(rows) >= _MOST_ROWS:
            gone = [(at, key) for at, key in sorted(rows) if self._rows.rows[key].count is None]
            for _, key in gone[: len(rows) - _MOST_ROWS + 1]:
                self._rows.drop(key)

    def _save(self, key: str, row: LicencePool) -> None:
        self._rows.put(key, row)
        self._saved_now.add(key)
        self._refresh()

    def _refresh(self) -> None:
        there = [(key, row) for key, row in self._rows.items() if row.count is not None]
        self._known = dict(sorted(there, key=_in_order))
        self._on: dict[str, tuple[Cluster, dict[str, int]]] = {}


def _in_order(item: tuple[str, LicencePool]) -> tuple[str, int, str]:
    _, pool = item
    return pool.name, _ORDER.index(pool.scope), pool.place


def _key(scope: Scope, place: str, name: str) -> str:
    """Return the key of a row. With the length, names that hold the separator differ too."""
    return f"{scope}{_SEPARATOR}{len(place)}{_SEPARATOR}{place}{_SEPARATOR}{name}"
