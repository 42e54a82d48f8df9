"""Slurm's own commands, of the Slurm that `SLURM_CONF` names or that is this host's."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.slurm.jobs import GrantAnswer, SlurmJob
from cli.slurm.orders import Release
from coplace_client.errors import UnusableError

_WITHIN_S: Final = 60.0
_CLUSTER: Final = re.compile(r"^ClusterName\s*=\s*(\S+)", re.MULTILINE)
# As Slurm says that a job is unknown, or over.
_OVER: Final = (
    "Invalid job id",
    "already completed",
    "already completing",
    "Job/step already",
    "no longer pending",
)


class SlurmError(UnusableError):
    """A command of Slurm failed, or is not there."""


class Slurm:
    """One cluster's Slurm. Every method raises SlurmError; those that change a job leave one alone
    that is over."""

    def cluster(self) -> str:
        """Return the name of the cluster in Slurm and in Coplace."""
        found = _CLUSTER.search(_said("scontrol", "show", "config"))
        if found is None:
            raise SlurmError("scontrol show config names no cluster")
        return found[1]

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """Return its nodes, in its order."""
        return list(_json("sinfo", "--json")["nodes"])

    def jobs(self) -> list[SlurmJob]:
        """Return the jobs that it knows: those that ended for MinJobAge seconds."""
        return [SlurmJob(fields) for fields in _json("squeue", "--json")["jobs"]]

    def release(self, job: int, release: Release) -> None:
        """Start a held job as soon as its nodes are free. Slurm shall not requeue it by itself:
        where it starts is not its to say."""
        said = [f"AdminComment={release.word}", f"TimeLimit={release.limit_min}", "Requeue=0"]
        if release.nodes:
            said.append(f"ReqNodeList={','.join(release.nodes)}")
        _change("scontrol", "update", f"JobId={job}", *said)
        _change("scontrol", "release", str(job))

    def hold(self, job: int) -> None:
        """Let a job that waits not start before it is released."""
        _change("scontrol", "hold", str(job))

    def leave(self, job: int, word: GrantAnswer) -> None:
        """Leave the word on a grant with its job."""
        _change("scontrol", "update", f"JobId={job}", f"AdminComment={word}")

    def cancel(self, job: int) -> None:
        """End a job, or take it out of the queue."""
        _change("scancel", str(job))


def _change(*command: str) -> None:
    """Unless the job is over."""
    try:
        _said(*command)
    except SlurmError as error:
        if not any(words in str(error) for words in _OVER):
            raise


def _json(*command: str) -> Any:
    said = _said(*command)
    try:
        return json.loads(said)
    except ValueError as error:
        raise SlurmError(f"{' '.join(command)} wrote no JSON: {error}") from None


def _said(*command: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{' '.join(command)}: {error}") from None
    if done.returncode:
        raise SlurmError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[:400]}")
    return done.stdout
