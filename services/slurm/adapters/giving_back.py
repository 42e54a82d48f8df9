"""Gives jobs that wait back to their Slurm, which starts them by its own rules: all of them, or,
run as a program by a timer, while Coplace is silent.

The program is this file alone, and needs Slurm's commands: it imports nothing of Coplace, which may
be what fails (docs/how-to/slurm.md). It keeps to what Python 3.8 knows.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

# As services/slurm/model/jobs.py and deploy/slurm/job_submit.lua have them.
GIVEN_BACK: Final = "coplace given back"
IN_SILENCE: Final = "coplace given back in silence"
_HELD_BY_USER: Final = "coplace held by its user"
_COMMENTS: Final = ("comment", "admin_comment")
# As Slurm says that an operator holds a job, which is what this does before it releases one.
_HELD_HERE: Final = "JobHeldAdmin"
# What a grant changed, behind the word on it (shared/slurm/grant_answer.py).
_STARTED: Final = re.compile(r"coplace grant=\d+ started")
_BEFORE: Final = re.compile(r" (limit|requeue|sizes|cpus|wanted)=(\S+)")
# Of a heterogeneous job it has them for each part.
_PARTS: Final = re.compile(r" parts=(\S+)")
_OF_PART: Final = ("limit", "requeue", "sizes", "wanted", "excluded")
_NAME: Final = re.compile(r"^ClusterName\s*= *(\S+)", re.MULTILINE)
# On so many nodes may be what has no limit of them.
_ANY_NODES: Final = 100_000
# As many as a command takes.
_AT_ONCE: Final = 100
_WITHIN_S: Final = 60.0
_HEARTBEAT_FILE: Final = "/var/lib/coplace-slurm/heartbeat"
_AFTER_S: Final = 300.0


class GivenBack(NamedTuple):
    """Jobs that wait, by Slurm's names of them, and what `scontrol update` is to change of each: it
    gets what its user asked for, where a grant changed that. A heterogeneous job has its other
    `parts`, by their numbers, each with what is to change of it."""

    jobs: tuple[str, ...]
    restored: tuple[str, ...] = ()
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()


def given_back(jobs: Iterable[Mapping[str, Any]]) -> list[GivenBack]:
    """Return the jobs that wait for Coplace, or on the nodes that it decided. What its user holds
    stays held, also where it was given back before, and what Slurm starts by itself has no word.

    Slurm changes the nodes of one job alone, and those of no array of which tasks have started.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    alone: list[GivenBack] = []
    shown = list(jobs)
    parts = _other_parts(shown)
    for job in shown:
        if _waits_for_coplace(job):
            changes, others = restored(job), tuple(parts.get(_number(job, "het_job_id") or 0, ()))
            if others or any(change.startswith("ReqNodeList=") for change in changes):
                alone.append(GivenBack((_name(job),), changes, others))
            else:
                alike.setdefault(changes, []).append(_name(job))
    groups = [
        GivenBack(tuple(names[at : at + _AT_ONCE]), changes)
        for changes, names in alike.items()
        for at in range(0, len(names), _AT_ONCE)
    ]
    return [*groups, *alone]


def _other_parts(
    jobs: Iterable[Mapping[str, Any]],
) -> Mapping[int, list[tuple[str, tuple[str, ...]]]]:
    """Return the parts of heterogeneous jobs but the first, and what is to change of each."""
    found: dict[int, list[tuple[str, tuple[str, ...]]]] = {}
    for job in jobs:
        first, number = _number(job, "het_job_id"), _number(job, "job_id")
        if first and number != first:
            found.setdefault(first, []).append((str(number), restored(job)))
    return found


def _waits_for_coplace(job: Mapping[str, Any]) -> bool:
    comment, state = str(job.get("admin_comment") or ""), job.get("job_state")
    is_pending = (state[0] if isinstance(state, list) and state else state) == "PENDING"
    # Slurm starts the parts of a heterogeneous job with its first.
    is_first = _number(job, "het_job_id") in (None, 0, _number(job, "job_id"))
    is_users = any(_HELD_BY_USER in str(job.get(name) or "") for name in _COMMENTS)
    if not is_pending or not is_first or is_users:
        return False
    is_held = _number(job, "priority") == 0
    if GIVEN_BACK in comment:  # and was not released, or somebody holds it since
        return is_held and job.get("state_reason") == _HELD_HERE
    return is_held or bool(_STARTED.search(comment))


def restored(job: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what `scontrol update` is to change of a job that a grant changed."""
    return tuple(_restored(job))


def _restored(job: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a grant changed, as it was before."""
    comment = str(job.get("admin_comment") or "")
    before = _before(job, comment) if "coplace grant=" in comment else {}
    if "limit" not in before and not _STARTED.search(comment):
        return
    if str(job.get("required_nodes") or "") != before.get("wanted", ""):
        yield f"ReqNodeList={before.get('wanted', '')}"
    has_sizes = f"{_number(job, 'node_count') or 0}-{_number(job, 'max_nodes') or 0}"
    sizes = before.get("sizes") or has_sizes
    if sizes != has_sizes:
        least, most = sizes.split("-")
        yield f"NumNodes={least}-{most if int(most) else _ANY_NODES}"
    if before.get("cpus", "") not in ("", str(_number(job, "minimum_cpus_per_node"))):
        yield f"MinCPUsNode={before['cpus']}"
    # Slurm gives all parts of a heterogeneous job what the first gets: so each gets all of it.
    is_part = "excluded" in before
    limit_min = _number(job, "time_limit")
    has_limit = "UNLIMITED" if limit_min is None else str(limit_min)
    if is_part or before.get("limit", "") not in ("", has_limit):
        yield f"TimeLimit={before['limit']}"
    if is_part or before.get("requeue", "") not in ("", str(int(bool(job.get("requeue"))))):
        yield f"Requeue={before['requeue']}"
    if is_part:
        yield f"ExcNodeList={before['excluded']}"


def _before(job: Mapping[str, Any], comment: str) -> Mapping[str, str]:
    """Return what its user asked for, by what the word on the grant says of it."""
    parts = _PARTS.search(comment)
    if parts is None:
        return dict(_BEFORE.findall(comment))
    row = parts[1].split(";")[_number(job, "het_job_offset") or 0].split("|")
    return {name: row[at] for at, name in enumerate(_OF_PART)}


def _name(job: Mapping[str, Any]) -> str:
    """Return the name of what waits alone: that of an array is of its tasks that run too."""
    array, task = _number(job, "array_job_id"), _number(job, "array_task_id")
    if array and task is not None:
        return f"{array}_{task}"
    tasks = str(job.get("array_task_string") or "").partition("%")[0]
    return f"{array}_[{tasks}]" if array and tasks else str(_number(job, "job_id"))


def _number(job: Mapping[str, Any], field: str) -> int | None:
    """Return a number, which later releases give with whether it is set."""
    value = job.get(field)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return value if isinstance(value, int) else None


class FailedError(Exception):
    """A command of Slurm failed, or was not understood."""


def said(*command: str) -> str:
    """Return what a command says. Raises FailedError."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FailedError(f"{' '.join(command)}: {error}") from None
    if done.returncode:
        raise FailedError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[:400]}")
    return done.stdout


def shown_jobs() -> list[Mapping[str, Any]]:
    """Return the jobs that Slurm shows. Raises FailedError."""
    try:
        found = json.loads(said("squeue", "--states=all", "--json"), strict=False)["jobs"]
        return [each for each in found if isinstance(each, dict)]
    except (ValueError, KeyError, TypeError) as error:
        raise FailedError(f"squeue --json wrote no list of jobs: {error!r}") from None


def give_back(group: GivenBack, word: str) -> Iterator[str]:
    """Leave the word in jobs, and only then let Slurm start them; yield why some were not.
    Together, else one by one: one that is refused is no reason to keep the others."""
    names = ",".join(group.jobs)
    try:
        said("scontrol", "hold", names)
        if group.parts and group.restored:
            # The word, which all parts get too, is left when all have what they are to have.
            said("scontrol", "update", f"JobId={names}", *group.restored)
        for part, changes in group.parts if group.restored else ():
            said("scontrol", "update", f"JobId={part}", *changes)
        changes = () if group.parts else group.restored
        said("scontrol", "update", f"JobId={names}", *changes, f"AdminComment={word}")
        said("scontrol", "release", names)
    except FailedError as error:
        if len(group.jobs) == 1:
            yield f"job {names} is not released: {error}"
            return
        for name in group.jobs:
            yield from give_back(group._replace(jobs=(name,)), word)


@contextmanager
def alone(heartbeat: Path) -> Iterator[bool]:
    """Give whether nobody else gives jobs back meanwhile, or takes them back."""
    heartbeat.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{heartbeat}.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def silence_s(heartbeat: Path, now_s: float) -> float:
    """Return for how long Coplace has been silent. Where nobody knows, that begins now; it has been
    for ever where the file is of a time that is to come."""
    try:
        spoke_s = heartbeat.stat().st_mtime
    except FileNotFoundError:
        heartbeat.touch()
        return 0.0
    return now_s - spoke_s if spoke_s <= now_s + _WITHIN_S else float("inf")


def _is_sent_elsewhere(architecture: str) -> bool:
    """Return whether jobs may be granted on clusters that are not of this Slurm."""
    name = _NAME.search(said("scontrol", "show", "config"))
    return bool(architecture) and (name is None or name[1] != architecture)


def main() -> None:
    """Give back what waits, where Coplace is silent for longer than it may be."""
    heartbeat = Path(os.environ.get("COPLACE_SLURM_HEARTBEAT_FILE") or _HEARTBEAT_FILE)
    after_s = float(os.environ.get("COPLACE_FALLBACK_AFTER_S") or _AFTER_S)
    with alone(heartbeat) as is_alone:
        silent_s = silence_s(heartbeat, time.time())
        if is_alone and silent_s > after_s:
            _give_all_back(silent_s)


def _give_all_back(silent_s: float) -> None:
    if _is_sent_elsewhere(os.environ.get("COPLACE_SLURM_ARCHITECTURE", "")):
        sys.exit("COPLACE_SLURM_ARCHITECTURE lets jobs run elsewhere: none is started here")
    groups = given_back(shown_jobs())
    failed = [problem for group in groups for problem in give_back(group, IN_SILENCE)]
    if groups:
        count = sum(len(group.jobs) for group in groups) - len(failed)
        print(f"{count} jobs are Slurm's: Coplace has been silent for {silent_s:.0f} s")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    try:
        main()
    except (FailedError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
