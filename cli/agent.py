"""`coplace agent attach|detach|jobs|release`: what the agent of this node shutters."""

import fcntl
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import ValidationError

from cli.output import Output, OutputName, Row, write
from services.agent.adapters.jobs import JobFile, JobFolder
from services.agent.app import job_folder, pauses_file
from services.agent.settings import AgentSettings
from services.agent.watchdog import release as release_paused
from services.agent.watchdog import started_ticks
from shared.domain.errors import UnusableError

app = typer.Typer(no_args_is_help=True, help="Tell the agent of this node which jobs run.")

JobId = Annotated[str, typer.Argument(metavar="JOB", help="As it was submitted.")]
Attempt = Annotated[int, typer.Option(min=1, help="Which attempt of it runs.")]
_COLUMNS: Final = ("job", "attempt", "application", "processes", "progress", "cores")


@app.command()
def attach(
    job_id: JobId,
    attempt: Attempt = 1,
    pid: Annotated[
        int | None, typer.Option(min=2, help="Its first process; what descends from it belongs.")
    ] = None,
    cgroup: Annotated[
        Path | None, typer.Option(help="Its control group of version 2, instead of a process.")
    ] = None,
    heartbeats: Annotated[
        Path | None, typer.Option(help="File that it counts in; without, IPC is read.")
    ] = None,
    app_id: Annotated[str, typer.Option(help="Its application.")] = "",
    cores: Annotated[int, typer.Option(min=0, help="That it has here; 0: half of them.")] = 0,
) -> None:
    """A job runs here from now on. The agent lets go of it when all of its processes have ended."""
    try:
        job = JobFile(
            job_id=job_id,
            attempt=attempt,
            app_id=app_id,
            pid=pid,
            started_ticks=_started(pid),
            cgroup=cgroup and cgroup.absolute(),
            heartbeats=heartbeats and heartbeats.absolute(),
            cores=cores,
        )
    except ValidationError as error:
        problems = (each["msg"].removeprefix("Value error, ") for each in error.errors())
        raise UnusableError("; ".join(problems)) from error
    _folder().attach(job)
    typer.echo(f"attached {job.key}")


@app.command()
def detach(job_id: JobId, attempt: Attempt = 1) -> None:
    """A job is to be neither paused nor measured any more."""
    key = f"{job_id}/{attempt}"
    if not _folder().detach(key):
        raise UnusableError(f"{key} is not attached")
    typer.echo(f"detached {key}")


@app.command()
def jobs(output: OutputName = Output.TABLE) -> None:
    """List the jobs that are attached."""
    write([_row(job) for job in _folder().jobs()], _COLUMNS, output)


@app.command()
def release() -> None:
    """Continue what an agent that was killed together with its watchdog left paused."""
    path = pauses_file(AgentSettings())
    if not path.exists():
        typer.echo("nothing was paused here")
        return
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnusableError("a watchdog is at work: it continues what its agent left") from None
        release_paused(file)
    typer.echo("nothing is paused any more")


def _folder() -> JobFolder:
    return job_folder(AgentSettings())


def _started(pid: int | None) -> int:
    """When the process started, so that no other one is meant. Raises UnusableError."""
    if pid is None:
        return 0
    try:
        return started_ticks(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise UnusableError(f"no process {pid} runs") from None


def _row(job: JobFile) -> Row:
    return {
        "job": job.job_id,
        "attempt": job.attempt,
        "application": job.app_id,
        "processes": str(job.cgroup or job.pid),
        "progress": str(job.heartbeats or "IPC"),
        "cores": job.cores or None,
    }
