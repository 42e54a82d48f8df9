"""`coplace up|status|logs|env|down`: all of Coplace on this machine."""

import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.installation.installation import (
    Installation,
    InstallationError,
    ProcessStatus,
    names_another,
)
from cli.installation.record import InstallationRecord, last_folder
from cli.installation.start_display import StartDisplay
from cli.notes import note, utc
from cli.output import Output, OutputName, Row, write

_UP = """\
Coplace is up, kept in
  {folder}
  Kafka {COPLACE_KAFKA_BOOTSTRAP}, Redis {COPLACE_REDIS_URL}
  gRPC: ingest {COPLACE_INGEST_ADDRESS}, placement {COPLACE_PLACEMENT_ADDRESS},
        energy {COPLACE_ENERGY_ADDRESS}, watch {COPLACE_WATCH_ADDRESS}
Commands such as `coplace why` and `coplace tail` find it from any folder.
Programs of your own find it after
  eval "$(coplace env)"
What it does:        coplace status, coplace logs [PROCESS] --follow
How to stop it:      coplace down; with --delete its data go too"""

_SAMPLE = """\
Sample: jobs on the emulated clusters p1 and p2. Look at them with
  coplace jobs, coplace queue p1, coplace clusters, coplace why JOB
A minute after a job ended:  coplace statement physics"""

_SECURE = """\
All of it is encrypted, and asks who somebody is: commands are the operator's.
Credentials are in {folder}/credentials; for others: coplace certificates issue"""


def up(
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder of the installation; that of the last time by default."),
    ] = None,
    planner: Annotated[
        bool, typer.Option(help="With the planner, which looks ahead beside placement.")
    ] = False,
    rest: Annotated[bool, typer.Option(help="With HTTP and JSON over what gRPC answers.")] = False,
    archive: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="With an archive of topics as Parquet files in this folder or object store.",
        ),
    ] = "",
    history: Annotated[
        bool, typer.Option(help="With a history in SQL: runs, charges, accounts and the audit.")
    ] = False,
    webhooks: Annotated[
        bool, typer.Option(help="With webhooks: events are posted to URLs.")
    ] = False,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample", help="With a few jobs on two emulated clusters: running, waiting, ended."
        ),
    ] = False,
    secure: Annotated[
        bool | None,
        typer.Option(
            "--secure/--no-secure",
            help="With TLS, passwords and access control everywhere; as the last time by default.",
        ),
    ] = None,
) -> None:
    """Run Kafka, Redis and all services on this machine, in the background."""
    installation = Installation(folder or last_folder())
    begun = time.monotonic()
    lines = StartDisplay(Console(stderr=True))
    with lines.shown():
        record = installation.up(
            planned=planner,
            with_rest=rest,
            archive=archive,
            with_history=history,
            with_webhooks=webhooks,
            secure=secure,
            sample=sample,
            on_begin=lines.begin,
            on_state=lines.on_state,
        )
    typer.echo(
        f"{len(installation.processes())} processes ready in {time.monotonic() - begun:.0f} s"
    )
    typer.echo(_UP.format(folder=installation.folder, **record.environment))
    if sample:
        typer.echo(_SAMPLE)
    if rest:
        typer.echo(f"REST: {record.environment['COPLACE_REST_URL']} (docs/how-to/rest.md)")
    if archive:
        where = record.environment["COPLACE_ARCHIVE_WHERE"]
        typer.echo(f"Archive: {where} (docs/how-to/archive.md)")
    if installation.is_secure:
        typer.echo(_SECURE.format(folder=installation.folder))
    _note_another(record)


def status(output: OutputName = Output.TABLE) -> None:
    """Show each process: whether it is ready or what it waits for, its ports, since when."""
    installation = _running()
    record, processes = installation.record, installation.processes()
    whole = f"is up since {utc(record.up_since_us)} UTC" if record.up_since_us else "is not whole"
    if output is Output.TABLE:
        typer.echo(f"Coplace {whole}, kept in\n  {installation.folder}")
    write(rows(processes), ("process", "pid", "port", "gRPC", "since (UTC)", "is"), output)
    _note_another(record)
    waiting = [one.name for one in processes if one.waits_for]
    if not record.up_since_us:
        raise InstallationError("its start was killed or is not over: `coplace up` repairs it")
    if waiting:
        raise InstallationError(f"not ready: {', '.join(waiting)}: see `coplace logs {waiting[0]}`")


def rows(processes: Iterable[ProcessStatus]) -> list[Row]:
    """Return a row for each process."""
    return [
        {
            "process": one.name,
            "pid": one.pid or None,
            "port": one.http_port or None,
            "gRPC": ", ".join(map(str, one.grpc_ports)) or None,
            "since (UTC)": utc(one.since_us) if one.since_us else None,
            "is": f"waiting for {one.waits_for}" if one.waits_for else "ready",
        }
        for one in processes
    ]


def logs(
    process: Annotated[
        str | None,
        typer.Argument(help="As `coplace status` names it, or a service in it; all by default."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they come.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of each.")] = 20,
) -> None:
    """Print the end of the log of one process, or of each."""
    from cli.processes import TOGETHER

    known = Installation.last().logs()
    sharing = [name for name, services in TOGETHER.items() if process in services]
    if process not in known and sharing:
        [process] = sharing
    if not known or (process is not None and process not in known):
        raise InstallationError(
            f"there is no log of {process or 'anything'} in {last_folder()}: "
            f"{', '.join(known) or 'start it with `coplace up`'}"
        )
    files = [str(known[process])] if process is not None else list(map(str, known.values()))
    subprocess.run(["tail", "-n", str(lines), *(["-F"] if follow else []), *files], check=False)


def env() -> None:
    """Print what other programs need to find it, as lines for `eval`."""
    for line in export_lines(_running().record.environment):
        typer.echo(line)


def export_lines(environment: Mapping[str, str]) -> list[str]:
    """Return the variables as lines that a shell reads."""
    return [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]


def down(
    folder: Annotated[
        Path | None, typer.Option(help="Its folder; the last that was started by default.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete its folder too, with all data and logs.")
    ] = False,
) -> None:
    """Stop every process; the data stay, and `coplace up` goes on with them."""
    installation = Installation(folder or last_folder())
    with Console(stderr=True).status("stopping, Kafka last"):
        ran = installation.down(delete=delete)
    what = "is down" if ran else "was not up"
    kept = "are deleted" if delete else "stay"
    typer.echo(f"Coplace {what}; its data in {installation.folder} {kept}")


def _running() -> Installation:
    installation = Installation.last()
    if not installation.is_running:
        killed = installation.record.up_since_us > 0
        why = f"was killed in {installation.folder}" if killed else "is not up"
        raise InstallationError(f"Coplace {why}: start it with `coplace up`")
    return installation


def _note_another(record: InstallationRecord) -> None:
    if others := names_another(record):
        note(
            [
                f"commands from this shell go to another system, by {', '.join(others)}: if you "
                'mean this one, eval "$(coplace env)"'
            ]
        )
