"""What each field of a fact about a job must be, and of what is asked of one."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from coplace.v1.jobs_pb2 import (
    DependencyCondition,
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobOutcome,
    JobReleased,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from google.protobuf.message import Message

from coplace_client.bounds import CORE_S, LENGTHS
from coplace_client.errors import RejectedError
from shared.catalogue.field_checks import (
    ATTEMPT,
    Check,
    anything,
    ascending,
    each_of_any,
    fields,
    host_list,
    if_known,
    one_of,
    quantity,
    resources,
    text,
    text_or_empty,
    time_us,
    time_us_or_never,
)
from shared.catalogue.payloads.domain_types import cores_of, run_us
from shared.domain.hostlist import expand

_ACTION: Final[Mapping[str, Check]] = {
    **ATTEMPT,
    "grant": if_known("grant"),
    "number": quantity("number"),
}

_DEPENDENCY: Final = fields({"job_id": text, "condition": one_of(DependencyCondition.items())})


def _held(counts: Mapping[str, int]) -> None:
    """Those of all units of a job together."""
    LENGTHS["resources"].require("", len(counts))
    for name in counts:
        text(name)


def _units_of_nodes(message: JobStarted) -> None:
    """As many counts as nodes, where both are told."""
    if not (message.nodes and message.node_units):
        return
    nodes = sum(len(expand(hosts)) for hosts in message.nodes)
    if len(message.node_units) != nodes:
        problem = f"must be one of each of {nodes} nodes, got {len(message.node_units)}"
        raise RejectedError("node_units", problem)


def _failed_somewhere(message: JobRequeued) -> None:
    """Names of nodes mean something on a cluster only."""
    if message.failed_nodes and not message.cluster:
        raise RejectedError("cluster", "must be named where nodes failed")


def _cores_of_nodes(message: JobFinished) -> None:
    """No more than its nodes gave it."""
    most = message.nodes * message.cores_per_node
    if message.cores > most:
        problem = f"must be at most {most} (nodes x cores_per_node), got {message.cores}"
        raise RejectedError("cores", problem)


_INTERVAL: Final = fields(
    {"began_at_us": time_us, "freq_ghz": if_known("freq_ghz"), "energy_j": quantity("energy_j")}
)


def _whole_run(message: JobFinished) -> None:
    """Intervals follow one another from the start to the end."""
    if not message.intervals:
        return
    begins_us = [interval.began_at_us for interval in message.intervals]
    if begins_us[0] != message.started_at_us:
        problem = f"must begin with the run, at {message.started_at_us}, got {begins_us[0]}"
        raise RejectedError("intervals[0].began_at_us", problem)
    for number, (before_us, us) in enumerate(pairwise([*begins_us, message.ended_at_us]), 1):
        if us < before_us:
            problem = "must not lie before the one before it, nor behind the end"
            raise RejectedError(f"intervals[{number - 1}].began_at_us", problem)


def _core_time(message: JobFinished) -> None:
    """What a price multiplies."""
    core_s = cores_of(message) * run_us(message) / 1e6
    CORE_S.require("ended_at_us", core_s)


JOBS: Final[Mapping[type[Message], Check]] = {
    JobSubmitted: fields(
        {
            **ATTEMPT,
            "app_id": text_or_empty,
            "user": text,
            "account": text,
            "nodes": quantity("nodes"),
            "walltime_s": quantity("walltime_s"),
            "reference_cluster": text,
            "shareable": anything,
            "submitted_at_us": time_us,
            "priority": quantity("priority"),
            "depends_on": each_of_any("depends_on", _DEPENDENCY),
            "memory_gib": if_known("memory_gib"),
            "architectures": each_of_any("architectures", text),
            "cores_per_unit": if_known("cores_per_unit"),
            "memory_gib_per_unit": if_known("memory_gib_per_unit"),
            "resources_per_unit": resources,
            "units_per_node": if_known("units_per_node"),
        }
    ),
    JobStarted: fields(
        {
            **ATTEMPT,
            "cluster": text,
            "nodes": each_of_any("nodes", host_list),
            "freq_ghz": if_known("freq_ghz"),
            "started_at_us": time_us,
            "grant": if_known("grant"),
            "node_units": each_of_any("node_units", quantity("units_per_node")),
        },
        _units_of_nodes,
    ),
    # One that was cancelled in the queue has no start; a resource manager without meters and
    # frequency control knows no energy and no frequency.
    JobFinished: fields(
        {
            **ATTEMPT,
            "outcome": one_of(JobOutcome.items()),
            "cluster": text,
            "app_id": text_or_empty,
            "user": text,
            "account": text,
            "nodes": quantity("nodes"),
            "cores_per_node": quantity("cores_per_node"),
            "freq_ghz": if_known("freq_ghz"),
            "submitted_at_us": time_us,
            "started_at_us": time_us_or_never,
            "ended_at_us": time_us,
            "energy_j": quantity("energy_j"),
            "node_model": text_or_empty,
            "grant": if_known("grant"),
            "cores": if_known("cores"),
            "resources": _held,
            "failed_nodes": each_of_any("nodes", host_list),
            "intervals": each_of_any("intervals", _INTERVAL),
            "partition": text_or_empty,
            "qos": text_or_empty,
            "memory_gib": if_known("memory_gib"),
        },
        ascending("submitted_at_us", "started_at_us", "ended_at_us"),
        _cores_of_nodes,
        _whole_run,
        _core_time,
    ),
    JobRequeued: fields(
        {
            **ATTEMPT,
            "reason": text_or_empty,
            "requeued_at_us": time_us,
            "cluster": text_or_empty,
            "failed_nodes": each_of_any("nodes", host_list),
        },
        _failed_somewhere,
    ),
    JobDeclined: fields(
        {
            **ATTEMPT,
            "grant": quantity("grant"),
            "reason": text_or_empty,
            "declined_at_us": time_us,
        }
    ),
    JobSeized: fields(
        {**ATTEMPT, "reason": text, "seized_at_us": time_us, "grant": if_known("grant")}
    ),
    JobCancelled: fields({"job_id": text, "reason": text_or_empty, "cancelled_at_us": time_us}),
    JobHeld: fields({"job_id": text, "reason": text_or_empty, "held_at_us": time_us}),
    JobReleased: fields({"job_id": text, "released_at_us": time_us}),
    JobActionDone: fields({**_ACTION, "done_at_us": time_us, "freq_ghz": if_known("freq_ghz")}),
    JobActionRefused: fields({**_ACTION, "reason": text_or_empty, "refused_at_us": time_us}),
    JobRequeueAsked: fields({**ATTEMPT, "reason": text_or_empty, "asked_at_us": time_us}),
    JobSuspended: fields({"job_id": text, "reason": text_or_empty, "suspended_at_us": time_us}),
    JobResumed: fields({"job_id": text, "reason": text_or_empty, "resumed_at_us": time_us}),
}
