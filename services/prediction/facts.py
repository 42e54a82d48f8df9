"""Facts as the tables keep them. All raise RejectedError for what cannot be used."""

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.telemetry_pb2 import ShuttersMeasured, SignatureMeasured

from coplace_client.bounds import BANDWIDTH_GBPS, CLOCK_GHZ, JOB_ENERGY_J
from coplace_client.errors import RejectedError
from coplace_client.millicores import PER_CORE
from services.prediction.job_power import EndedRun, JobOnCluster
from services.prediction.state import HALF, CoRunPair, Traffic
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import millicores_of
from shared.domain.job import Job
from shared.models.shutters import Shutter, unfiltered_slowdown


def run_of(key: str, job: Job, message: JobFinished) -> EndedRun | None:
    """Return a run that power can be learned from, by its resource manager's energy where it has a
    meter; None where no job ran, or at several P-states, or was suspended."""
    JOB_ENERGY_J.require("energy_j", message.energy_j)
    runtime_s = (message.ended_at_us - message.started_at_us) / 1e6
    used = message.nodes and message.cores_per_node and message.freq_ghz > 0
    ran = message.started_at_us and runtime_s > 0 and not message.intervals
    if not (ran and used):
        return None
    node_power_w = message.energy_j / message.nodes / runtime_s if message.energy_j else None
    return EndedRun(
        time_us=message.ended_at_us,
        key=key,
        job_id=message.job_id,
        job=JobOnCluster.from_job(job, message.cluster, message.freq_ghz),
        node_power_w=node_power_w,
        cores_per_node=millicores_of(message) / PER_CORE / message.nodes,
    )


def pair_of(event: Event, message: ShuttersMeasured) -> CoRunPair | None:
    """Return what an interval's shutters said; None where several co-runners were paused together,
    since nobody knows which of them it was."""
    if not message.shutters:
        raise RejectedError("shutters", "must hold at least one shutter")
    shutters = [Shutter(s.ipc_before, s.ipc_during, s.ipc_after) for s in message.shutters]
    if message.co_runners > 1:
        return None
    return CoRunPair(
        time_us=event.time_us,
        app_id=message.app_id,
        co_runner_app_id=message.co_runner_app_id,
        node_model=message.node_model,
        slowdown_ratio=unfiltered_slowdown(shutters),
        core_share=message.core_share or HALF,
        co_runner_core_share=message.co_runner_core_share or HALF,
    )


def traffic_of(event: Event, message: SignatureMeasured) -> Traffic:
    """Return how one run behaved."""
    CLOCK_GHZ.require("freq_ghz", message.freq_ghz)
    BANDWIDTH_GBPS.require("mem_gbps", message.mem_gbps)
    measured = message.mem_gbps, message.cpi, message.power_w
    return Traffic(message.freq_ghz, event.time_us, event.id, *measured)
