"""`coplace slurm`: what an operator of a Slurm does beside the process, and its accounts."""

import getpass
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Final

import typer
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from cli.asking import Ingest, Placement, asking
from cli.notes import note
from cli.slurm.catch_up import catch_up, reconcile
from coplace_client.errors import UnusableError
from services.slurm.adapters.commands import Slurm
from services.slurm.adapters.declared_limits import limits_in
from services.slurm.adapters.giving_back import (
    GIVEN_BACK,
    FailedError,
    give_back,
    given_back,
    shown_jobs,
)
from services.slurm.adapters.order_terms import OrderTerms
from services.slurm.model.fields_page import page
from services.slurm.model.limits import enforces_limits
from services.slurm.processor.checks import (
    TIMER,
    SetupPiece,
    of_config,
    of_jobs,
    of_limits,
    of_nodes,
    of_order,
    of_silence,
)
from services.slurm.settings import shares_of

app = typer.Typer(
    no_args_is_help=True,
    help="Check what is beside a Slurm, compare its accounts, or give it back.",
)
app.command("catch-up")(catch_up)
app.command()(reconcile)
_WITHIN_S: Final = 5.0


@app.command()
def check(
    clusters: Annotated[Path, typer.Option(help="The file of clusters.")] = Path(
        "/etc/coplace/clusters.yaml"
    ),
    heartbeat: Annotated[
        Path,
        typer.Option(
            envvar="COPLACE_SLURM_HEARTBEAT_FILE", help="Its time is when Coplace last spoke."
        ),
    ] = Path("/var/lib/coplace-slurm/heartbeat"),
    ingest: Ingest = "127.0.0.1:50051",
    placement: Placement = "127.0.0.1:50053",
    watch: Annotated[
        str, typer.Option(envvar="COPLACE_WATCH_ADDRESS", help="host:port of watch.")
    ] = "127.0.0.1:50054",
) -> None:
    """Try each piece of a site's configuration, and say what is missing."""
    slurm, silent_s = Slurm(), _silent_s(heartbeat)
    found = [
        *_tried("Slurm's configuration", lambda: of_config(slurm.config(), getpass.getuser())),
        *_tried("squeue --json", lambda: of_jobs(slurm.config(), len(slurm.jobs()))),
        *_tried("Slurm's order", lambda: _of_order(slurm)),
        *_tried("Slurm's limits", lambda: _of_limits(slurm)),
        *_tried(f"nodes and {clusters}", lambda: of_nodes(slurm.nodes(), shares_of(clusters))),
        *of_silence(silent_s, _timer_state()),
        *_answering("ingest", ingest),
        *_answering("placement", placement),
        *_answering("watch", watch),
    ]
    for each in found:
        typer.echo(str(each))
    if missing := sum(not each.is_good for each in found):
        raise IncompleteSetupError(f"{missing} of {len(found)} pieces are missing")


@app.command()
def fields() -> None:
    """Print what becomes of each field of a job, in Markdown."""
    typer.echo(page(), nl=False)


class IncompleteSetupError(UnusableError):
    """Something is missing beside a Slurm."""


def _tried(what: str, find: Callable[[], Iterable[SetupPiece]]) -> list[SetupPiece]:
    try:
        return list(find())
    except UnusableError as error:
        return [SetupPiece(what, str(error))]


def _of_order(slurm: Slurm) -> Iterable[SetupPiece]:
    terms = OrderTerms(slurm)
    terms.read()
    return of_order(slurm.config(), terms.problems)


def _of_limits(slurm: Slurm) -> Iterable[SetupPiece]:
    config = slurm.config()
    limits = limits_in(slurm, config["ClusterName"], "") if enforces_limits(config) else []
    return of_limits(config, len(limits))


def _silent_s(heartbeat: Path) -> float | None:
    try:
        return time.time() - heartbeat.stat().st_mtime
    except OSError:
        return None


def _timer_state() -> str:
    """As systemd has it."""
    try:
        asked = ["systemctl", "is-active", TIMER]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _answering(name: str, address: str) -> list[SetupPiece]:
    def answers() -> list[SetupPiece]:
        with asking(address) as channel:
            HealthStub(channel).Check(HealthCheckRequest(), timeout=_WITHIN_S)
        return [SetupPiece(f"{name} at {address} answers")]

    return _tried(name, answers)


@app.command()
def release(
    everything: Annotated[
        bool, typer.Option("--all", help="All jobs that wait: there is no other choice.")
    ],
) -> None:
    """Give all jobs that wait back to Slurm, which starts them by its own rules.

    Stop the process `slurm` first, and take JobSubmitPlugins=lua out of slurm.conf, so that new
    jobs are not held.
    """
    if not everything:
        raise typer.BadParameter("must be given: all jobs go back, or none", param_hint="--all")
    try:
        found = given_back(shown_jobs())
    except FailedError as error:
        raise UnusableError(str(error)) from None
    failed = [problem for group in found for problem in give_back(group, GIVEN_BACK)]
    typer.echo(f"{sum(len(group.jobs) for group in found) - len(failed)} jobs are Slurm's")
    note(failed)
    raise typer.Exit(1 if failed else 0)
