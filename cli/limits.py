"""`coplace limits set|show`: what users, accounts, QOS and partitions may have at once."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import ceil
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
from cli.listing import require_site
from cli.outcomes import order, show_state, tell
from cli.output import Output, OutputName, Row
from cli.speaking import Source
from cli.times import clock_us
from cli.waiting import WAIT_S, Wait
from coplace_client.errors import UnusableError
from coplace_client.facts import fact
from coplace_client.millicores import PER_CORE, millicores, whole_cores
from shared.domain.resources import Resources, require_resources, resources_of
from shared.placement.state.limits import (
    CORES,
    NODE_HOURS,
    Limit,
    Subject,
    SubjectKind,
    declared,
    limit_of,
)

app = typer.Typer(
    no_args_is_help=True, help="What users, accounts, QOS and partitions may have at once."
)
_WITHIN_S: Final = 30.0
_COLUMNS: Final = (
    *("of", "name", "each", "who", "jobs", "most jobs", "nodes", "most nodes"),
    *("cores", "most cores", "node-hours", "most node-hours", "resources"),
    *("declared_by", "site"),
)
# Left out of a table where none has the other.
_BESIDE: Final = {
    "each": "each",
    "who": "each",
    "cores": "most cores",
    "most cores": "most cores",
    **dict.fromkeys(("node-hours", "most node-hours"), "most node-hours"),
    "resources": "resources",
    "declared_by": "declared_by",
    "site": "site",
}
_MOST: Final = 1_000_000_000
_MOST_NODE_HOURS: Final = 1e10
_HOUR_S: Final = 3600


class Limited(StrEnum):
    """Whom operators declare limits of."""

    USER = SubjectKind.USER
    ACCOUNT = SubjectKind.ACCOUNT
    QOS = SubjectKind.QOS
    PARTITION = SubjectKind.PARTITION


@app.command("set")
def set_limits(
    kind: Annotated[Limited, typer.Argument(help="Of whom.")],
    name: Annotated[str, typer.Argument(help="As jobs name the user, account, QOS or partition.")],
    jobs: Annotated[
        int, typer.Option(min=0, max=_MOST, help="Jobs that run at once; 0: any number.")
    ] = 0,
    nodes: Annotated[
        int, typer.Option(min=0, max=_MOST, help="Nodes that they are allocated; 0: any number.")
    ] = 0,
    cores: Annotated[
        int, typer.Option(min=0, max=_MOST, help="Cores that they are allocated; 0: any number.")
    ] = 0,
    resources: Annotated[
        str, typer.Option(help="What jobs ask for beside cores: gpu=4,fpga=1; empty: any number.")
    ] = "",
    node_hours: Annotated[
        float,
        typer.Option(
            min=0,
            max=_MOST_NODE_HOURS,
            help="Nodes times the limits that running jobs asked for; 0: any number.",
        ),
    ] = 0.0,
    each: Annotated[
        Limited | None,
        typer.Option(help="Each user or account within it has this for itself."),
    ] = None,
    site: Annotated[
        str, typer.Option(help="For what runs on the clusters of this site alone; empty: on all.")
    ] = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Declare all limits of a user, an account, a QOS or a partition: they replace those before."""
    require_site(placement, site)
    within = SubjectKind(each) if each else None
    subject = Subject(SubjectKind(kind), name, within, site=site)
    node_s = ceil(node_hours * _HOUR_S)
    limit = Limit(jobs, nodes, millicores(cores), node_s, _counts(resources))
    message = declared(subject, limit)
    done = order(ingest, declaration(message, source, clock_us()), wait)
    typer.echo(f"declared for {_named(subject)}: {_words(limit)}")
    tell(done)
    show_state("placement", lambda: _state(ask(placement, site).limits, subject))


def declaration(limit: LimitsDeclared, source: str, now_us: int) -> Envelope:
    """Return the event that declares limits. Raises RejectedError for an invalid name."""
    subject, _ = limit_of(limit)
    named = (subject.kind, subject.name, subject.each, subject.site)
    of = "/".join(filter(None, named))
    return fact(source, limit, f"{of}/{now_us}", now_us)


@app.command()
def show(
    site: Annotated[str, typer.Option(help="Only those of this site; empty: all.")] = "",
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """List the limits, and what is allocated under them."""
    require_site(placement, site)
    answer = ask(placement, site)
    rows = [row(limit) for limit in answer.limits]
    # Programs get all columns; people those that say something.
    shown = _needed(rows) if output is Output.TABLE else _COLUMNS
    write_answer(answer, rows, shown, output)


def ask(placement: str, site: str = "") -> ListLimitsResponse:
    """Ask placement for the limits, or those of a site, and what is allocated under them. Raises
    UnansweredError."""
    with asking(placement) as channel:
        stub = PlacementServiceStub(channel)
        return stub.ListLimits(ListLimitsRequest(site=site), timeout=_WITHIN_S)


def _state(listed: Iterable[ListedLimit], subject: Subject) -> str:
    for each in listed:
        of, limit = limit_of(each.limit)
        if of == subject:
            return f"{_words(limit)}; {_held(each)}"
    return f"no limits of {_named(subject)}"


def row(listed: ListedLimit) -> Row:
    """Return the row of a limit, and of what is allocated under it."""
    subject, limit = limit_of(listed.limit)
    most = dict(limit.resources)
    of_most = [f"{listed.resources[name]} of {count} {name}" for name, count in most.items()]
    return {
        "of": subject.kind,
        "name": subject.name,
        "each": subject.each,
        "who": listed.who or None,
        "jobs": listed.running_jobs,
        "most jobs": limit.jobs or None,
        "nodes": listed.nodes,
        "most nodes": limit.nodes or None,
        "cores": listed.millicores / PER_CORE if listed.millicores else listed.cores,
        "most cores": whole_cores(limit.millicores) or None,
        "node-hours": round(listed.node_hours, 1),
        "most node-hours": round(limit.node_s / _HOUR_S, 1) or None,
        "resources": ", ".join(of_most) or None,
        "declared_by": listed.declared_by or None,
        "site": subject.site or None,
    }


def _needed(rows: Sequence[Row]) -> list[str]:
    """The columns that some row has a limit for, and those of jobs and nodes."""
    has = {name for each in rows for name, value in each.items() if value is not None}
    return [name for name in _COLUMNS if _BESIDE.get(name, "of") in has | {"of"}]


def _named(subject: Subject) -> str:
    of = f"{subject.kind} {subject.name}" + (f" at {subject.site}" if subject.site else "")
    return of if subject.each is None else f"each {subject.each} of {of}"


def _words(limit: Limit) -> str:
    """What is allowed at once; what is not limited is left out."""
    most = [f"{limit.jobs:,} jobs"] if limit.jobs else []
    shown = {
        CORES: f"{whole_cores(limit.millicores):,}",
        NODE_HOURS: f"{limit.node_s / _HOUR_S:,g}",
    }
    for unit, amount in limit.amounts.items():
        most += [f"{shown.get(unit, f'{amount:,}')} {unit}"] if amount else []
    return f"at most {', '.join(most)} at once" if most else "any number of jobs and nodes"


def _held(listed: ListedLimit) -> str:
    """What is allocated under it now."""
    by = f" of {listed.who} (the most of all)" if listed.who else ""
    return f"{listed.running_jobs:,} jobs{by} run on {listed.nodes:,} nodes"


def _counts(text: str) -> Resources:
    """Counts by name, of such as `gpu=4,fpga=1`. Raises UnusableError, which says what is wrong."""
    found: dict[str, int] = {}
    for each in filter(None, text.split(",")):
        name, is_given, count = each.partition("=")
        if not (is_given and name and count.isdecimal()):
            raise UnusableError(f"--resources: {each!r} is not a name and a count, such as gpu=4")
        found[name] = int(count)
    resources = resources_of(found)
    require_resources("--resources", resources)
    return resources
