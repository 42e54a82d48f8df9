"""`coplace drain`, `resume`, `undeclare` and `nodes`: what operators say of clusters and nodes, and
the state of these."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final

import typer
from coplace.v1.control_pb2 import ClusterUndeclared, NodesDrained, NodesResumed
from coplace.v1.placement_service_pb2 import (
    NODE_STATE_ALLOCATED,
    NODE_STATE_BOOTING,
    NODE_STATE_DRAINED,
    NODE_STATE_DRAINING,
    NODE_STATE_IDLE,
    NODE_STATE_MIXED,
    NODE_STATE_OFF,
    NodeGroup,
    ShowNodesRequest,
    ShowNodesResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from cli.answers import write_answer
from cli.asking import Ingest, Placement, asking
from cli.completion import ClusterName, OneCluster
from cli.listing import require_cluster
from cli.outcomes import order, show_state, tell
from cli.output import Output, OutputName, Row
from cli.speaking import Source
from cli.times import clock_us, format_utc, time_us
from cli.waiting import WAIT_S, Wait
from coplace_client.calls import UnansweredError
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.facts import fact
from shared.domain.hostlist import expand

# Tables are read in terminals of this width.
_WIDTH: Final = 80
_WITHIN_S: Final = 60.0
_STATES: Final = {
    NODE_STATE_IDLE: "idle",
    NODE_STATE_MIXED: "mixed",
    NODE_STATE_ALLOCATED: "allocated",
    NODE_STATE_DRAINING: "draining",
    NODE_STATE_DRAINED: "drained",
    NODE_STATE_OFF: "off",
    NODE_STATE_BOOTING: "booting",
}
_COLUMNS: Final = ("cluster", "nodes", "count", "state", "jobs", "reason", "drained_by", "until")
_PLACEMENT, _INGEST = "127.0.0.1:50053", "127.0.0.1:50051"

NodeNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NODE]...", help="Names or host lists (n[001-004]); all if none."),
]
Reason = Annotated[str, typer.Option(help="Why: it is recorded, and shown for jobs that wait.")]


class UnknownNodeError(UnusableError):
    """The cluster has no such node."""


class DrainedByOthersError(UnusableError):
    """A whole cluster is resumed on which others drained nodes too."""


def ask(placement: str, cluster: str) -> ShowNodesResponse:
    """Ask placement for the nodes of a cluster, of all where it is empty. Raises
    UnansweredError."""
    with asking(placement) as channel:
        request = ShowNodesRequest(cluster=cluster)
        return PlacementServiceStub(channel).ShowNodes(request, timeout=_WITHIN_S)


def ask_known(placement: str, cluster: str) -> ShowNodesResponse:
    """Ask as `ask` does. Raises UnknownNameError for a cluster that is not declared."""
    try:
        return ask(placement, cluster)
    except UnansweredError:
        with suppress(UnansweredError):
            require_cluster(placement, cluster)
        raise


def drain(
    cluster: ClusterName,
    nodes: NodeNames = None,
    reason: Reason = "",
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="When they are back; by default, when they are resumed."),
    ] = None,
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Let nothing new start on nodes, or on a whole cluster; what runs there goes on."""
    if not reason:
        raise typer.BadParameter(
            "give the reason: it is shown for jobs that wait", param_hint="--reason"
        )
    now_us = clock_us()
    try:
        until_us = time_us(until) if until else 0
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--until") from None
    if until_us and until_us <= now_us:
        raise typer.BadParameter("lies in the past", param_hint="--until")
    known = require_nodes(ask_known(placement, cluster), cluster, nodes or [])
    drained = NodesDrained(
        cluster=cluster, nodes=nodes, reason=reason, until_us=until_us, drained_at_us=now_us
    )
    done = order(ingest, fact(source, drained, f"{cluster}/{now_us}", now_us), wait)
    resumed_by = " ".join(["coplace resume", cluster, *(nodes or ())])
    until_told = f" until {format_utc(until_us)}" if until_us else f": `{resumed_by}` ends it"
    typer.echo(f"drained {_told(known, nodes)} of {cluster}{until_told}")
    tell(done)
    show_state("placement", lambda: _drains(ask(placement, cluster), cluster))


def resume(
    cluster: ClusterName,
    nodes: NodeNames = None,
    reason: Reason = "",
    whoever: Annotated[
        bool, typer.Option("--all", help="Undo the drains of others too, if no node is named.")
    ] = False,
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Let jobs start again on the nodes that are named, or on all that you drained of a cluster."""
    now_us = clock_us()
    answer = ask_known(placement, cluster)
    known = require_nodes(answer, cluster, nodes or [])
    if not nodes and not whoever:
        _require_own(answer, cluster, source)
    resumed = NodesResumed(cluster=cluster, nodes=nodes, reason=reason, resumed_at_us=now_us)
    done = order(ingest, fact(source, resumed, f"{cluster}/{now_us}", now_us), wait)
    typer.echo(f"resumed {_told(known, nodes)} of {cluster}")
    tell(done)
    wanted = set(expand(",".join(nodes))) if nodes else set(known)
    for group in _drained(ask(placement, cluster), cluster):
        if wanted & set(expand(",".join(group.nodes))):
            typer.echo(f"still drained: {','.join(group.nodes)}, {_reason(group)}")


def nodes(
    cluster: OneCluster = None,
    output: OutputName = Output.TABLE,
    placement: Placement = _PLACEMENT,
) -> None:
    """Show the state of nodes, which are drained and why, and what runs there."""
    answer = ask_known(placement, cluster or "")
    if output is not Output.TABLE:
        write_answer(answer, [row(group) for group in answer.groups], _COLUMNS, output)
        return
    typer.echo(
        f"as of {format_utc(answer.as_of_us)}" if answer.as_of_us else "no round has ended yet"
    )
    for one in answer.clusters:
        if one.closed:
            typer.echo(f"{one.cluster}: nothing starts there, {one.closed}")
    found = table(answer.groups) if cluster else summary(answer.groups)
    Console(width=_WIDTH).print(found)
    if answer.groups_left_out:
        typer.echo(f"and {answer.groups_left_out} more groups: name a cluster")


def undeclare(
    cluster: ClusterName,
    reason: Reason = "",
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Take a cluster out of the region: nothing starts there, running jobs end, then it is
    removed."""
    if not reason:
        raise typer.BadParameter(
            "give the reason: it is shown for jobs that wait", param_hint="--reason"
        )
    now_us = clock_us()
    answer = ask_known(placement, cluster)
    undeclared = ClusterUndeclared(cluster=cluster, reason=reason, undeclared_at_us=now_us)
    done = order(ingest, fact(source, undeclared, f"{cluster}/{now_us}", now_us), wait)
    jobs = {job_id for group in answer.groups for job_id in group.job_ids}
    ends = f"{len(jobs)} jobs or more run there, until they end" if jobs else "nothing runs there"
    typer.echo(f"undeclared {cluster}: {ends}; declare it again to have it back")
    tell(done)
    show_state("placement", lambda: _closure(ask(placement, ""), cluster))


def _drains(answer: ShowNodesResponse, cluster: str) -> str:
    """Which nodes are drained, why and by whom."""
    drained = _drained(answer, cluster)
    told = (f"{','.join(each.nodes)} {_STATES[each.state]}: {_reason(each)}" for each in drained)
    return "; ".join(told) or f"no node of {cluster} drained"


def _closure(answer: ShowNodesResponse, cluster: str) -> str:
    """Whether a cluster is there, and what is not to happen there."""
    for one in answer.clusters:
        if one.cluster == cluster:
            return f"{cluster}, where nothing starts, {one.closed}" if one.closed else cluster
    return f"no cluster {cluster}"


def _drained(answer: ShowNodesResponse, cluster: str) -> list[NodeGroup]:
    states = (NODE_STATE_DRAINING, NODE_STATE_DRAINED)
    return [each for each in answer.groups if each.cluster == cluster and each.state in states]


def _require_own(answer: ShowNodesResponse, cluster: str, source: str) -> None:
    """Raise DrainedByOthersError where the resumption of a whole cluster undoes what others said of
    its nodes."""
    drained = _drained(answer, cluster)
    others = [d for d in drained if {d.drained_by, *d.also_drained_by} != {source}]
    if others:
        told = "; ".join(f"{','.join(each.nodes)[:80]}: {_reason(each)}" for each in others[:5])
        more = f"; and {len(others) - 5} more" if len(others) > 5 else ""
        raise DrainedByOthersError(
            f"others drained nodes of {cluster}: {told}{more}. Name the nodes that you mean, or "
            "give --all to undo these drains too"
        )


def require_nodes(
    answer: ShowNodesResponse, cluster: str, wanted: Sequence[str]
) -> dict[str, NodeGroup]:
    """Return the nodes of a cluster by name. Raises UnknownNodeError unless all that are wanted are
    there, as placement would refuse them."""
    known = {
        name: group
        for group in answer.groups
        if group.cluster == cluster
        for name in expand(",".join(group.nodes))
    }
    try:
        unknown = [name for name in expand(",".join(wanted)) if name not in known] if wanted else []
    except RejectedError as error:
        raise UnknownNodeError(
            f"{','.join(wanted)[:80]!r} is not a list of nodes: {error}"
        ) from error
    if unknown and not answer.groups_left_out:
        example = next(iter(known), "none")
        raise UnknownNodeError(
            f"{cluster} has no node {unknown[0][:80]!r}: its nodes are called such as {example}"
        )
    return known


def summary(groups: Iterable[NodeGroup]) -> Table:
    """Return how many nodes of each cluster are in which state."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    reasons: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for group in groups:
        key = group.cluster, _STATES[group.state]
        counts[key] += group.count
        reasons[key] |= {_reason(group): None} if group.reason else {}
    found = Table("cluster", "state", box=MARKDOWN)
    found.add_column("nodes", justify="right")
    found.add_column("reason")
    for (cluster, state), count in counts.items():
        found.add_row(cluster, state, f"{count}", "; ".join(reasons[cluster, state]))
    return found


def table(groups: Iterable[NodeGroup]) -> Table:
    """Return a table with a row for nodes in the same state."""
    found = Table("nodes", box=MARKDOWN)
    found.add_column("count", justify="right")
    found.add_column("state")
    found.add_column("jobs")
    found.add_column("reason")
    for group in groups:
        row = ",".join(group.nodes), f"{group.count}", _STATES[group.state]
        found.add_row(*row, ", ".join(_jobs(group)), _reason(group))
    return found


def row(group: NodeGroup) -> Row:
    """Return the row of nodes in the same state; jobs are separated by blanks, times are UTC."""
    return {
        "cluster": group.cluster,
        "nodes": ",".join(group.nodes),
        "count": group.count,
        "state": _STATES[group.state],
        "jobs": " ".join(_jobs(group)),
        "reason": group.reason,
        "drained_by": group.drained_by,
        "until": format_utc(group.until_us) if group.until_us else "",
    }


def _jobs(group: NodeGroup) -> Iterator[str]:
    yield from group.job_ids
    if group.jobs_left_out:
        yield f"and {group.jobs_left_out} more"


def _reason(group: NodeGroup) -> str:
    if not group.reason:
        return ""
    until = f", until {format_utc(group.until_us)}" if group.until_us else ""
    by = ", ".join([group.drained_by, *group.also_drained_by])
    return f"{group.reason} ({by}{until})"


def _told(known: Mapping[str, NodeGroup], wanted: Sequence[str] | None) -> str:
    return ",".join(wanted) if wanted else f"all {len(known)} nodes"
