"""`coplace slurm catch-up|reconcile`: Slurm's accounts beside the charges of Coplace."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import typer
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.pricing_pb2 import ChargeMade

from cli.asking import Ingest
from cli.kafka_topics import CHARGES, COMMANDS, KafkaTopics
from cli.notes import note, utc
from cli.output import Output, OutputName, Row, write
from cli.times import clock_us, time_us
from coplace_client.errors import RejectedError
from coplace_client.ingest import publish_all
from services.slurm.adapters.accounts import ended_runs
from services.slurm.adapters.commands import Slurm
from shared.domain.printable import printable
from shared.process.settings import settings
from shared.slurm.clusters import ClusterMap, DeclaredClusters
from shared.slurm.facts import Site, envelopes, identify
from shared.slurm.sacct import SacctRun
from shared.streams.on_kafka.deployment import Deployment

_AT_ONCE: Final = 256
_SECOND_US: Final = 1_000_000
_COLUMNS: Final = ("job", "what", "sacct core s", "charged core s")

SiteName = Annotated[str, typer.Option(help="As in the ids of jobs.")]
Clusters = Annotated[
    list[str],
    typer.Option(
        "--cluster",
        help="Where the Slurm is several clusters, or one of another name: each, in the order of "
        "its file of clusters.",
    ),
]
Account = Annotated[str, typer.Option(help="Of jobs without one.")]
NodeModel = Annotated[str, typer.Option(help="Of all nodes of the cluster.")]
Begin = Annotated[
    int,
    typer.Option("--from", parser=time_us, metavar="TIME", help="Runs that ended then or later."),
]
End = Annotated[
    int, typer.Option("--to", parser=time_us, metavar="TIME", help="Runs that ended before.")
]

RememberS = Annotated[
    float,
    typer.Option(min=0, help="How long pricing remembers ends: COPLACE_PRICING_REMEMBER_S."),
]


@dataclass(slots=True)
class Charged:
    """The core time, core microseconds, that was charged by the last revision, by job; and the jobs
    that ran on the Slurm itself, or on a cluster that it is for all that is known."""

    own: set[str] = field(default_factory=set)
    core_us: dict[str, int] = field(default_factory=dict)
    _revisions: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of_slurm(cls, charges: Iterable[ChargeMade], site: Site, times_us: range) -> "Charged":
        """Return what was charged for jobs of a Slurm that ended then."""
        found, begins = cls(), f"{site.name}/{site.default_cluster}/"
        for charge in charges:
            if charge.job_id.startswith(begins) and charge.finished.ended_at_us in times_us:
                found._take(charge, site)
        return found

    def _take(self, charge: ChargeMade, site: Site) -> None:
        if charge.cluster == site.default_cluster or charge.cluster in site.clusters.node_models:
            self.own.add(charge.job_id)
        if charge.revision > self._revisions.get(charge.job_id, 0):
            self._revisions[charge.job_id] = charge.revision
            self.core_us[charge.job_id] = charge.cores * round(charge.runtime_s * _SECOND_US)


@dataclass(frozen=True, slots=True)
class Difference:
    """A run that Slurm's accounts have otherwise than the charges; None: they have not."""

    job_id: str
    what: str
    sacct_core_s: int | None
    charged_core_us: int | None

    def row(self) -> Row:
        """Return it as the table has it."""
        us = self.charged_core_us
        charged = None if us is None else us / _SECOND_US
        return dict(
            zip(_COLUMNS, (self.job_id, self.what, self.sacct_core_s, charged), strict=True)
        )


def differences(
    found: Iterable[SacctRun], charged: Charged, site: Site
) -> Iterator[tuple[SacctRun | None, Difference]]:
    """Yield what accounts and charges do not agree on, with its run where accounts have one. A run
    that never had nodes has no core time in either; of one whose start accounts missed they have
    none to compare."""
    seen = set[str]()
    for run in found:
        try:
            job_id = identify(run.message(), site)
        except RejectedError as error:
            number = printable(str(run.fields.get("job_id")))
            yield run, Difference(number, f"has no id: {error}", run.core_s, None)
            continue
        seen.add(job_id)
        core_us = charged.core_us.get(job_id)
        if core_us is None and run.has_run:
            yield run, Difference(job_id, "not charged", run.core_s, None)
        elif not run.is_start_unknown and (core_us or 0) != run.core_s * _SECOND_US:
            yield run, Difference(job_id, "other core time", run.core_s, core_us)
    for job_id in sorted(charged.own - seen):
        if core_us := charged.core_us[job_id]:
            yield None, Difference(job_id, "not in the accounts", None, core_us)


def catch_up(
    site: SiteName,
    begin: Begin,
    end: End = "now",  # type: ignore[assignment]
    clusters: Clusters = [],  # noqa: B006 typer reads it
    node_model: NodeModel = "",
    account: Account = "none",
    remember_s: RememberS = 7 * 86_400.0,
    ingest: Ingest = "127.0.0.1:50051",
) -> None:
    """Publish the runs of Slurm's accounts that were not charged, or with another core time.

    Run it again at any time: what is charged by then is not published.
    """
    says, charged = _sides(site, account, node_model, clusters, range(begin, end))
    published = refused = 0
    remembered_from_s = clock_us() / _SECOND_US - remember_s
    for runs in ended_runs(begin // _SECOND_US, end // _SECOND_US):
        found = [(run, of) for run, of in differences(runs, charged, says) if run is not None]
        # What pricing has forgotten it would charge a second time.
        missing = [
            run
            for run, of in found
            if of.charged_core_us is None or run.ended_s > remembered_from_s
        ]
        if left := len(found) - len(missing):
            note([f"{left} runs were charged otherwise longer ago than --remember-s: reprice them"])
        for events in _batches(missing, says):
            why = publish_all(ingest, settings(), events)
            published, refused = published + len(events) - len(why), refused + len(why)
            note(f"ingest refused {events[at].id}: {printable(each)}" for at, each in why.items())
        if runs:
            last = utc(runs[-1].ended_s * _SECOND_US)
            typer.echo(f"until {last}: {len(runs)} runs, {len(missing)} missing", err=True)
    typer.echo(f"published {published} facts, {refused} were refused")
    if refused:
        raise typer.Exit(1)


def _batches(missing: Iterable[SacctRun], site: Site) -> Iterator[Sequence[Envelope]]:
    """The ends before the submissions: a run that is over is never decided on."""
    batch: list[Envelope] = []
    for run in missing:
        try:
            batch += reversed(envelopes(run.message(), site))
        except RejectedError as error:
            note([printable(f"job {run.fields.get('job_id')}: {error}")])
        if len(batch) >= _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def reconcile(
    site: SiteName,
    begin: Begin,
    end: End = "now",  # type: ignore[assignment]
    clusters: Clusters = [],  # noqa: B006 typer reads it
    output: OutputName = Output.TABLE,
) -> None:
    """Compare charges with Slurm's accounts, to the second: a row for each difference.

    Ends with 1 where there is one. What ended in the last minutes may not be charged yet.
    """
    says, charged = _sides(site, "none", "", clusters, range(begin, end))
    runs = [run for part in ended_runs(begin // _SECOND_US, end // _SECOND_US) for run in part]
    found = [each.row() for _, each in differences(runs, charged, says)]
    core_s = sum(run.core_s for run in runs)
    charged_s = sum(charged.core_us.values()) / _SECOND_US
    note([f"{len(runs)} runs and {core_s} core s in the accounts, {charged_s:g} charged"])
    write(found, _COLUMNS, output)
    if found:
        raise typer.Exit(1)


def _sides(
    site: str, account: str, node_model: str, names: Sequence[str], times_us: range
) -> tuple[Site, Charged]:
    """Whose accounts, and what was charged."""
    if not times_us or times_us.stop > clock_us() + _SECOND_US:
        raise typer.BadParameter(
            "must lie before --to, which is not in the future", param_hint="--from"
        )
    topics = KafkaTopics(Deployment.from_settings(settings()))
    clusters = _declared(topics, names)
    says = Site(site, account, node_model, Slurm().config()["ClusterName"], clusters)
    told = (each.payload for each in topics.topic(CHARGES))
    charges = (each for each in told if isinstance(each, ChargeMade))
    seconds = range(*(each // _SECOND_US * _SECOND_US for each in (times_us.start, times_us.stop)))
    return says, Charged.of_slurm(charges, says, seconds)


def _declared(topics: KafkaTopics, names: Sequence[str]) -> ClusterMap:
    """The clusters that a Slurm is. Raises BadParameter for one that nobody declared."""
    known = DeclaredClusters(names)
    for event in topics.topic(COMMANDS) if names else ():
        known.fold(event)
    if known.missing:
        wrong = ", ".join(known.missing)
        raise typer.BadParameter(
            f"{wrong}: nobody has declared it: see coplace clusters", param_hint="--cluster"
        )
    return known.clusters
