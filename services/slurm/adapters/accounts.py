"""What the accounts say (`sacct`) of the Slurm that `SLURM_CONF` names or that is this host's."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from services.slurm.adapters.commands import SlurmError
from shared.slurm.sacct import BatchStep, SacctRun, batch_steps, runs

_WINDOW_S: Final = 3_600
_WITHIN_S: Final = 600.0
# Of one answer: Python has some ten times as much of it in memory.
_MOST_BYTES: Final = 32 * 1024 * 1024
_MOST_SAID: Final = 400
_JOBS_AT_ONCE: Final = 500
_OVER: Final = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RS,RV,TO"
_NEEDED: Final = (
    "this needs Slurm 22.05 or newer with slurmdbd and its JSON plugin (docs/how-to/slurm.md)"
)


class _TooMuchError(Exception):
    """An answer is larger than memory should be."""


def ended_runs(from_s: int, until_s: int) -> Iterator[Sequence[SacctRun]]:
    """Yield the runs of all users that ended then, or later, and before `until_s`: in parts, by
    their ends. Raises SlurmError."""
    while from_s < until_s:
        before_s = min(from_s + _WINDOW_S, until_s)
        while True:
            try:
                found = _ended(from_s, before_s)
                break
            except _TooMuchError:
                if before_s == from_s + 1:
                    yield from _ended_by_jobs(from_s)
                    found = ()
                    break
                before_s = from_s + (before_s - from_s) // 2
        yield found
        from_s = before_s


def _ended_by_jobs(at_s: int) -> Iterator[Sequence[SacctRun]]:
    """Yield the runs that ended in a second of which sacct says too much at once: a large array
    that was cancelled. Its tasks that never ran are one row, of which nothing is charged."""
    said = _listed("JobID", *_options(at_s, at_s + 1))
    jobs = [name for name in dict.fromkeys(said.splitlines()) if name and "[" not in name]
    for first in range(0, len(jobs), _JOBS_AT_ONCE):
        chosen = ",".join(jobs[first : first + _JOBS_AT_ONCE])
        try:
            yield _ended(at_s, at_s + 1, f"--jobs={chosen}")
        except _TooMuchError:
            raise SlurmError(f"sacct says too much of one of the jobs {chosen:.100}") from None


def _ended(from_s: int, until_s: int, *more: str) -> Sequence[SacctRun]:
    rows = _rows(["sacct", *_options(from_s, until_s), *more, "--json"])
    found = (run for run in runs(rows) if from_s <= run.ended_s < until_s)
    return _as_they_ended(sorted(found, key=lambda run: run.ended_s))


def _as_they_ended(found: Sequence[SacctRun]) -> Sequence[SacctRun]:
    """Return runs with the ends of their scripts, where a requeue came behind these."""
    requeued = sorted({run.job_number for run in found if run.is_requeued})
    scripts: list[BatchStep] = []
    for first in range(0, len(requeued), _JOBS_AT_ONCE):
        chosen = ",".join(map(str, requeued[first : first + _JOBS_AT_ONCE]))
        every_run = ("--allusers", "--duplicates", f"--jobs={chosen}")
        scripts += batch_steps(_listed("JobIDRaw,State,Start,End", *every_run))
    return [run.ended_with(scripts) if run.is_requeued else run for run in found]


def _listed(columns: str, *options: str) -> str:
    """What sacct says in columns, a line a row."""
    command = ["sacct", *options, "--noheader", "--parsable2", f"--format={columns}"]
    return _within_memory(command).decode(errors="replace")


def _options(from_s: int, until_s: int) -> Sequence[str]:
    times = [f"--starttime={_local(from_s)}", f"--endtime={_local(until_s)}"]
    return ["--allusers", "--duplicates", "--allocations", f"--state={_OVER}", *times]


def _rows(command: Sequence[str]) -> Sequence[Any]:
    said = _said(command)
    try:
        found = json.loads(said.decode(errors="replace"), strict=False)["jobs"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise SlurmError(
            f"sacct wrote no list of jobs as JSON: {error!r:.200}: {_NEEDED}"
        ) from None
    if not isinstance(found, list):
        raise SlurmError(f"sacct wrote no list of jobs as JSON: {_NEEDED}")
    return found


def _within_memory(command: Sequence[str]) -> bytes:
    try:
        return _said(command)
    except _TooMuchError:
        raise SlurmError("sacct names too many jobs at once") from None


def _said(command: Sequence[str]) -> bytes:
    """What a command says, up to a bound. Raises _TooMuchError and SlurmError."""
    environment = {**os.environ, "TZ": "UTC"}
    try:
        with (
            tempfile.TemporaryFile() as problems,
            subprocess.Popen(
                ["timeout", f"{_WITHIN_S:.0f}", *command],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=problems,
            ) as asked,
        ):
            assert asked.stdout is not None
            said = asked.stdout.read(_MOST_BYTES + 1)
            if len(said) > _MOST_BYTES:
                asked.kill()
                raise _TooMuchError
            asked.stdout.close()
            failed = asked.wait()
            problems.seek(0)
            words = problems.read(_MOST_SAID).decode(errors="replace").strip()
    except OSError as error:
        raise SlurmError(f"sacct: {error}") from None
    if failed:
        raise SlurmError(f"sacct: {words or f'failed with {failed}'}: {_NEEDED}", words)
    return said


def _local(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
