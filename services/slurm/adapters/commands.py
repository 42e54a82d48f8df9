"""Slurm's own commands, of the Slurm that `SLURM_CONF` names or that is this host's."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import structlog

from coplace_client.errors import UnusableError
from services.slurm.model.declared import records_of
from services.slurm.model.fields import UNREAD
from services.slurm.model.forms import NEWEST_FORM, unknown_form, unreadable_jobs
from services.slurm.model.het_jobs import lacks_parts, with_gangs
from services.slurm.model.jobs import SlurmJob
from services.slurm.processor.orders import Release
from shared.slurm.answers import number
from shared.slurm.grant_answer import GrantAnswer

_WITHIN_S: Final = 60.0
_JSON: Final = "--json"
_NEEDED: Final = "this needs Slurm 22.05 or newer, with its JSON plugin (docs/how-to/slurm.md)"
_MOST_SAID: Final = 400
_SETTING: Final = re.compile(r"^(\w+)\s*=[ \t]*(.*?)[ \t]*$", re.MULTILINE)
# As Slurm says that a job is unknown, or over.
_UNKNOWN: Final = "Invalid job id"
_OVER: Final = (
    _UNKNOWN,
    "already completed",
    "already finished",
    "already completing",
    "Job/step already",
    "no longer pending",
)
# As Slurm says that its controller is away, or has a job in hand: later it may do what it is asked.
_LATER: Final = (
    *("Unable to contact", "Connection refused", "Connection reset", "timed out", "Zero Bytes"),
    *("standby mode", "in transition", "try again", "temporarily unavailable", "not responding"),
    *("ommunication", "Protocol authentication", "Not primary controller", "ermission denied"),
)

log = structlog.get_logger(__name__)


class SlurmError(UnusableError):
    """A command of Slurm failed, or is not there; the same may succeed later. `words` are what
    Slurm said."""

    def __init__(self, problem: str, words: str = "") -> None:
        super().__init__(problem)
        self.words = words


class SlurmBusyError(SlurmError):
    """Slurm does not change a job now."""


class SlurmRefusedError(SlurmError):
    """Slurm does not change a job as it was asked, and would not later."""


class Slurm:
    """One cluster's Slurm. Every method raises SlurmError; those that change a job leave one alone
    that is over, and name it as Slurm does. `called` gets the program of each command, and whether
    it answered."""

    def __init__(
        self, called: Callable[[str, bool], object] = lambda _program, _answered: None
    ) -> None:
        self._called = called
        self._running: set[subprocess.Popen[bytes]] = set()
        self._last: Mapping[int, SlurmJob] = {}
        self._is_stopped = False
        self._sinfo_has_groups = False
        self._option = _JSON

    def stop(self) -> None:
        """End the commands that run, and start no more: one that waits for a Slurm that is away
        would hold up the end of the process."""
        self._is_stopped = True
        for command in [*self._running]:
            command.kill()

    def config(self) -> Mapping[str, str]:
        """Return its configuration, which has its name."""
        found = dict(_SETTING.findall(self._said("scontrol", "show", "config")))
        if not found.get("ClusterName"):
            raise SlurmError(
                "`scontrol show config` names no cluster: set ClusterName in slurm.conf"
            )
        return found

    def shown(self, kind: str) -> list[dict[str, str]]:
        """Return the records of a kind, such as "reservation" or "licenses", by their fields, in
        which times are seconds since 1970."""
        return records_of(self._said("scontrol", "show", kind, "--oneliner"))

    def table(self, program: str, *arguments: str) -> list[list[str]]:
        """Return the rows of a command that lists, such as `sshare`, by their fields."""
        said = self._said(program, "--parsable2", "--noheader", *arguments)
        return [line.split("|") for line in said.splitlines()]

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """Return its nodes, in its order."""
        if not self._sinfo_has_groups:
            shown = self._json("sinfo", "--json")
            self._sinfo_has_groups = "nodes" not in shown  # from 23.02 on
        if self._sinfo_has_groups:
            shown = self._json("scontrol", "show", "nodes", "--json")
        return _objects(shown, "nodes")

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        """Return what it shows of its partitions; nothing before 23.02."""
        groups = self._json("sinfo", "--json").get("sinfo")
        found = [each for each in groups if isinstance(each, dict)] if groups else []
        return [each["partition"] for each in found if isinstance(each.get("partition"), dict)]

    def jobs(self, number: int = 0) -> list[SlurmJob]:
        """Return the jobs that it knows: those that ended for MinJobAge seconds. With a number
        those of it at least: versions before 23.02 show all, which takes them longer. A
        heterogeneous job that waits is one. What is shown as it was before is the same object, so
        that nobody has to work out anew what it is."""
        only = [f"--jobs={number}"] if number else []
        try:
            shown = self._json("squeue", "--states=all", *only, "--json")
        except SlurmError as error:
            if number and _UNKNOWN in error.words:
                return []
            raise
        found = list(map(self._job, _objects(shown, "jobs")))
        if found and "meta" in shown and not any(job.is_readable for job in found):
            raise SlurmError(unreadable_jobs(shown))
        if number and lacks_parts(found):
            return self.jobs()
        if not number:
            self._last = {job.job_id: job for job in found}
        return with_gangs(found)

    def _job(self, fields: Mapping[str, Any]) -> SlurmJob:
        before = self._last.get(number(fields.get("job_id")) or 0)
        return before if before is not None and before.fields is fields else SlurmJob(fields)

    def _kept(self, shown: dict[str, Any]) -> Mapping[str, Any]:
        """Return an object of an answer, a job without what nobody reads of it; one that is shown
        as before has the fields that are known."""
        if "job_state" not in shown:
            return shown
        fields = {name: shown[name] for name in shown if name not in UNREAD}
        before = self._last.get(number(fields.get("job_id")) or 0)
        return before.fields if before is not None and before.fields == fields else fields

    def release(self, job: str, release: Release) -> None:
        """Start a held job as soon as its nodes are free."""
        said = [f"AdminComment={release.word}", *_limits(release), *_places(release)]
        self._change("scontrol", "update", f"JobId={job}", *said)
        self.let_go(job)

    def prepare_first(self, job: str, release: Release, excluded: str) -> None:
        """Give the first part of a held heterogeneous job what it starts with, on all nodes but
        these: scontrol changes its nodes in no other way. Slurm gives all parts the same, and the
        word."""
        said = [f"AdminComment={release.word}", *_limits(release), f"ExcNodeList={excluded}"]
        self._change("scontrol", "update", f"JobId={job}", *said)

    def prepare_part(self, job: str, release: Release, excluded: str) -> None:
        """Give another part what it starts with itself; `excluded` is what its user said."""
        said = [*_limits(release), f"ExcNodeList={excluded}", *_places(release)]
        self._change("scontrol", "update", f"JobId={job}", *said)

    def restore(self, job: str, changes: Sequence[str]) -> None:
        """Give a held job what its user asked for."""
        if changes:
            self._change("scontrol", "update", f"JobId={job}", *changes)

    def let_go(self, job: str) -> None:
        """Let Slurm start a job, with all parts of a heterogeneous one."""
        self._change("scontrol", "release", job)

    def hold(self, job: str) -> None:
        """Let a job that waits not start before it is released."""
        self._change("scontrol", "hold", job)

    def leave(self, job: str, word: GrantAnswer | str, changes: Sequence[str] = ()) -> None:
        """Leave the word on a grant with its job, or none, and give it what else is to change."""
        self._change("scontrol", "update", f"JobId={job}", *changes, f"AdminComment={word}")

    def comment(self, jobs: str, field: str, note: str) -> None:
        """Set a comment of jobs that wait: SystemComment or Comment."""
        self._change("scontrol", "update", f"JobId={jobs}", f"{field}={note}")

    def notify(self, job: str, words: str) -> None:
        """Write to whoever waits in salloc or srun."""
        self._change("scontrol", "notify", job, words)

    def suspend(self, job: str) -> None:
        """Stop a job on its nodes."""
        self._change("scontrol", "suspend", job)

    def resume(self, job: str) -> None:
        """Let a suspended job run on."""
        self._change("scontrol", "resume", job)

    def requeue(self, job: str) -> None:
        """End a run and let the job wait again, though Slurm is not to do that by itself."""
        self._change("scontrol", "update", f"JobId={job}", "Requeue=1")
        self._change("scontrol", "requeue", job)

    def cancel(self, job: str) -> None:
        """End a job, or take it out of the queue."""
        self._change("scancel", job)

    def _change(self, *command: str) -> None:
        """Unless the job is over."""
        try:
            self._said(*command)
        except SlurmError as error:
            if any(words in error.words for words in _OVER):
                return
            if not error.words:
                raise
            if any(words in error.words for words in _LATER):
                raise SlurmBusyError(str(error), error.words) from None
            raise SlurmRefusedError(str(error), error.words) from None

    def _json(self, *command: str) -> Mapping[str, Any]:
        """What a command writes as JSON, in a form that is known: releases from 24.05 on write
        older ones where they are asked to."""
        found = self._written(*(each if each != _JSON else self._option for each in command))
        unknown = unknown_form(found)
        if not unknown or self._option != _JSON:
            return found
        log.warning("unknown JSON of Slurm", problem=f"{unknown}. An older form is asked for")
        older = f"{_JSON}=v{NEWEST_FORM}"
        try:
            found = self._written(*(each if each != _JSON else older for each in command))
        except SlurmError:
            raise SlurmError(unknown) from None
        self._option = older
        return found

    def _written(self, *command: str) -> Mapping[str, Any]:
        said = self._said(*command)
        try:
            found = json.loads(said, strict=False, object_hook=self._kept)
        except (ValueError, RecursionError) as error:
            raise SlurmError(f"{' '.join(command)} wrote no JSON: {error}: {_NEEDED}") from None
        if not isinstance(found, dict):
            raise SlurmError(f"{' '.join(command)} wrote JSON that is no object: {_NEEDED}")
        return found

    def _said(self, *command: str) -> str:
        """What a command says. Users write what bytes they like into what it shows."""
        try:
            code, said, complained = self._run(command)
        except (OSError, subprocess.TimeoutExpired) as error:
            self._called(command[0], False)
            raise SlurmError(f"{' '.join(command)}: {error}") from None
        self._called(command[0], not code)
        if code:
            words = (complained or said).decode(errors="replace").strip()[:_MOST_SAID]
            raise SlurmError(f"{' '.join(command)}: {words}", words)
        return said.decode(errors="replace")

    def _run(self, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        if self._is_stopped:
            raise SlurmError(f"{' '.join(command)}: this process ends")
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "SLURM_TIME_FORMAT": "%s"},
        ) as running:
            self._running.add(running)
            if self._is_stopped:  # meanwhile
                running.kill()
            try:
                said, complained = running.communicate(timeout=_WITHIN_S)
            except subprocess.TimeoutExpired:
                running.kill()
                raise
            finally:
                self._running.discard(running)
        return running.returncode, said, complained


def _limits(release: Release) -> Iterator[str]:
    """Slurm shall not requeue a job by itself, where it starts is not its to say; but where a node
    may not boot."""
    yield f"TimeLimit={release.limit_min}"
    yield f"Requeue={int(release.may_requeue)}"


def _places(release: Release) -> Iterator[str]:
    if release.nodes:
        yield f"ReqNodeList={','.join(release.nodes)}"
    if release.count:
        # Slurm would add nodes to those where it finds more room on them.
        yield f"NumNodes={release.count}-{release.count}"
    if release.least_cpus:
        yield f"MinCPUsNode={release.least_cpus}"


def _objects(shown: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """What a list holds beside what is no object."""
    found = shown.get(name)
    if not isinstance(found, list):
        raise SlurmError(f"Slurm's JSON has no list of {name}: {_NEEDED}")
    return [each for each in found if isinstance(each, dict)]
