"""`coplace-agent run|attach|detach|jobs|release`: the agent of this node, and which jobs it
shutters."""

import argparse
import fcntl
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from coplace_agent.adapters.jobs import JobFile
from coplace_agent.app import agent_settings, job_folder, pauses_file, run
from coplace_agent.watchdog import release as release_paused
from coplace_agent.watchdog import started_ticks
from coplace_client.errors import RejectedError, UnusableError

_COLUMNS: Final = ("job", "attempt", "application", "processes", "progress", "cores")


def main(words: Sequence[str] | None = None) -> None:
    """Run the command. An error that a user can repair is one line, with exit status 1."""
    asked = parser().parse_args(words)
    try:
        asked.do(asked)
    except (UnusableError, OSError) as error:
        sys.exit(f"error: {' '.join(_said(error).split())}")


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def parser() -> argparse.ArgumentParser:
    """Return what reads the command's words."""
    made = argparse.ArgumentParser(prog="coplace-agent", description="The agent of this node.")
    verbs = made.add_subparsers(required=True, metavar="COMMAND")
    verb = verbs.add_parser("run", help="run the agent, until a signal ends it")
    verb.set_defaults(do=lambda _asked: run())
    verb = verbs.add_parser("attach", help="a job runs here from now on")
    verb.set_defaults(do=attach)
    _name_a_job(verb)
    verb.add_argument("--pid", type=int, help="its first process; what descends from it belongs")
    verb.add_argument("--cgroup", type=Path, help="its control group of version 2, instead")
    verb.add_argument(
        "--heartbeats", type=Path, help="file that it counts in; without, IPC is read"
    )
    verb.add_argument("--app-id", default="", help="its application")
    verb.add_argument("--cores", type=int, default=0, help="that it has here; 0: half of them")
    verb = verbs.add_parser("detach", help="a job is to be neither paused nor measured any more")
    verb.set_defaults(do=detach)
    _name_a_job(verb)
    verb = verbs.add_parser("jobs", help="list the jobs that are attached")
    verb.set_defaults(do=jobs)
    verb.add_argument("--output", choices=("table", "json"), default="table")
    verb = verbs.add_parser("release", help="continue what an agent that was killed left paused")
    verb.set_defaults(do=release)
    return made


def _name_a_job(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("job_id", metavar="JOB", help="as it was submitted")
    verb.add_argument("--attempt", type=int, default=1, help="which attempt of it runs")


def attach(asked: argparse.Namespace) -> None:
    """Attach a job. The agent lets go of it when all of its processes have ended."""
    try:
        job = JobFile(
            job_id=asked.job_id,
            attempt=asked.attempt,
            app_id=asked.app_id,
            pid=asked.pid,
            started_ticks=_started(asked.pid),
            cgroup=asked.cgroup and asked.cgroup.absolute(),
            heartbeats=asked.heartbeats and asked.heartbeats.absolute(),
            cores=asked.cores,
        )
    except RejectedError as error:
        known = error.field == "job"
        raise UnusableError(error.problem if known else str(error)) from error
    job_folder(agent_settings()).attach(job)
    print(f"attached {job.key}")


def detach(asked: argparse.Namespace) -> None:
    """Detach a job. Raises UnusableError for one that is not attached."""
    key = f"{asked.job_id}/{asked.attempt}"
    if not job_folder(agent_settings()).detach(key):
        raise UnusableError(f"{key} is not attached")
    print(f"detached {key}")


def jobs(asked: argparse.Namespace) -> None:
    """List the jobs that are attached, a line each."""
    rows = [_row(job) for job in job_folder(agent_settings()).jobs()]
    if asked.output == "json":
        for row in rows:
            print(json.dumps(row))
        return
    widths = {name: max([len(name), *(len(_cell(row[name])) for row in rows)]) for name in _COLUMNS}
    for cells in ({name: name for name in _COLUMNS}, *rows):
        print("  ".join(_cell(cells[name]).ljust(widths[name]) for name in _COLUMNS).rstrip())


def release(_asked: argparse.Namespace) -> None:
    """Continue what an agent that was killed together with its watchdog left paused."""
    path = pauses_file(agent_settings())
    if not path.exists():
        print("nothing was paused here")
        return
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnusableError("a watchdog is at work: it continues what its agent left") from None
        release_paused(file)
    print("nothing is paused any more")


def _started(pid: int | None) -> int:
    """When the process started, so that no other one is meant. Raises UnusableError."""
    if pid is None:
        return 0
    try:
        return started_ticks(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise UnusableError(f"process {pid} does not run") from None


def _row(job: JobFile) -> Mapping[str, object]:
    return {
        "job": job.job_id,
        "attempt": job.attempt,
        "application": job.app_id,
        "processes": str(job.cgroup or job.pid),
        "progress": str(job.heartbeats or "IPC"),
        "cores": job.cores or None,
    }


def _cell(value: object) -> str:
    return "" if value is None else str(value)
