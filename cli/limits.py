"""`coplace limits set|show`: what users and accounts may have at once."""

from collections.abc import Iterable
from typing import Annotated, Final

import typer
from coplace.v1.control_pb2 import LimitsDeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import (
    ListedLimit,
    ListLimitsRequest,
    ListLimitsResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from cli.answers import write_answer
from cli.asking import Ingest, Placement, asking
from cli.outcomes import order, show_state, tell
from cli.output import Output, OutputName, Row
from cli.speaking import Source
from cli.times import clock_us
from cli.waiting import WAIT_S, Wait
from coplace_client.facts import fact
from shared.placement.state.limits import Limit, Subject, SubjectKind, declared, limit_of

app = typer.Typer(no_args_is_help=True, help="What users and accounts may have at once.")
_WITHIN_S: Final = 30.0
_COLUMNS: Final = ("of", "name", "jobs", "most jobs", "nodes", "most nodes")
_MOST: Final = 1_000_000_000


@app.command("set")
def set_limits(
    kind: Annotated[SubjectKind, typer.Argument(help="Of whom.")],
    name: Annotated[str, typer.Argument(help="As jobs name the user or the account.")],
    jobs: Annotated[
        int, typer.Option(min=0, max=_MOST, help="Jobs that run at once; 0: any number.")
    ] = 0,
    nodes: Annotated[
        int, typer.Option(min=0, max=_MOST, help="Nodes that they are allocated; 0: any number.")
    ] = 0,
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Declare both limits of a user or of an account, which replaces what was declared before."""
    subject = Subject(kind, name)
    limit = declared(subject, Limit(jobs, nodes))
    done = order(ingest, declaration(limit, source, clock_us()), wait)
    typer.echo(f"declared for {kind} {name}: {_most(jobs)} jobs at once, {_most(nodes)} nodes")
    tell(done)
    show_state("placement", lambda: _state(ask(placement).limits, subject))


def declaration(limit: LimitsDeclared, source: str, now_us: int) -> Envelope:
    """Return the event that declares limits. Raises RejectedError for an invalid name."""
    subject, _ = limit_of(limit)
    return fact(source, limit, f"{subject.kind}/{subject.name}/{now_us}", now_us)


@app.command()
def show(output: OutputName = Output.TABLE, placement: Placement = "127.0.0.1:50053") -> None:
    """List the limits, and what is allocated under them."""
    answer = ask(placement)
    write_answer(answer, [row(limit) for limit in answer.limits], _COLUMNS, output)


def ask(placement: str) -> ListLimitsResponse:
    """Ask placement for the limits, and what is allocated under them. Raises UnansweredError."""
    with asking(placement) as channel:
        stub = PlacementServiceStub(channel)
        return stub.ListLimits(ListLimitsRequest(), timeout=_WITHIN_S)


def _state(listed: Iterable[ListedLimit], subject: Subject) -> str:
    for each in listed:
        of, limit = limit_of(each.limit)
        if of == subject:
            jobs = f"{_most(limit.jobs)} jobs at once ({each.running_jobs:,} run)"
            return f"{jobs}, {_most(limit.nodes)} nodes ({each.nodes:,} are allocated)"
    return f"no limits of {subject.kind} {subject.name}"


def row(listed: ListedLimit) -> Row:
    """Return the row of a limit, and of what is allocated under it."""
    subject, limit = limit_of(listed.limit)
    return {
        "of": subject.kind,
        "name": subject.name,
        "jobs": listed.running_jobs,
        "most jobs": limit.jobs or None,
        "nodes": listed.nodes,
        "most nodes": limit.nodes or None,
    }


def _most(amount: int) -> str:
    return f"at most {amount:,}" if amount else "any number of"
