"""What resource managers and node agents publish about the emulated jobs."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    Dependency,
    JobActionDone,
    JobDeclined,
    JobFinished,
    JobOutcome,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    RunInterval,
)
from coplace.v1.placement_pb2 import Action, PlacementDecided
from coplace.v1.telemetry_pb2 import (
    NodeSample,
    NodeSamples,
    Shutter,
    ShuttersMeasured,
    SignatureMeasured,
)
from google.protobuf.message import Message

from coplace_client.facts import new_priorities
from coplace_client.millicores import beside_cores, whole_cores
from lab.emulator.machine import Machine
from lab.emulator.running import ATTEMPT, RunningJob, TimeBeside
from lab.emulator.scales import TpiScale
from lab.emulator.shapes import millicores_of_unit
from lab.emulator.truth.laws import Behaviour
from lab.emulator.truth.noise import METER_SIGMA, SHUTTER_SIGMA, Noise
from lab.workloads.request import JobRequest
from shared.catalogue.event import Event, Publish
from shared.catalogue.payloads.domain_types import CONDITION_MESSAGES, part_message
from shared.catalogue.trace import job_traceparent
from shared.domain.cluster import Cluster
from shared.domain.folding import fold
from shared.domain.job import Condition, job_id

JOBS: Final = "jobs.events"
COMMANDS: Final = "commands"
SIGNATURES: Final = "telemetry.signatures"
NODES: Final = "telemetry.nodes"
SHUTTERS: Final = "telemetry.shutters"
BILLING: Final = "billing"

# Virtual time begins here: every run of one seed has the same times.
EPOCH_US: Final = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000

NODE_SAMPLES: Final = 10
SHUTTER_PERIOD_US: Final = 60_000_000
MAX_SHUTTERS: Final = 32
# The number of the signature that is measured while a job runs; that of its end has the attempt's.
WHILE_RUNNING: Final = 0


def submit_us(request: JobRequest) -> int:
    """Return when a request arrives at its resource manager."""
    return EPOCH_US + round(request.submit_s * 1e6)


def time_us_of(time_s: float) -> int:
    """Return the time at which something happens in a run, 0 where it never does."""
    return EPOCH_US + round(time_s * 1e6) if time_s else 0


def id_of(request: JobRequest, site: str) -> str:
    """Return the job's natural key."""
    submit_s = submit_us(request) // 1_000_000
    return job_id(site, request.reference_cluster, str(request.index), submit_s)


def source(cluster: Cluster) -> str:
    """Return who speaks for a cluster: its resource manager."""
    return f"{cluster.site}/{cluster.name}"


def submission(
    request: JobRequest, job: str, cluster: Cluster, ids: Mapping[int, str], priority: int = 0
) -> Publish:
    """Return the event that a user handed `request` to its reference cluster, whose manager gives
    it a priority; `ids` are those of the jobs by their indices."""
    time_us = submit_us(request)
    payload = JobSubmitted(
        job_id=job,
        attempt=ATTEMPT,
        app_id=request.app_id,
        user=request.user,
        account=request.account,
        nodes=request.nodes,
        walltime_s=request.walltime_s,
        reference_cluster=request.reference_cluster,
        shareable=request.shareable,
        submitted_at_us=time_us,
        cores_per_unit=request.cores_per_unit,
        millicores_per_unit=request.millicores_per_unit,
        memory_gib_per_unit=request.memory_gib_per_unit,
        resources_per_unit=dict(request.resources_per_unit),
        units_per_node=request.units_per_node,
        begin_at_us=time_us_of(request.begin_s),
        deadline_at_us=time_us_of(request.deadline_s),
        depends_on=[
            Dependency(
                job_id=ids[each.of] if each.condition is not Condition.SINGLETON else "",
                condition=CONDITION_MESSAGES[each.condition],
                delay_s=each.delay_s,
            )
            for each in request.depends_on
        ],
        depends_on_any=request.depends_on_any,
        job_name=request.job_name,
        sequence=request.sequence,
        partitions=request.partitions,
        features=request.features,
        reservation=request.reservation,
        licences=dict(request.licences),
        array=request.array,
        array_at_most=request.array_at_most,
        parts=[part_message(part) for part in request.parts],
        manager_priority=priority,
        is_interactive=request.is_interactive,
        starts_within_s=request.starts_within_s,
    )
    return _of_job(JOBS, cluster, job, time_us, payload)


def reordered(cluster: Cluster, priorities: Mapping[str, int], now_us: int) -> Iterator[Publish]:
    """Yield the events that a resource manager gave jobs that wait other priorities."""
    manager = source(cluster)
    for payload in new_priorities(manager, [cluster.name], priorities, now_us):
        subject = f"{now_us}/{payload.job_ids[0]}"
        yield _of_job(JOBS, cluster, subject, now_us, payload, key=manager)


def start(run: RunningJob) -> Publish:
    """Return the event that the resource manager obeyed a placement decision."""
    names = run.machine.node_names
    payload = JobStarted(
        job_id=run.job_id,
        attempt=run.attempt,
        cluster=run.machine.cluster.name,
        nodes=fold(names[node] for node in run.allocation.nodes),
        freq_ghz=run.allocation.freq_ghz,
        started_at_us=run.started_us,
        grant=run.grant,
        node_units=run.allocation.units if run.request.cores_per_unit else (),
    )
    cluster = run.machine.cluster
    return _of_job(JOBS, cluster, run.job_id, run.started_us, payload, attempt=run.attempt)


def finish(run: RunningJob, outcome: JobOutcome.ValueType, now_us: int) -> Publish:
    """Return the event that a job ended, with what its price needs."""
    cluster = run.machine.cluster
    payload = JobFinished(
        job_id=run.job_id,
        attempt=run.attempt,
        outcome=outcome,
        cluster=cluster.name,
        app_id=run.request.app_id,
        user=run.request.user,
        account=run.request.account,
        nodes=len(run.allocation.nodes),
        cores_per_node=run.allocation.most_cores_on_a_node,
        freq_ghz=run.allocation.freq_ghz,
        submitted_at_us=submit_us(run.request),
        started_at_us=run.started_us,
        ended_at_us=now_us,
        energy_j=run.energy_j(now_us),
        node_model=cluster.node_model,
        grant=run.grant,
        cores=whole_cores(run.allocation.all_millicores),
        millicores=beside_cores(run.allocation.all_millicores),
        resources=dict(run.resources),
        intervals=_intervals(run, now_us),
    )
    return _of_job(JOBS, cluster, run.job_id, now_us, payload, attempt=run.attempt)


def action_done(run: RunningJob, asked: Action, now_us: int) -> Publish:
    """Return the event that the resource manager did what was asked."""
    payload = JobActionDone(
        job_id=run.job_id,
        attempt=run.attempt,
        grant=run.grant,
        number=asked.number,
        done_at_us=now_us,
        freq_ghz=0.0 if run.is_suspended else run.allocation.freq_ghz,
    )
    cluster = run.machine.cluster
    return _of_job(
        JOBS, cluster, run.job_id, now_us, payload, sequence=asked.number, attempt=run.attempt
    )


def _intervals(run: RunningJob, now_us: int) -> list[RunInterval]:
    """The stretches of a run that was acted on; none of another one."""
    if not run.stretches:
        return []
    found = run.intervals(now_us)
    return [RunInterval(began_at_us=us, freq_ghz=ghz, energy_j=j) for us, ghz, j in found]


def requeue(run: RunningJob, reason: str, now_us: int) -> Publish:
    """Return the event that a run was ended, and its job is in the queue again."""
    attempt, cluster = run.attempt + 1, run.machine.cluster
    payload = JobRequeued(
        job_id=run.job_id,
        attempt=attempt,
        reason=reason,
        requeued_at_us=now_us,
        cluster=cluster.name,
        grant=run.grant,
    )
    return _of_job(JOBS, cluster, run.job_id, now_us, payload, sequence=attempt)


def decline(decision: PlacementDecided, cluster: Cluster, now_us: int) -> Publish:
    """Return the event that the resource manager declines a start, as it was asked."""
    payload = JobDeclined(
        job_id=decision.job_id,
        attempt=decision.attempt,
        grant=decision.grant,
        reason="as asked",
        declined_at_us=now_us,
    )
    job, grant = decision.job_id, decision.grant
    return _of_job(JOBS, cluster, job, now_us, payload, sequence=grant)


def cancellation(request: JobRequest, job: str, cluster: Cluster, now_us: int) -> Publish:
    """Return the event that a job left the queue: its finish has no start."""
    payload = JobFinished(
        job_id=job,
        attempt=ATTEMPT,
        outcome=JOB_OUTCOME_CANCELLED,
        cluster=cluster.name,
        app_id=request.app_id,
        user=request.user,
        account=request.account,
        nodes=request.nodes,
        cores_per_node=whole_cores(millicores_of_unit(request, cluster)),
        submitted_at_us=submit_us(request),
        ended_at_us=now_us,
        node_model=cluster.node_model,
    )
    return _of_job(JOBS, cluster, job, now_us, payload)


def signature_of_job(
    run: RunningJob, scale: TpiScale, now_us: int, sequence: int = ATTEMPT
) -> Publish:
    """Return the event of how a job behaved while it was alone, so that no neighbour is in its
    signature.

    A job that never was alone is measured in its shutters, when its neighbour is paused.
    """
    factors = run.machine.power_factors(run.allocation.nodes)
    measured = run.solo._replace(power_w=run.solo.power_w * float(factors.mean()))
    cluster = run.machine.cluster
    payload = signature(run.request.true_app_id, cluster, run.allocation.freq_ghz, measured, scale)
    payload.app_id = run.request.app_id
    payload.job_id = run.job_id
    key = f"{run.request.app_id}|{cluster.node_model}"
    return _of_job(SIGNATURES, cluster, run.job_id, now_us, payload, key, sequence, run.attempt)


def signature(
    app_id: str, cluster: Cluster, freq_ghz: float, measured: Behaviour, scale: TpiScale
) -> SignatureMeasured:
    """Return the metrics of one run as EAR reports them."""
    return SignatureMeasured(
        app_id=app_id,
        node_model=cluster.node_model,
        freq_ghz=freq_ghz,
        time_s=measured.time_s,
        power_w=measured.power_w,
        cpi=measured.cpi,
        tpi=scale.of(app_id, cluster.node_model, measured.tpi),
        mem_gbps=measured.mem_gbps,
        tpi_scale=scale.name,
    )


def node_samples(run: RunningJob, noise: Noise, now_us: int) -> Publish:
    """Return what the meter of the job's first node showed while it ran: all that drew there."""
    node = run.machine.node_names[run.allocation.nodes[0]]
    cluster = run.machine.cluster
    step_us = (now_us - run.started_us) / NODE_SAMPLES
    times = [run.started_us + int(step_us * (i + 0.5)) for i in range(NODE_SAMPLES)]
    errors = noise.generator("meter", run.job_id).standard_normal(NODE_SAMPLES)
    since = [from_us for from_us, _ in run.meter]
    samples = [
        NodeSample(
            time_us=time_us,
            power_w=run.meter[bisect_right(since, time_us) - 1][1] * (1 + METER_SIGMA * error),
        )
        for time_us, error in zip(times, errors.tolist(), strict=True)
    ]
    payload = NodeSamples(
        node=node, cluster=cluster.name, node_model=cluster.node_model, samples=samples
    )
    return _of_job(NODES, cluster, run.job_id, now_us, payload, node, attempt=run.attempt)


def node_read(machine: Machine, node: int, power_w: float, noise: Noise, now_us: int) -> Publish:
    """Return what the meter of a node shows now."""
    name, cluster = machine.node_names[node], machine.cluster
    error = float(noise.generator("meter", name, str(now_us)).standard_normal())
    sample = NodeSample(time_us=now_us, power_w=power_w * (1 + METER_SIGMA * error))
    payload = NodeSamples(
        node=name, cluster=cluster.name, node_model=cluster.node_model, samples=[sample]
    )
    event = Event(
        id=f"{source(cluster)}/{payload.DESCRIPTOR.full_name}/{name}/{now_us}",
        source=source(cluster),
        time_us=now_us,
        key=name,
        payload=payload,
    )
    return Publish(NODES, event)


def shutters(run: RunningJob, beside: TimeBeside, noise: Noise, now_us: int) -> Publish:
    """Return what the shutters of `run` saw of its time beside one co-runner, which ends now or
    becomes another.

    About one a minute (POPPA pauses all co-runners of a node for some milliseconds), at least one.
    """
    count = min(MAX_SHUTTERS, max(1, (now_us - beside.began_us) // SHUTTER_PERIOD_US))
    draws = noise.generator("shutters", run.job_id, str(beside.number)).standard_normal((count, 3))
    factors = 1 + SHUTTER_SIGMA * draws
    solo_ipc = 1 / run.solo.cpi
    co_ipc = solo_ipc / beside.slowdown_ratio
    payload = ShuttersMeasured(
        job_id=run.job_id,
        attempt=run.attempt,
        co_runner_job_id=beside.co_runner.job_id,
        app_id=run.request.app_id,
        co_runner_app_id=beside.co_runner.request.app_id,
        node_model=run.machine.cluster.node_model,
        began_at_us=beside.began_us,
        ended_at_us=now_us,
        shutters=[
            Shutter(
                ipc_before=co_ipc * before, ipc_during=solo_ipc * during, ipc_after=co_ipc * after
            )
            for before, during, after in factors.tolist()
        ],
        co_runners=beside.co_runners,
        core_share=beside.core_share,
        co_runner_core_share=beside.co_runner_core_share,
    )
    cluster = run.machine.cluster
    return _of_job(
        SHUTTERS, cluster, run.job_id, now_us, payload, sequence=beside.number, attempt=run.attempt
    )


def _of_job(
    topic: str,
    cluster: Cluster,
    job: str,
    time_us: int,
    payload: Message,
    key: str = "",
    sequence: int = ATTEMPT,
    attempt: int = ATTEMPT,
) -> Publish:
    of_attempt = job if attempt == ATTEMPT else f"{job}/{attempt}"
    event = Event(
        id=f"{source(cluster)}/{payload.DESCRIPTOR.full_name}/{of_attempt}/{sequence}",
        source=source(cluster),
        time_us=time_us,
        key=key or job,
        payload=payload,
        traceparent=job_traceparent(job),
    )
    return Publish(topic, event)
