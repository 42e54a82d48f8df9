"""`coplace reservation set|remove|list|show`: nodes that are kept for somebody, or for nobody while
they are maintained."""

from typing import Annotated, Final

import typer
from coplace.v1.control_pb2 import ReservationDeclared, ReservationRemoved
from coplace.v1.placement_service_pb2 import (
    ListedReservation,
    ListReservationsRequest,
    ListReservationsResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from cli.answers import write_answer
from cli.asking import Ingest, Placement, asking
from cli.completion import ClusterName, OneCluster
from cli.listing import require_cluster
from cli.outcomes import order, show_state, tell
from cli.output import Output, OutputName, Row
from cli.speaking import Reason, Source
from cli.times import clock_us, duration_us, format_utc, time_us
from cli.waiting import WAIT_S, Wait
from coplace_client.bounds import MOST_NODES
from coplace_client.errors import UnusableError
from coplace_client.facts import fact

app = typer.Typer(
    no_args_is_help=True, help="Reserve nodes for users or accounts, or for maintenance."
)
_WITHIN_S: Final = 30.0
_PLACEMENT, _INGEST = "127.0.0.1:50053", "127.0.0.1:50051"
_COLUMNS: Final = (
    *("cluster", "name", "nodes", "count", "allocated", "from", "until"),
    *("users", "accounts", "declared_by", "reason"),
)

ReservationName = Annotated[str, typer.Argument(metavar="NAME", help="As jobs name it.")]


class UnknownReservationError(UnusableError):
    """The cluster has no such reservation."""


@app.command("set")
def set_reservation(
    cluster: ClusterName,
    name: ReservationName,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--node", help="A name or a host list (n[001-004]); several times."),
    ] = None,
    count: Annotated[
        int, typer.Option(min=0, max=MOST_NODES, help="Number of nodes, which placement chooses.")
    ] = 0,
    partition: Annotated[
        str, typer.Option(help="Nodes of this partition; all of them without --count.")
    ] = "",
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="When it begins; now by default.")
    ] = "now",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="When it ends.")] = None,
    lasts: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long it lasts, such as 4hours."),
    ] = None,
    users: Annotated[
        list[str] | None,
        typer.Option("--user", help="User whose jobs may use it; may be repeated."),
    ] = None,
    accounts: Annotated[
        list[str] | None,
        typer.Option("--account", help="Account whose jobs may use it; may be repeated."),
    ] = None,
    reason: Reason = "",
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Keep nodes for the jobs of some users or accounts; with neither it is a maintenance.

    Without nodes, a count and a partition it is the whole cluster. It replaces what was declared of
    this name before. What runs there runs on.
    """
    now_us = clock_us()
    from_us = _time_us(begin, "--from")
    if (until is None) == (lasts is None):
        raise typer.BadParameter("give one of --until and --for")
    until_us = _time_us(until, "--until") if until else from_us + _duration_us(lasts or "")
    require_cluster(placement, cluster)
    message = ReservationDeclared(
        cluster=cluster,
        name=name,
        nodes=nodes,
        node_count=count,
        partition=partition,
        from_us=from_us,
        until_us=until_us,
        users=users,
        accounts=accounts,
        reason=reason,
        declared_at_us=now_us,
    )
    done = order(ingest, fact(source, message, f"{cluster}/{name}/{now_us}", now_us), wait)
    until_told = f"from {format_utc(from_us)} until {format_utc(until_us)}"
    typer.echo(f"reserved {_whose(message)} on {cluster}, {until_told}")
    tell(done)
    show_state("placement", lambda: _state(ask(placement, cluster, name), cluster, name))


@app.command()
def remove(
    cluster: ClusterName,
    name: ReservationName,
    reason: Reason = "",
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Remove a reservation: other jobs may use its nodes. Jobs that name it are held until it is
    declared again."""
    now_us = clock_us()
    require_cluster(placement, cluster)
    message = ReservationRemoved(cluster=cluster, name=name, reason=reason, removed_at_us=now_us)
    done = order(ingest, fact(source, message, f"{cluster}/{name}/{now_us}", now_us), wait)
    typer.echo(f"removed {name} of {cluster}")
    tell(done)
    show_state("placement", lambda: _state(ask(placement, cluster, name), cluster, name))


@app.command("list")
def list_reservations(
    cluster: OneCluster = None,
    output: OutputName = Output.TABLE,
    placement: Placement = _PLACEMENT,
) -> None:
    """List what is reserved and maintained, by cluster and by when it begins."""
    if cluster:
        require_cluster(placement, cluster)
    answer = ask(placement, cluster or "")
    write_answer(answer, [row(each) for each in answer.reservations], _COLUMNS, output)


@app.command()
def show(
    cluster: ClusterName,
    name: ReservationName,
    output: OutputName = Output.TABLE,
    placement: Placement = _PLACEMENT,
) -> None:
    """Show one reservation, with its nodes."""
    answer = require_known(placement, cluster, name)
    write_answer(answer, [row(each) for each in answer.reservations], _COLUMNS, output)


def ask(placement: str, cluster: str = "", name: str = "") -> ListReservationsResponse:
    """Ask placement for reservations: of all clusters and names where these are empty. Raises
    UnansweredError."""
    with asking(placement) as channel:
        request = ListReservationsRequest(cluster=cluster, name=name)
        return PlacementServiceStub(channel).ListReservations(request, timeout=_WITHIN_S)


def require_known(placement: str, cluster: str, name: str) -> ListReservationsResponse:
    """Return the answer about one reservation. Raises UnknownNameError for a cluster that is not
    declared, and UnknownReservationError."""
    require_cluster(placement, cluster)
    answer = ask(placement, cluster, name)
    if not answer.reservations:
        raise UnknownReservationError(
            f"{cluster} has no reservation {name[:80]!r}: `coplace reservation list` shows them"
        )
    return answer


def row(listed: ListedReservation) -> Row:
    """Return the row of a reservation; names are separated by blanks, times are UTC."""
    found = listed.reservation
    return {
        "cluster": found.cluster,
        "name": found.name,
        "nodes": ",".join(found.nodes) or (f"all of {found.partition or found.cluster}"),
        "count": listed.nodes,
        "allocated": listed.allocated_nodes,
        "from": format_utc(found.from_us),
        "until": format_utc(found.until_us),
        "users": " ".join(found.users),
        "accounts": " ".join(found.accounts),
        "declared_by": listed.declared_by,
        "reason": found.reason,
    }


def _state(answer: ListReservationsResponse, cluster: str, name: str) -> str:
    for each in answer.reservations:
        found = row(each)
        held = f"{each.allocated_nodes} of them allocated"
        return f"{name} of {cluster}: {found['nodes']} ({each.nodes} nodes, {held})"
    return f"no reservation {name} of {cluster}"


def _whose(message: ReservationDeclared) -> str:
    if not (message.users or message.accounts):
        return f"{message.name} for nobody (a maintenance)"
    return f"{message.name} for {', '.join([*message.users, *message.accounts])}"


def _time_us(text: str, option: str) -> int:
    try:
        return time_us(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _duration_us(text: str) -> int:
    try:
        return duration_us(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None
