"""No licence is given twice: worked out word by word from what was declared of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_CLUSTER,
    LICENCE_SCOPE_SITE,
    ClusterUndeclared,
    LicenceScope,
    LicencesDeclared,
)
from coplace.v1.placement_pb2 import PlacementDecided

from shared.catalogue.event import Event
from tests.chaos.asks import SITES
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.audit.holders import Holders

Key = tuple[LicenceScope.ValueType, str, str]


@dataclass(slots=True)
class _Pools:
    """The newest word on each name in each place. What a cluster took along that was undeclared is
    not known: its place is in `unknown` until somebody says a new word."""

    said: dict[Key, tuple[tuple[int, str], LicencesDeclared]] = field(default_factory=dict)
    unknown: set[Key] = field(default_factory=set)

    def learn(self, event: Event) -> None:
        """One more word."""
        told = event.payload
        if isinstance(told, ClusterUndeclared):
            places = told.cluster, SITES.get(told.cluster)
            self.unknown |= {key for key in self.said if key[1] in places}
        if isinstance(told, LicencesDeclared):
            key, stamp = (told.scope, told.place, told.name), (event.time_us, event.id)
            if key not in self.said or stamp > self.said[key][0]:
                self.said[key] = stamp, told
                self.unknown.discard(key)

    def over(self, cluster: str, name: str) -> Iterator[tuple[Key, int | None]]:
        """Each place whose licences of a name a job on a cluster takes, and how many there are;
        None where that is not known."""
        for key, (_, told) in self.said.items():
            if key[2] == name and covers(key, cluster):
                if key in self.unknown:
                    yield key, None
                elif told.HasField("count"):
                    yield key, told.count


def covers(key: Key, cluster: str) -> bool:
    """Whether the licences of a place are for jobs on a cluster."""
    scope, place, _ = key
    if scope == LICENCE_SCOPE_CLUSTER:
        return place == cluster
    return SITES.get(cluster) == place if scope == LICENCE_SCOPE_SITE else True


def no_licence_is_given_twice(evidence: Evidence) -> Iterator[str]:
    """Where a start takes some, all that hold some of the same place have no more than there are;
    and it takes none that nobody declared."""
    pools, holders = _Pools(), Holders()
    for ended in evidence.ends_of_rounds(pools.learn, holders.learn):
        for start in holders.decide(evidence, ended.round):
            if not (is_hostile(start.job_id) or is_hostile(start.cluster)):
                yield from _overdrawn(evidence, pools, holders, start)


def _overdrawn(
    evidence: Evidence, pools: _Pools, holders: Holders, start: PlacementDecided
) -> Iterator[str]:
    of = f"{start.job_id} in round {start.round}"
    for name in _needs(evidence, start):
        found = list(pools.over(start.cluster, name))
        if not found:
            yield f"{of} takes {name} on {start.cluster}, where there is none"
        for key, count in found:
            held = sum(
                _needs(evidence, each).get(name, 0)
                for each in holders.sure()
                if covers(key, each.cluster)
            )
            if count is not None and held > count:
                scope = LicenceScope.Name(key[0])
                yield f"{of}: {held} of {count} {name} of {scope} {key[1]} are held"


def _needs(evidence: Evidence, start: PlacementDecided) -> dict[str, int]:
    job = evidence.world.journal.submission(start.job_id)
    if job is None or is_hostile(start.job_id):
        return {}
    return {name: count for name, count in job.licences.items() if count}
