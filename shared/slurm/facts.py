"""Messages of jobcomp/kafka as facts about jobs: pure.

The plugin sends one message at a job's start (its `state` is null) and one at its end. Neither is
a submission, but both carry what one holds: each gives a JobSubmitted, of which folds ignore the
copy, and a JobStarted or JobFinished.
"""

import re
from dataclasses import dataclass
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished, JobOutcome, JobStarted, JobSubmitted

from coplace_client.bounds import JOB_MEMORY_GIB, NODE_MEMORY_GIB
from coplace_client.errors import RejectedError
from coplace_client.facts import job_fact
from shared.domain.hostlist import expand
from shared.domain.job import job_id
from shared.slurm.message import Message
from shared.slurm.tres import Tres

# Slurm gives a requeued job a new submit time, so that each attempt is a job of its own here.
_ATTEMPT: Final = 1
_UNLIMITED_S: Final = 366 * 86_400
_APP_ID: Final = re.compile(r"\bapp_id=([^\s,;]+)")

OUTCOMES: Final = {
    "COMPLETED": JobOutcome.JOB_OUTCOME_COMPLETED,
    "FAILED": JobOutcome.JOB_OUTCOME_FAILED,
    "NODE_FAIL": JobOutcome.JOB_OUTCOME_FAILED,
    "BOOT_FAIL": JobOutcome.JOB_OUTCOME_FAILED,
    "LAUNCH_FAILED": JobOutcome.JOB_OUTCOME_FAILED,
    "OUT_OF_MEMORY": JobOutcome.JOB_OUTCOME_FAILED,
    "TIMEOUT": JobOutcome.JOB_OUTCOME_TIMED_OUT,
    "DEADLINE": JobOutcome.JOB_OUTCOME_TIMED_OUT,
    "CANCELLED": JobOutcome.JOB_OUTCOME_CANCELLED,
    "PREEMPTED": JobOutcome.JOB_OUTCOME_CANCELLED,
    "REQUEUED": JobOutcome.JOB_OUTCOME_CANCELLED,
    "REVOKED": JobOutcome.JOB_OUTCOME_CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Site:
    """What the plugin does not say."""

    name: str
    default_account: str
    node_model: str


def envelopes(message: Message, site: Site) -> list[Envelope]:
    """Return the facts that a message reports, in order. Raises RejectedError, which names the
    field."""
    first = submission(message, site)
    submitted = first.job_submitted
    state = message.text("state")
    if state:
        finished = _finished(message, submitted, _outcome(state), site)
        return [first, job_fact(site.name, finished, _ATTEMPT, finished.ended_at_us)]
    started = _started(message, submitted)
    return [first, job_fact(site.name, started, _ATTEMPT, started.started_at_us)]


def submission(message: Message, site: Site) -> Envelope:
    """Return the submission alone, which a job that waits has. Raises as `envelopes`."""
    submitted = _submitted(message, site)
    return job_fact(site.name, submitted, _ATTEMPT, submitted.submitted_at_us)


def _submitted(message: Message, site: Site) -> JobSubmitted:
    """Return what was asked for: equal units, one a node, or whole nodes where Slurm does not say
    more."""
    cluster, submitted_at_us = message.text("cluster"), message.time_us("@submit")
    asked = Tres.parse("tres_req", message.text("tres_req"))
    units = asked.nodes or message.needed_number("total_nodes")
    return JobSubmitted(
        job_id=job_id(site.name, cluster, _local_id(message), submitted_at_us / 1e6),
        attempt=_ATTEMPT,
        app_id=_app_id(message),
        user=message.text("username"),
        account=message.text("account") or site.default_account,
        nodes=units,
        walltime_s=message.number("time_limit") or _UNLIMITED_S,
        reference_cluster=cluster,
        submitted_at_us=submitted_at_us,
        cores_per_unit=_each(asked.cpus, units),
        memory_gib_per_unit=_memory_gib_each(asked, units),
        resources_per_unit={name: _each(count, units) for name, count in asked.gres.items()},
        units_per_node=1 if asked.cpus else 0,
    )


def _each(count: int, units: int) -> int:
    """Return the largest share of a unit, where Slurm divides unevenly."""
    return -(-count // units)


def _memory_gib_each(asked: Tres, units: int) -> float:
    """Memory of a node; a little is as much as any node has to give."""
    memory_gib = float(asked.memory_gib / units)
    return max(memory_gib, NODE_MEMORY_GIB.least) if memory_gib else 0.0


def _started(message: Message, submitted: JobSubmitted) -> JobStarted:
    return JobStarted(
        job_id=submitted.job_id,
        attempt=_ATTEMPT,
        cluster=submitted.reference_cluster,
        nodes=expand(message.text("nodes")),
        started_at_us=message.time_us("@start"),
    )


def _finished(
    message: Message, submitted: JobSubmitted, outcome: JobOutcome.ValueType, site: Site
) -> JobFinished:
    held = Tres.parse("tres_alloc", message.text("tres_alloc"))
    nodes = message.number("total_nodes") or submitted.nodes
    cores = message.needed_number("total_cpus")
    return JobFinished(
        job_id=submitted.job_id,
        attempt=_ATTEMPT,
        outcome=outcome,
        cluster=submitted.reference_cluster,
        app_id=submitted.app_id,
        user=submitted.user,
        account=submitted.account,
        nodes=nodes,
        cores_per_node=_each(cores, nodes),
        submitted_at_us=submitted.submitted_at_us,
        started_at_us=message.time_us("@start"),
        ended_at_us=message.time_us("@end"),
        node_model=site.node_model,
        cores=cores,
        resources={**held.gres, **held.licenses},
        failed_nodes=_failed_nodes(message),
        partition=message.text("partition"),
        qos=message.text("qos"),
        memory_gib=_memory_gib(held),
    )


def _memory_gib(held: Tres) -> float:
    """Return the memory of the whole job; a little is as much as is known of a job at all."""
    return max(float(held.memory_gib), JOB_MEMORY_GIB.least) if held.memory_gib else 0.0


def _failed_nodes(message: Message) -> list[str]:
    """Which node failed: Slurm reports only that one of the job's did, so it is known where there
    is but one."""
    nodes = expand(message.text("nodes")) if message.text("state").startswith("NODE_FAIL") else []
    return nodes if len(nodes) == 1 else []


def _local_id(message: Message) -> str:
    """Return the id as Slurm prints it: array tasks as ARRAY_TASK, parts of a heterogeneous job as
    JOB+PART."""
    array, task = message.number("array_job_id"), message.number("array_task_id")
    if array and task is not None:
        return f"{array}_{task}"
    leader, part = message.number("het_job_id"), message.number("het_job_offset")
    if leader and part is not None:
        return f"{leader}+{part}"
    return str(message.needed_number("jobid"))


def _app_id(message: Message) -> str:
    """Return `app_id=NAME` in the job's comment, else the name of the job."""
    found = _APP_ID.search(message.text("comment"))
    return found[1] if found else message.text("job_name")


def _outcome(state: str) -> JobOutcome.ValueType:
    """Slurm says who cancelled: `CANCELLED by 1001`."""
    outcome = OUTCOMES.get(state.split()[0] if state.split() else "")
    if outcome is None:
        raise RejectedError("state", f"must be one of {', '.join(OUTCOMES)}, got {state[:40]!r}")
    return outcome
