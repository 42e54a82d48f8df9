"""Which nodes take no jobs, and which failed of late: a fold over what is published of them.

Messages on a cluster as a whole and on its nodes count beside each other: a node is drained while
either says so, and a resumption frees what was drained before it. Messages are compared by (event
time, id), so that copies and late ones change nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, NamedTuple, Self

from coplace.v1.control_pb2 import NodesDrained, NodesResumed

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster
from shared.domain.node import NodeNames
from shared.placement.state.announcements import announce
from shared.placement.state.policy_in_force import PolicyInForce
from shared.placement.state.stamps import Stamp, is_ahead, overtaken, set_back
from shared.streams.stages.stage import AlreadyAppliedError, Round
from shared.streams.state.state import State

# The record of a cluster as a whole.
_ALL: Final = ""
_MOST_TEXT: Final = 256
_MOST_JOBS_TOLD: Final = 3
_NEVER: Final[Stamp] = (0, "")


@dataclass(frozen=True, slots=True)
class Drain:
    """Who drained a node and why; `until_s` is infinite until somebody resumes it."""

    stamp: Stamp
    by: str
    reason: str
    since_s: float
    until_s: float

    @classmethod
    def of(cls, event: Event, message: NodesDrained) -> Self:
        """Return the drain that an event declares."""
        return cls(
            stamp=(event.time_us, event.id),
            by=event.source[:_MOST_TEXT],
            reason=message.reason[:_MOST_TEXT],
            since_s=message.drained_at_us / 1e6,
            until_s=message.until_us / 1e6 if message.until_us else inf,
        )


class Failure(NamedTuple):
    """A node failed under an attempt of a job."""

    at_us: int
    job_id: str
    attempt: int


@dataclass(slots=True)
class _NodeRecord:
    """What is known of a node, or of a cluster as a whole. A drain whose time is over stays known,
    and so do the first `aged` of its failures, which count no more: the clock that ended them may
    have been wrong."""

    drain: Drain | None = None
    is_over: bool = False
    resumed: Stamp = _NEVER
    failures: tuple[Failure, ...] = ()
    aged: int = 0

    @property
    def recent(self) -> tuple[Failure, ...]:
        """Return the failures that count, oldest first."""
        return self.failures[self.aged :]

    @property
    def in_force(self) -> Drain | None:
        """Return the drain whose time is not over."""
        return None if self.is_over else self.drain

    @property
    def newest(self) -> Stamp:
        """Return the stamp of the newest message on the node."""
        return max(self.resumed, self.drain.stamp if self.drain else _NEVER)


@dataclass(slots=True)
class _Cluster:
    """The records of a cluster, by the names of nodes."""

    records: dict[str, _NodeRecord] = field(default_factory=dict)

    def __iter__(self) -> Iterator[_NodeRecord]:
        return iter(self.records.values())

    @property
    def whole(self) -> _NodeRecord:
        return self.records.get(_ALL) or _NodeRecord()

    def drains(self, record: _NodeRecord) -> list[Drain]:
        """Return what drains the node of a record."""
        whole = self.whole.in_force
        is_free = whole is None or record.resumed > whole.stamp
        return [d for d in (record.in_force, None if is_free else whole) if d is not None]


class NodeStates:
    """Folds drains, resumptions and failures of nodes; `clusters` and `names` are those of now."""

    def __init__(
        self,
        state: State,
        clusters: Callable[[], Mapping[str, Cluster]],
        names: Callable[[], Mapping[str, NodeNames]],
        rules: PolicyInForce,
    ) -> None:
        self._clusters, self._names, self._rules = clusters, names, rules
        self._known: dict[str, _Cluster] = {}
        self._rows = state.table("node", _NodeRecord)
        self._touched: set[str] = set()
        # Saved since the last round ended; after a restart all.
        self._told_now: set[tuple[str, str]] = set()
        self._revisions = Counter[str]()
        self._due_s = -inf
        for key, record in self._rows.items():
            cluster, _, node = key.partition("|")
            self._of(cluster).records[node] = record
            self._told_now.add((cluster, node))
            self.touch(cluster)

    def touch(self, cluster: str) -> None:
        """Note that a cluster has other nodes than before, or that their states changed."""
        self._touched.add(cluster)
        self._revisions[cluster] += 1
        self._due_s = -inf

    def touch_all(self) -> None:
        """Note that the policy counts failures of nodes otherwise than before."""
        for cluster in self._known:
            self.touch(cluster)

    @property
    def _window_s(self) -> float:
        return self._rules.now.node_failure_window_s

    def take_touched(self) -> set[str]:
        """Return the clusters whose nodes changed since the last call; after a restart all."""
        touched, self._touched = self._touched, set()
        return touched

    def drain(self, event: Event, message: NodesDrained) -> None:
        """Drain nodes: they take no jobs. Raises RejectedError for nodes that nobody declared, and
        AlreadyAppliedError where something newer is known of all of them."""
        drain = Drain.of(event, message)
        resumed = self._of(message.cluster).whole.resumed
        records = self._records(message.cluster, message.nodes)
        found = [(n, r) for n, r in records if drain.stamp > max(r.newest, resumed)]
        self._require_news(event, records, found, resumed)
        for node, record in found:
            record.drain, record.is_over = drain, False
            self._save(message.cluster, node, record)

    def resume(self, event: Event, message: NodesResumed) -> None:
        """Resume nodes: they take jobs again. Raises as `drain` does."""
        stamp = event.time_us, event.id
        records = self._records(message.cluster, message.nodes)
        found = [(n, r) for n, r in records if stamp > r.resumed]
        self._require_news(event, records, found)
        if not message.nodes:
            found = list(self._of(message.cluster).records.items()) + found
        for node, record in found:
            _free(record, stamp)
            self._save(message.cluster, node, record)

    def fail(self, cluster: str, nodes: Iterable[str], failure: Failure) -> None:
        """Record nodes that failed under a job. Unknown ones raise nothing: the fact on the job
        counts."""
        if cluster not in self._clusters():
            return
        try:
            names = self._named(cluster, nodes)
        except RejectedError:
            return
        for node in names:
            known = self._of(cluster)
            record = known.records.get(node) or _NodeRecord()
            resumed_us = max(record.resumed, known.whole.resumed)[0]
            told = {each[1:] for each in record.failures}
            if failure.at_us > resumed_us and failure[1:] not in told:
                kept = sorted({*record.failures, failure})
                record.failures = tuple(kept[-max(1, self._rules.now.most_node_failures) :])
                record.aged = 0  # until this round ends
                self._save(cluster, node, record)

    def forget(self, cluster: str) -> None:
        """Remove the records of a cluster that was undeclared."""
        for node in self._known.pop(cluster, _Cluster()).records:
            self._rows.drop(_key(cluster, node))
        self._revisions[cluster] += 1

    def set_back(self, ended_us: int) -> None:
        """Set back what was said from a clock ahead of the end of this round."""
        for cluster, node in sorted(self._told_now):
            record = self._of(cluster).records.get(node)
            if record is not None and is_ahead(record.newest[0], ended_us):
                record.resumed = set_back(record.resumed, ended_us)
                if record.drain is not None:
                    stamp = set_back(record.drain.stamp, ended_us)
                    record.drain = replace(record.drain, stamp=stamp)
                self._rows.put(_key(cluster, node), record)
        self._told_now.clear()

    def of_round(self, ended: Round) -> list[Publish]:
        """Let time pass: drains end, failures of long ago count no more, and nodes that failed too
        often are drained, with an event that says so."""
        if ended.now_s < self._due_s:
            return []
        published = []
        for cluster in sorted(self._known):
            for node in sorted(self._known[cluster].records):
                self._pass_time(cluster, node, ended.now_s)
            for node, record in sorted(self._known[cluster].records.items()):
                if self._fails_too_often(cluster, record):
                    published.append(self._drain_failed(ended, cluster, node))
        self._due_s = min(self._ends_s(), default=inf)
        return published

    def drained(self, cluster: str) -> dict[int, list[Drain]]:
        """Return what drains which nodes of a cluster, by their indices."""
        known = self._known.get(cluster)
        if known is None:
            return {}
        found = {}
        names, declared = self._names()[cluster], self._clusters()[cluster]
        if (whole := known.whole.in_force) is not None:
            found = {index: [whole] for index in range(declared.nodes)}
        for node, record in known.records.items():
            index = names.find(node) if node else None
            if index is not None and index < declared.nodes:
                found[index] = known.drains(record)
        return {index: drains for index, drains in sorted(found.items()) if drains}

    def unavailable(self, cluster: str) -> dict[int, float]:
        """Return when each drained node is available again: infinite until it is resumed."""
        found = self.drained(cluster).items()
        return {index: max(drain.until_s for drain in drains) for index, drains in found}

    def failing(self, cluster: str) -> set[int]:
        """Return the indices of nodes that failed of late."""
        known = self._known.get(cluster)
        if known is None:
            return set()
        names = self._names()[cluster]
        found = (names.find(n) for n, record in known.records.items() if record.recent and n)
        return {index for index in found if index is not None}

    def revision(self, cluster: str) -> int:
        """Return a number that grows with what changes of the nodes of a cluster."""
        return self._revisions[cluster]

    def due_s(self) -> Iterable[float]:
        """Return when drains end."""
        drains = (record.in_force for known in self._known.values() for record in known)
        return (drain.until_s for drain in drains if drain is not None)

    def _ends_s(self) -> Iterator[float]:
        """Yield when states change by the passing of time alone."""
        yield from self.due_s()
        for known in self._known.values():
            firsts = (record.recent[0] for record in known if record.recent)
            yield from (first.at_us / 1e6 + self._window_s for first in firsts)

    def _pass_time(self, cluster: str, node: str, now_s: float) -> None:
        records = self._known[cluster].records
        record = records[node]
        if self._expire(record, now_s):
            self._save(cluster, node, record)
        if record == _NodeRecord() or not self._is_declared(cluster, node):
            del records[node]
            self._rows.drop(_key(cluster, node))
            self.touch(cluster)

    def _fails_too_often(self, cluster: str, record: _NodeRecord) -> bool:
        too_often = 0 < self._rules.now.most_node_failures <= len(record.recent)
        return too_often and not self._known[cluster].drains(record)

    def _drain_failed(self, ended: Round, cluster: str, node: str) -> Publish:
        record = self._known[cluster].records[node]
        jobs = ", ".join(each.job_id for each in record.recent[-_MOST_JOBS_TOLD:])
        within = f"{len(record.recent)} times within {self._window_s / 3600:g} h"
        message = NodesDrained(
            cluster=cluster,
            nodes=[node],
            reason=f"failed {within}, last under {jobs}"[:_MOST_TEXT],
            drained_at_us=ended.ended_at_us,
        )
        drained = announce(message, f"{cluster}/{node}/{ended.number}", cluster, ended)
        record.drain, record.is_over = Drain.of(drained.event, message), False
        self._save(cluster, node, record)
        return drained

    def _of(self, cluster: str) -> _Cluster:
        return self._known.setdefault(cluster, _Cluster())

    def _is_declared(self, cluster: str, node: str) -> bool:
        """Return whether the name of a record is that of a declared node, or of its cluster."""
        if cluster not in self._clusters():
            return False
        index = self._names()[cluster].find(node) if node else 0
        return index is not None and index < self._clusters()[cluster].nodes

    def _named(self, cluster: str, nodes: Iterable[str]) -> list[str]:
        """Return the names of nodes. Raises RejectedError for those that nobody declared."""
        names, declared = self._names()[cluster], self._clusters()[cluster]
        found = names.indices(nodes)
        beyond = [index for index in found if index >= declared.nodes]
        if beyond:
            problem = f"{names.name(beyond[0])[:80]!r} is not a node of {cluster}"
            raise RejectedError("nodes", f"{problem}, which has {declared.nodes}")
        return [names.name(index) for index in found]

    def _records(self, cluster: str, nodes: Iterable[str]) -> list[tuple[str, _NodeRecord]]:
        if cluster not in self._clusters():
            raise RejectedError("cluster", f"{cluster[:80]!r} is not declared")
        known = self._of(cluster).records
        return [(n, known.get(n) or _NodeRecord()) for n in self._named(cluster, nodes) or [_ALL]]

    def _require_news(
        self,
        event: Event,
        records: Sequence[tuple[str, _NodeRecord]],
        found: object,
        resumed: Stamp = _NEVER,
    ) -> None:
        """Raise AlreadyAppliedError for a copy, and OvertakenError where nothing is left of what
        an event is about that it is newer than."""
        newest = max((record.newest for _, record in records), default=_NEVER)
        known = {record.resumed[1] for _, record in records}
        known |= {record.drain.stamp[1] for _, record in records if record.drain}
        if event.id in known:
            raise AlreadyAppliedError(event.id)
        if not found:
            raise overtaken(event, max(newest, resumed))

    def _expire(self, record: _NodeRecord, now_s: float) -> bool:
        """Return whether time changed a record. It goes back where a clock was repaired."""
        before = record.is_over, record.aged
        record.is_over = record.drain is not None and record.drain.until_s <= now_s
        since_us = (now_s - self._window_s) * 1e6
        record.aged = sum(each.at_us < since_us for each in record.failures)
        return before != (record.is_over, record.aged)

    def _save(self, cluster: str, node: str, record: _NodeRecord) -> None:
        self._of(cluster).records[node] = record
        self._rows.put(_key(cluster, node), record)
        self._told_now.add((cluster, node))
        self.touch(cluster)


def _key(cluster: str, node: str) -> str:
    return f"{cluster}|{node}"


def _free(record: _NodeRecord, stamp: Stamp) -> None:
    """Drop what was said of a node before."""
    record.resumed = max(record.resumed, stamp)
    if record.drain is not None and record.drain.stamp < stamp:
        record.drain, record.is_over = None, False
    record.failures = tuple(f for f in record.failures if f.at_us > stamp[0])
    record.aged = min(record.aged, len(record.failures))
