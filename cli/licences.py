"""`coplace licence set|remove|list`: licences, and whatever else is counted of a cluster, a site or
the region."""

from typing import Annotated, Final, NamedTuple

import typer
from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_CLUSTER,
    LICENCE_SCOPE_REGION,
    LICENCE_SCOPE_SITE,
    CommandOutcome,
    LicenceScope,
    LicencesDeclared,
)
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import (
    ListedLicences,
    ListLicencesRequest,
    ListLicencesResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from cli import completion
from cli.answers import write_answer
from cli.asking import Ingest, Placement, asking
from cli.completion import OneCluster
from cli.listing import require_cluster
from cli.outcomes import order, show_state, tell
from cli.output import Output, OutputName, Row
from cli.speaking import Reason, Source
from cli.times import clock_us
from cli.waiting import WAIT_S, Wait
from coplace_client.bounds import LICENCES
from coplace_client.facts import fact

app = typer.Typer(no_args_is_help=True, help="Licences of clusters, sites and the region.")
_WITHIN_S: Final = 30.0
_PLACEMENT, _INGEST = "127.0.0.1:50053", "127.0.0.1:50051"
_COLUMNS: Final = ("name", "of", "count", "in use", "held by", "declared_by", "reason")

LicenceName = Annotated[str, typer.Argument(metavar="NAME", help="As jobs name it.")]
OfCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", help="Jobs on this cluster have them.", autocompletion=completion.clusters
    ),
]
OfSite = Annotated[
    str | None, typer.Option("--site", help="Jobs on all clusters of this site share them.")
]
OfRegion = Annotated[bool, typer.Option("--region", help="Jobs on all clusters share them.")]


class _Place(NamedTuple):
    """Where licences are."""

    scope: LicenceScope.ValueType
    name: str

    @property
    def words(self) -> str:
        """Return it as people say it."""
        if self.scope == LICENCE_SCOPE_REGION:
            return "the region"
        return f"{'cluster' if self.scope == LICENCE_SCOPE_CLUSTER else 'site'} {self.name}"


@app.command("set")
def set_licence(
    name: LicenceName,
    count: Annotated[int, typer.Argument(min=0, max=int(LICENCES.most), help="How many in all.")],
    cluster: OfCluster = None,
    site: OfSite = None,
    region: OfRegion = False,
    reason: Reason = "",
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Say how many licences of a name there are; it replaces what was said there before.

    Jobs hold theirs from the decision to their end. Fewer than are in use stop new starts only.
    """
    place = _place(cluster, site, is_region=region)
    done = order(ingest, _event(place, name, count, reason, source), wait)
    typer.echo(f"declared {count} {name} of {place.words}")
    _tell(done, placement, place, name)


@app.command()
def remove(
    name: LicenceName,
    cluster: OfCluster = None,
    site: OfSite = None,
    region: OfRegion = False,
    reason: Reason = "",
    placement: Placement = _PLACEMENT,
    ingest: Ingest = _INGEST,
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Take a name away there; jobs that name it and find it nowhere are held."""
    place = _place(cluster, site, is_region=region)
    done = order(ingest, _event(place, name, None, reason, source), wait)
    typer.echo(f"removed {name} of {place.words}")
    _tell(done, placement, place, name)


@app.command("list")
def list_licences(
    cluster: OneCluster = None,
    output: OutputName = Output.TABLE,
    placement: Placement = _PLACEMENT,
) -> None:
    """List how many there are, how many are in use, and by which jobs; of one cluster, those that
    its jobs share."""
    if cluster:
        require_cluster(placement, cluster)
    answer = ask(placement, cluster or "")
    write_answer(answer, [row(each) for each in answer.licences], _COLUMNS, output)


def ask(placement: str, cluster: str = "", name: str = "") -> ListLicencesResponse:
    """Ask placement for licences: of all clusters and names where these are empty. Raises
    UnansweredError."""
    with asking(placement) as channel:
        request = ListLicencesRequest(cluster=cluster, name=name)
        return PlacementServiceStub(channel).ListLicences(request, timeout=_WITHIN_S)


def row(listed: ListedLicences) -> Row:
    """Return the row of a name; its holders are separated by blanks, with how many each has."""
    found = listed.licences
    held = [f"{each.job_id} ({each.count})" for each in listed.holders]
    if listed.holders_left_out:
        held.append(f"and {listed.holders_left_out} more")
    return {
        "name": found.name,
        "of": _Place(found.scope, found.place).words,
        "count": found.count,
        "in use": listed.in_use,
        "held by": " ".join(held),
        "declared_by": listed.declared_by,
        "reason": found.reason,
    }


def _event(place: _Place, name: str, count: int | None, reason: str, source: str) -> Envelope:
    now_us = clock_us()
    message = LicencesDeclared(
        scope=place.scope,
        place=place.name,
        name=name,
        count=count,
        reason=reason,
        declared_at_us=now_us,
    )
    return fact(source, message, f"{place.words}/{name}/{now_us}", now_us)


def _place(cluster: str | None, site: str | None, *, is_region: bool) -> _Place:
    """Return where the licences are; exactly one place is to be named."""
    named = [
        place
        for place, is_named in (
            (_Place(LICENCE_SCOPE_CLUSTER, cluster or ""), cluster is not None),
            (_Place(LICENCE_SCOPE_SITE, site or ""), site is not None),
            (_Place(LICENCE_SCOPE_REGION, ""), is_region),
        )
        if is_named
    ]
    if len(named) != 1:
        raise typer.BadParameter("give one of --cluster, --site and --region")
    return named[0]


def _tell(done: CommandOutcome, placement: str, place: _Place, name: str) -> None:
    """Say what came of an order, and how many placement has now."""
    tell(done)
    show_state("placement", lambda: _state(ask(placement, name=name), place, name))


def _state(answer: ListLicencesResponse, place: _Place, name: str) -> str:
    for each in answer.licences:
        if (each.licences.scope, each.licences.place) == place:
            return f"{name} of {place.words}: {each.licences.count}, {each.in_use} in use"
    return f"no {name} of {place.words}"
