"""Composition root of the emulator."""

from collections.abc import Sequence

import structlog

from lab.emulator.adapters import MARKED, EmulatorIngest, RecordedAnswers, RoundBarriers
from lab.emulator.answers import answered_in
from lab.emulator.caps import built_in_caps
from lab.emulator.effects import effects_without
from lab.emulator.emulator import Emulator
from lab.emulator.imported import read_imported
from lab.emulator.licences import built_in_licences
from lab.emulator.machine import Machine
from lab.emulator.observed import ObservedRuns
from lab.emulator.reservations import built_in_reservations
from lab.emulator.scales import PER_INSTRUCTION, read_eamc_scale
from lab.emulator.settings import SimulationSettings
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.workloads.arrays import with_arrays
from lab.workloads.clusters import GPU_NODES, clusters, rated
from lab.workloads.gangs import with_gangs
from lab.workloads.generate import built_in
from lab.workloads.interactive import with_interactive
from lab.workloads.licensed import with_licences
from lab.workloads.mislabel import mislabel
from lab.workloads.partitions import asking_for_partitions, with_partitions
from lab.workloads.parts import with_parts
from lab.workloads.replay import replay
from lab.workloads.request import JobRequest
from lab.workloads.reserved import in_reservations
from lab.workloads.timed import with_start_terms
from shared.domain.cluster import Cluster
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.telemetry import hooks_of

log = structlog.get_logger(__name__)


def workload(settings: SimulationSettings) -> tuple[Sequence[JobRequest], tuple[Cluster, ...]]:
    """Return the jobs, and the clusters that run them: those of a log have the size of its machine.

    Raises OSError or UnusableError for a log that cannot be replayed.
    """
    requests, emulated = _labelled_workload(settings)
    return mislabel(requests, settings.seed, settings.mislabelled_share), emulated


def _labelled_workload(
    settings: SimulationSettings,
) -> tuple[Sequence[JobRequest], tuple[Cluster, ...]]:
    if settings.swf is None:
        return _built_in(settings)
    log_workload = replay(settings.swf, settings.jobs, seed=settings.seed)
    nameplate_w = settings.nameplate_power_w
    return log_workload.requests, clusters(log_workload.max_nodes, nameplate_power_w=nameplate_w)


def _built_in(settings: SimulationSettings) -> tuple[list[JobRequest], tuple[Cluster, ...]]:
    gpu_nodes = GPU_NODES if settings.gpus_share else 0
    emulated = clusters(gpu_nodes=gpu_nodes, nameplate_power_w=settings.nameplate_power_w)
    if settings.caps:
        emulated = tuple(map(rated, emulated))
    requests = built_in(settings.seed, settings.jobs, emulated)
    shares = settings.quarters_share, settings.gpus_share, settings.thousandths_share
    requests = with_parts(requests, emulated, settings.seed, *shares)
    if settings.partitions_share:
        emulated = tuple(map(with_partitions, emulated))
        share = settings.partitions_share
        requests = asking_for_partitions(requests, emulated, settings.seed, share)
    if settings.reserved_share:
        requests = in_reservations(requests, emulated, settings.seed, settings.reserved_share)
    requests = with_gangs(requests, settings.seed, settings.gangs_share)
    requests = with_licences(requests, settings.seed, settings.licensed_share)
    requests = with_start_terms(requests, settings.seed, settings.timed_share)
    requests = with_arrays(requests, settings.seed, settings.arrays_share)
    return with_interactive(requests, settings.seed, settings.interactive_share), emulated


def emulator(settings: SimulationSettings) -> Emulator:
    """Return the emulator that the settings describe. Raises as `workload`."""
    requests, emulated = workload(settings)
    folder = settings.coefficients
    return Emulator(
        requests,
        emulated,
        settings.seed,
        round_s=settings.round_s,
        tpi_scale=read_eamc_scale(folder) if folder else PER_INSTRUCTION,
        kill_at_limit=settings.kill_at_limit,
        measured_after_s=settings.measured_after_s,
        fair_share_every_s=settings.fair_share_every_s,
        metered_every_s=settings.metered_every_s,
        under_predicted_share=settings.under_predicted_share,
        caps=built_in_caps(emulated) if settings.caps else (),
        reservations=built_in_reservations(emulated, requests) if settings.reserved_share else (),
        licences=built_in_licences(emulated) if settings.licensed_share else (),
        effects=effects_without(settings.without),
        imported=read_imported(settings.reports, emulated) if settings.reports else {},
    )


def machines_and_runs(
    settings: SimulationSettings, emulated: Sequence[Cluster]
) -> tuple[list[Machine], ObservedRuns]:
    """Return the nodes of the clusters, and how jobs run on them, as the emulator has both."""
    noise, effects = Noise(settings.seed), effects_without(settings.without)
    runs = ObservedRuns(EmulatedTruth(noise, effects), noise, settings.under_predicted_share)
    return [Machine(cluster, noise) for cluster in emulated], runs


async def serve(process: Process) -> None:
    """Play the run on Kafka, from where its recorded answers end, until it is over.

    Rounds whose answers are recorded are replayed without a word; the open one is published
    again as a whole, since nobody knows how much of it got through.
    """
    settings = SimulationSettings()
    deployment = Deployment.from_settings(process.settings, hooks_of(process.telemetry))
    topics = answered_in(planned=settings.planned)
    await wait_for_topics(process.settings, {*MARKED, *topics}, process.readiness, process.stop)
    played = emulator(settings)
    async with (
        EmulatorIngest(deployment, settings.ingest_address) as ingest,
        RoundBarriers(deployment) as barriers,
        RecordedAnswers(deployment, topics) as recorded,
    ):
        process.readiness.ready()
        while not played.finished and not process.stop.is_set():
            output = played.next_round()
            if not recorded.is_complete(output.round.number):
                await ingest.publish(output.events)
                await barriers.write(output.round)
            played.apply(*await recorded.of_round(output.round.number, process.stop))
    log.info("run is over", complete=played.finished)


def main() -> None:
    """Run the process; it ends with its run."""
    run_process("simulation", serve)
