"""Intervals as ingest takes them."""

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.telemetry_pb2 import (
    PROGRESS_SOURCE_HEARTBEATS,
    PROGRESS_SOURCE_IPC,
    Shutter,
    ShuttersMeasured,
)

from services.agent.adapters.jobs import JobFile
from services.agent.model import Interval, relative, tellable


def shutters_measured(
    interval: Interval,
    job: JobFile,
    co_runner: JobFile,
    node_model: str,
    node_cores: int,
) -> ShuttersMeasured | None:
    """What an interval's shutters showed of the job, its first co-runner named; None where none of
    them showed progress. Heartbeats are told relative to their own level."""
    counts_beats = job.heartbeats is not None
    shutters = tellable(relative(interval.shutters) if counts_beats else interval.shutters)
    if not shutters:
        return None
    return ShuttersMeasured(
        job_id=job.job_id,
        attempt=job.attempt,
        co_runner_job_id=co_runner.job_id,
        app_id=job.app_id,
        co_runner_app_id=co_runner.app_id,
        node_model=node_model,
        began_at_us=interval.began_at_us,
        ended_at_us=interval.ended_at_us,
        shutters=[
            Shutter(ipc_before=each.before, ipc_during=each.during, ipc_after=each.after)
            for each in shutters
        ],
        co_runners=len(interval.co_runners),
        core_share=min(1.0, job.cores / node_cores),
        co_runner_core_share=min(1.0, co_runner.cores / node_cores),
        progress_source=PROGRESS_SOURCE_HEARTBEATS if counts_beats else PROGRESS_SOURCE_IPC,
    )


def envelope(measured: ShuttersMeasured, source: str) -> Envelope:
    """The event of one node's measurement: told again it has the same id, so that copies harm
    nobody, and no two intervals of an attempt begin at once."""
    subject = f"{measured.job_id}/{measured.attempt}/{measured.began_at_us}"
    return Envelope(
        id=f"{source}/{measured.DESCRIPTOR.full_name}/{subject}",
        source=source,
        time_us=measured.ended_at_us,
        shutters_measured=measured,
    )
