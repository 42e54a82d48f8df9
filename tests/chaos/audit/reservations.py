"""Reserved and maintained nodes take no other jobs, worked out word by word from what was published
of them; of a number of nodes nobody but placement knows which they are."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import (
    ClusterUndeclared,
    ReservationDeclared,
    ReservationRemoved,
)
from coplace.v1.placement_pb2 import PlacementDecided

from shared.catalogue.event import Event
from shared.domain.hostlist import expand
from tests.chaos.audit.declared import Declared, Stamp
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.audit.nodes import names_of


def no_start_runs_into_reserved_nodes(evidence: Evidence) -> Iterator[str]:
    """Nor does a job of a reservation start elsewhere, before it, or so late that its limit ends
    behind it."""
    declared = Declared()
    words = Reserved(declared)
    for ended in evidence.ends_of_rounds(declared.learn, words.learn):
        for name, cluster in declared.clusters.items():
            names = names_of(cluster)
            for decided in evidence.starts.get((ended.round, name), []):
                if not is_hostile(decided.job_id):
                    asked = evidence.world.journal.submission(decided.job_id)
                    own = asked.reservation if asked is not None else ""
                    yield from _broken(words, decided, own, names)


def _broken(
    words: "Reserved", decided: PlacementDecided, own: str, names: list[str]
) -> Iterator[str]:
    starts_us = decided.decided_at_us
    ends_us = starts_us + decided.walltime_s * 1e6 - 1  # of rounding
    got = {names[index] for index in decided.node_indices}
    of = f"{decided.job_id} in round {decided.round}"
    known = words.of(decided.cluster)
    if own and own not in known:
        yield f"{of} starts in {own}, which is not declared"
    for name, each in known.items():
        nodes = {*expand(",".join(each.nodes))} if each.nodes else {*names}
        if name == own:
            if not each.from_us <= starts_us <= ends_us <= each.until_us:
                yield f"{of} is not within the time of {own}"
            if not (got <= nodes or each.node_count):
                yield f"{of} is not on the nodes of {own}"
        elif each.node_count == 0 and starts_us < each.until_us and each.from_us < ends_us:
            for node in sorted(got & nodes):
                yield f"{of} runs into {name} on {node}"


@dataclass(slots=True)
class Reserved:
    """The newest word on each reservation, by cluster and name."""

    declared: Declared
    _said: dict[tuple[str, str], tuple[Stamp, ReservationDeclared | None]] = field(
        default_factory=dict
    )
    _undeclared: dict[str, Stamp] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        """One more. What was said of a cluster that is undeclared is forgotten."""
        told, stamp = event.payload, (event.time_us, event.id)
        if isinstance(told, ClusterUndeclared):
            self._undeclared[told.cluster] = max(stamp, self._undeclared.get(told.cluster, stamp))
        if isinstance(told, ClusterUndeclared) and told.cluster not in self.declared.clusters:
            self._said = {key: said for key, said in self._said.items() if key[0] != told.cluster}
        if not isinstance(told, ReservationDeclared | ReservationRemoved):
            return
        key, before = (told.cluster, told.name), self._undeclared.get(told.cluster, (0, ""))
        known, _ = self._said.get(key, (before, None))
        if stamp > max(known, before):
            self._said[key] = stamp, told if isinstance(told, ReservationDeclared) else None

    def of(self, cluster: str) -> dict[str, ReservationDeclared]:
        """What is reserved of a cluster, by name."""
        return {
            name: told
            for (of, name), (_, told) in self._said.items()
            if of == cluster and told is not None
        }
