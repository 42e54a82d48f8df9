"""Clusters, nodes and starts in words: why they are closed, drained or withdrawn."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final

from shared.domain.cluster import Cluster
from shared.domain.times import in_utc
from shared.placement.state.closure import Closure
from shared.placement.state.grants import WithdrawalKind, WithdrawalReason
from shared.placement.state.node_states import Drain, NodeStates


class DrainWords:
    """Words how many nodes of a cluster are drained, and why one of them is."""

    def __init__(self, nodes: NodeStates, clusters: Callable[[], Mapping[str, Cluster]]) -> None:
        self._nodes, self._clusters = nodes, clusters
        self._known: dict[str, tuple[int, str]] = {}

    def __call__(self, cluster: str) -> str:
        """Return the words; empty where no node is drained."""
        revision = self._nodes.revision(cluster)
        known = self._known.get(cluster)
        if known is None or known[0] != revision:
            drained = self._nodes.drained(cluster)
            words = self._words(cluster, drained) if drained else ""
            known = self._known[cluster] = revision, words
        return known[1]

    def _words(self, cluster: str, drained: Mapping[int, Sequence[Drain]]) -> str:
        nodes, why = self._clusters()[cluster].nodes, drain_words(next(iter(drained.values()))[0])
        if len(drained) == nodes:
            return f"all {nodes} nodes are {why}"
        return f"{len(drained)} of {nodes} nodes are drained, such as one {why}"


def drain_words(drain: Drain) -> str:
    """Return who drained a node, since when, until when and why."""
    until = f" until {in_utc(drain.until_s)}" if drain.until_s < inf else ""
    return f"drained by {drain.by} since {in_utc(drain.since_s)}{until}: {drain.reason}"


def closure_words(closure: Closure) -> str:
    """Return why nothing starts on a cluster, and since when."""
    since = f"since {in_utc(closure.since_s)}"
    if closure.silent_manager:
        return f"silent {since}: no word from its resource manager, {closure.silent_manager}"
    if closure.is_lost:
        return f"lost {since}: {closure.reason}" if closure.reason else f"lost {since}"
    return f"undeclared by {closure.undeclared_by} {since}: {closure.reason}"


def runs_words(cluster: str) -> str:
    """Return that a job runs on a cluster that is not declared."""
    return f"runs on {cluster}, as the resource manager there says"


_WITHDRAWN: Final = {
    WithdrawalKind.CANCELLED: "cancelled",
    WithdrawalKind.HELD: "held: {text}",
    WithdrawalKind.REQUEUE_ASKED: "{text}",
    WithdrawalKind.SEIZED: "{text}",
    WithdrawalKind.PUBLISHED: "{text}",
    WithdrawalKind.CLUSTER_CLOSED: "{about}: {closure}",
    WithdrawalKind.NODES_TAKEN: "{about} runs on its nodes, as the resource manager says",
    WithdrawalKind.NOT_CONFIRMED: (
        "the resource manager of {about} did not confirm the start by {at}"
    ),
    WithdrawalKind.RUNS_UNDECLARED: "runs on {about}, as the resource manager there says",
    WithdrawalKind.RUNS_ELSEWHERE: "the job runs on {about}, as the resource manager there says",
    WithdrawalKind.GRANTED_ELSEWHERE: "the job was granted to {about}",
    WithdrawalKind.DECLINED: "grant {number} was declined",
    WithdrawalKind.REPLACED: "grant {number} was withdrawn: the newest is {newest}",
    WithdrawalKind.REQUEUED: "the job was requeued as attempt {number}",
}


def withdrawal_words(why: WithdrawalReason) -> str:
    """Return why a start must not take place."""
    if why.kind is WithdrawalKind.HELD and not why.text:
        return "held"
    return _WITHDRAWN[why.kind].format(
        about=why.about or "another cluster",
        text=why.text or "withdrawn before",
        number=why.number,
        newest=why.newest,
        at=in_utc(why.at_s),
        closure=closure_words(why.closure) if why.closure else "",
    )
