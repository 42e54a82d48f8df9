"""What was measured as ingest takes it."""

from collections.abc import Sequence

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.telemetry_pb2 import (
    PROGRESS_SOURCE_HEARTBEATS,
    PROGRESS_SOURCE_IPC,
    NodeSample,
    NodeSamples,
    Shutter,
    ShuttersMeasured,
    SignatureMeasured,
)

from coplace_agent.adapters.jobs import JobFile
from coplace_agent.model import Interval, relative, tellable
from coplace_agent.node_power import PowerSample
from coplace_agent.settings import AgentSettings
from coplace_client.facts import fact
from coplace_client.signature import Signature


def shutters_measured(
    interval: Interval,
    job: JobFile,
    co_runner: JobFile,
    node_model: str,
    node_cores: int,
) -> ShuttersMeasured | None:
    """Return what an interval's shutters showed of the job, its first co-runner named; None where
    none of them showed progress. Heartbeats are published relative to their own level."""
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


def shutters_event(measured: ShuttersMeasured, source: str) -> Envelope:
    """Return the event of one interval, of which no two of an attempt begin at once."""
    subject = f"{measured.job_id}/{measured.attempt}/{measured.began_at_us}"
    return fact(source, measured, subject, measured.ended_at_us)


def node_samples(batch: Sequence[PowerSample], settings: AgentSettings) -> Envelope:
    """Return the event of a batch of samples, which is not empty."""
    samples = [NodeSample(time_us=each.time_us, power_w=each.power_w) for each in batch]
    message = NodeSamples(
        node=settings.node,
        cluster=settings.cluster,
        node_model=settings.node_model,
        samples=samples,
    )
    subject = f"{settings.node}/{batch[0].time_us}"
    return fact(settings.source, message, subject, batch[-1].time_us)


def signature_measured(
    found: Signature, job: JobFile, time_us: int, settings: AgentSettings
) -> Envelope:
    """Return the event of a job's signature, one for each frequency."""
    message = SignatureMeasured(
        app_id=found.app_id,
        node_model=found.node_model,
        job_id=job.job_id,
        freq_ghz=found.freq_ghz,
        time_s=found.time_s,
        power_w=found.power_w,
        cpi=found.cpi,
        tpi=found.tpi,
        mem_gbps=found.mem_gbps,
        tpi_scale=found.tpi_scale,
    )
    subject = f"{job.job_id}/{job.attempt}@{found.freq_ghz:.1f}"
    return fact(settings.source, message, subject, time_us)
