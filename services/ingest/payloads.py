"""What ingest takes: the topic of each payload of an Envelope, and what its fields must be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coplace.v1.control_pb2 import LimitSubject
from coplace.v1.jobs_pb2 import DependencyCondition, JobOutcome

from services.ingest.checks import (
    Check,
    anything,
    ascending,
    builds,
    duration_s,
    each,
    each_of_any,
    fields,
    one_of,
    positive,
    positive_or_zero,
    text,
    text_or_empty,
    time_us,
    time_us_or_never,
)
from shared.messaging.domain_types import cluster_of, dependencies_of, job_of


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of payload."""

    topic: str
    check: Check


_ATTEMPT: Mapping[str, Check] = {"job_id": text, "attempt": positive}
_DEPENDENCY: Mapping[str, Check] = {
    "job_id": text,
    "condition": one_of(DependencyCondition.items()),
}

# A job that was cancelled in the queue has a finish without a start; a resource manager without
# meters and frequency control knows no energy and no frequency.
KINDS: Final[Mapping[str, Kind]] = {
    "job_submitted": Kind(
        "jobs.events",
        fields(
            {
                **_ATTEMPT,
                "app_id": text_or_empty,
                "user": text,
                "account": text,
                "nodes": positive,
                "walltime_s": duration_s,
                "reference_cluster": text,
                "shareable": anything,
                "submitted_at_us": time_us,
                "priority": anything,
                "depends_on": each_of_any(fields(_DEPENDENCY)),
                "memory_gib": positive_or_zero,
                "architectures": each_of_any(text),
            },
            builds(job_of),
            builds(dependencies_of),
        ),
    ),
    "job_started": Kind(
        "jobs.events",
        fields(
            {
                **_ATTEMPT,
                "cluster": text,
                "nodes": each(text),
                "freq_ghz": positive_or_zero,
                "started_at_us": time_us,
                "grant": anything,
            }
        ),
    ),
    "job_finished": Kind(
        "jobs.events",
        fields(
            {
                **_ATTEMPT,
                "outcome": one_of(JobOutcome.items()),
                "cluster": text,
                "app_id": text_or_empty,
                "user": text,
                "account": text,
                "nodes": positive,
                "cores_per_node": positive,
                "freq_ghz": positive_or_zero,
                "submitted_at_us": time_us,
                "started_at_us": time_us_or_never,
                "ended_at_us": time_us,
                "energy_j": positive_or_zero,
                "node_model": text_or_empty,
                "grant": anything,
            },
            ascending("submitted_at_us", "started_at_us", "ended_at_us"),
        ),
    ),
    "job_requeued": Kind(
        "jobs.events",
        fields({**_ATTEMPT, "reason": text_or_empty, "requeued_at_us": time_us}),
    ),
    "job_declined": Kind(
        "jobs.events",
        fields({**_ATTEMPT, "grant": positive, "reason": text_or_empty, "declined_at_us": time_us}),
    ),
    "job_seized": Kind(
        "jobs.events",
        fields({**_ATTEMPT, "reason": text, "seized_at_us": time_us, "grant": anything}),
    ),
    "job_cancelled": Kind(
        "jobs.events",
        fields({"job_id": text, "reason": text_or_empty, "cancelled_at_us": time_us}),
    ),
    "job_held": Kind(
        "jobs.events",
        fields({"job_id": text, "reason": text_or_empty, "held_at_us": time_us}),
    ),
    "job_released": Kind("jobs.events", fields({"job_id": text, "released_at_us": time_us})),
    "signature_measured": Kind(
        "telemetry.signatures",
        fields(
            {
                "app_id": text,
                "node_model": text,
                "job_id": text_or_empty,
                "freq_ghz": positive,
                "time_s": duration_s,
                "power_w": positive,
                "cpi": positive,
                "tpi": positive_or_zero,
                "mem_gbps": positive_or_zero,
                "tpi_scale": text,
                "kernel": anything,
            }
        ),
    ),
    "node_samples": Kind(
        "telemetry.nodes",
        fields(
            {
                "node": text,
                "cluster": text,
                "node_model": text,
                "samples": each(fields({"time_us": time_us, "power_w": positive_or_zero})),
            }
        ),
    ),
    "shutters_measured": Kind(
        "telemetry.shutters",
        fields(
            {
                **_ATTEMPT,
                "co_runner_job_id": text,
                "app_id": text_or_empty,
                "co_runner_app_id": text_or_empty,
                "node_model": text_or_empty,
                "began_at_us": time_us,
                "ended_at_us": time_us,
                "shutters": each(
                    fields({"ipc_before": positive, "ipc_during": positive, "ipc_after": positive})
                ),
            },
            ascending("began_at_us", "ended_at_us"),
        ),
    ),
    "cluster_declared": Kind(
        "commands",
        fields(
            {
                "cluster": text,
                "site": text,
                "node_model": text,
                "nodes": positive,
                "cores_per_node": positive,
                "pstates_ghz": each(positive),
                "idle_power_w": positive,
                "peak_bandwidth_gbps": positive,
                "memory_gib_per_node": positive_or_zero,
                "architecture": text_or_empty,
                "node_names": anything,
            },
            builds(cluster_of),
        ),
    ),
    "cluster_lost": Kind(
        "commands",
        fields({"cluster": text, "reason": text_or_empty, "lost_at_us": time_us}),
    ),
    "cluster_returned": Kind("commands", fields({"cluster": text, "returned_at_us": time_us})),
    "limits_declared": Kind(
        "commands",
        fields(
            {
                "subject": one_of(LimitSubject.items()),
                "name": text,
                "most_running_jobs": anything,
                "most_nodes": anything,
            }
        ),
    ),
}
