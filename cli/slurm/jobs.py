"""Slurm's jobs and nodes, as its JSON has them, as facts: pure.

They have the ids that `ingest-jobcomp` gives them, so that either may publish them, or both.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.errors import UnusableError
from shared.domain.folding import fold
from shared.slurm.facts import OUTCOMES, Site, envelopes, submission
from shared.slurm.message import Message
from shared.slurm.tres import Tres

_HOLDS_NODES: Final = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"}
)
_MINUTE_S: Final = 60
# What `obey` leaves in a job's AdminComment: Slurm keeps it over crashes of all processes involved.
_WORD: Final = re.compile(r"coplace grant=(\d+) (started|declined)(?: freq_ghz=([\d.]+))?")


class GrantAnswer(NamedTuple):
    """The word that was given on a grant of a job: it was started at a clock, or declined."""

    grant: int = 0
    is_started: bool = False
    freq_ghz: float = 0.0

    @classmethod
    def parse(cls, admin_comment: str) -> Self:
        """Parse the word in a comment; that of grant 0 where there is none."""
        found = _WORD.search(admin_comment)
        if found is None:
            return cls()
        return cls(int(found[1]), found[2] == "started", float(found[3] or 0))

    def __str__(self) -> str:
        if not self.is_started:
            return f"coplace grant={self.grant} declined"
        return f"coplace grant={self.grant} started freq_ghz={self.freq_ghz:g}"


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as `squeue --json` shows it. `job_id` is Slurm's number."""

    fields: Mapping[str, Any]

    @property
    def job_id(self) -> int:
        """Return the number of the job in Slurm; 0 where it has none."""
        return number(self.fields["job_id"]) or 0

    @property
    def state(self) -> str:
        """Return its state; later versions give it as a list, with flags behind it."""
        state = self.fields["job_state"]
        return str(state[0] if isinstance(state, list) else state)

    @property
    def is_pending(self) -> bool:
        """Return whether it waits, and has nothing of any node."""
        return self.state not in _HOLDS_NODES and self.state not in OUTCOMES

    @property
    def has_nodes(self) -> bool:
        """Return whether it runs, or is about to."""
        return self.state in _HOLDS_NODES

    @property
    def word(self) -> GrantAnswer:
        """Return the word that `obey` wrote on it."""
        return GrantAnswer.parse(self.fields.get("admin_comment") or "")

    @property
    def is_placed(self) -> bool:
        """Return whether Coplace is to know of it: arrays and parts of heterogeneous jobs that wait
        are Slurm's own, since it starts them together."""
        is_of_many = self.fields.get("array_task_string") or number(self.fields["het_job_id"])
        return not (self.is_pending and is_of_many)

    def message(self) -> Message:
        """Return what jobcomp/kafka would send of it now."""
        of, given = self.fields, {name: number(self.fields.get(name)) for name in _NUMBERS}
        has_run = bool(of["nodes"])
        limit_min = given["time_limit"]
        nodes = given["node_count"] or 1
        return Message(
            {
                "jobid": given["job_id"],
                "array_job_id": given["array_job_id"],
                "array_task_id": given["array_task_id"],
                "het_job_id": given["het_job_id"],
                "het_job_offset": given["het_job_offset"] if given["het_job_id"] else None,
                "cluster": of["cluster"],
                "username": of["user_name"],
                "account": of["account"],
                "job_name": of["name"],
                "comment": of["comment"] if isinstance(of["comment"], str) else "",
                "@submit": _time(given["submit_time"]),
                "@start": _time(given["start_time"]) if has_run else None,
                "@end": _time(given["end_time"]),
                "time_limit": limit_min * _MINUTE_S if limit_min else None,
                "nodes": of["nodes"],
                "total_nodes": nodes,
                "total_cpus": given["cpus"] or nodes,
                "tres_req": of["tres_req_str"],
                "tres_alloc": of["tres_alloc_str"],
                "state": self.state if self.state in OUTCOMES else None,
            }
        )


_NUMBERS: Final = (
    *("job_id", "array_job_id", "array_task_id", "het_job_id", "het_job_offset", "submit_time"),
    *("start_time", "end_time", "time_limit", "node_count", "cpus"),
)


def number(value: Any) -> int | None:
    """Return a number of Slurm's JSON; later versions wrap those that may be missing or
    infinite."""
    if isinstance(value, Mapping):
        is_known = value.get("set", True) and not value.get("infinite", False)
        return int(value["number"]) if is_known else None
    return None if value is None else int(value)


def _time(time_s: int | None) -> str | None:
    return datetime.fromtimestamp(time_s, UTC).isoformat() if time_s else None


def facts(job: SlurmJob, site: Site, architecture: str) -> list[Envelope]:
    """Return the facts of a job for Coplace, in order. Raises RejectedError, which names the
    field."""
    message, word = job.message(), job.word
    submitted, *later = [submission(message, site)] if job.is_pending else envelopes(message, site)
    submitted.job_submitted.architectures.append(architecture)
    return [submitted, *(_under(word, fact) for fact in later)]


def _under(word: GrantAnswer, later: Envelope) -> Envelope:
    """A start or an end, with the grant and the clock that it is of."""
    if later.HasField("job_started"):
        later.job_started.grant, later.job_started.freq_ghz = word.grant, word.freq_ghz
    else:
        later.job_finished.grant, later.job_finished.freq_ghz = word.grant, word.freq_ghz
    return later


class NodeHardware(NamedTuple):
    """What Slurm does not know of the nodes of its cluster; `tdp_w` is the thermal design power of
    one accelerator by its name in Gres, and `nameplate_power_w` what a node draws at most, W; 0:
    nobody said."""

    node_model: str
    pstates_ghz: Sequence[float]
    idle_power_w: float
    peak_bandwidth_gbps: float
    tdp_w: Mapping[str, float] = MappingProxyType({})
    nameplate_power_w: float = 0.0


class UnlikeNodesError(UnusableError):
    """Nodes of several models are in one cluster, which has one."""


def declared_cluster(
    nodes: Iterable[Mapping[str, Any]], cluster: str, site: str, architecture: str, of: NodeHardware
) -> ClusterDeclared:
    """Return the cluster that `sinfo --json` shows, in its order.

    Raises UnlikeNodesError where nodes differ in their cores, and RejectedError for resources that
    no version of Slurm writes.
    """
    shown = list(nodes)
    cores = {number(node["cpus"]) or 0 for node in shown}
    if len(cores) != 1:
        told = ", ".join(map(str, sorted(cores))) or "no node"
        raise UnlikeNodesError(
            f"{cluster} has nodes of {told} cores: a cluster is of one node model"
        )
    found = ClusterDeclared(
        cluster=cluster,
        site=site,
        node_model=of.node_model,
        nodes=len(shown),
        cores_per_node=cores.pop(),
        pstates_ghz=of.pstates_ghz,
        idle_power_w=of.idle_power_w,
        peak_bandwidth_gbps=of.peak_bandwidth_gbps,
        nameplate_power_w=of.nameplate_power_w,
        architecture=architecture,
        node_names=fold(str(node["name"]) for node in shown),
    )
    for (memory_mib, tres), alike in groupby(shown, key=_kind):
        resources = Tres.parse("tres", tres).gres
        count = len(list(alike))
        found.node_classes.append(
            NodeClass(
                nodes=count,
                memory_gib=_gib(memory_mib),
                resources=resources,
                tdp_w={name: of.tdp_w[name] for name in resources if name in of.tdp_w},
            )
        )
    return found


def _gib(memory_mib: int) -> float:
    """0, unknown, for the 1 MiB that Slurm has where nobody said how much there is."""
    return memory_mib / 1024 if memory_mib > 1 else 0.0


def _kind(node: Mapping[str, Any]) -> tuple[int, str]:
    """What nodes of a class have in common."""
    return number(node["real_memory"]) or 0, str(node["tres"])
