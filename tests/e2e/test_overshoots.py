"""A cap that meters show exceeded, through all stages in memory: one job in ten was predicted too
low."""

from math import fsum
from typing import Final

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_REGION, PowerCapDeclared, PowerCapStep
from coplace.v1.jobs_pb2 import JobFinished, JobStarted
from coplace.v1.placement_pb2 import PowerCapExceeded
from coplace.v1.telemetry_pb2 import NodeSamples

from cli.stages import ServiceSettings
from lab.demo.embedded import EmbeddedSystem
from lab.demo.history import payloads
from lab.demo.options import DemoOptions
from lab.emulator.driver import play
from lab.emulator.emulator import Emulator
from lab.emulator.facts import EPOCH_US
from lab.emulator.truth.noise import Noise
from lab.workloads.clusters import clusters
from lab.workloads.request import JobRequest

CLUSTERS: Final = clusters(nodes=16)
IDLE_W: Final = sum(c.nodes * c.idle_power_w for c in CLUSTERS)
SEED, SHARE, JOBS = 1, 0.1, 24
MINUTE_US: Final = 60_000_000


def requests() -> list[JobRequest]:
    return [
        JobRequest(
            index=index,
            app_id="STREAM",
            user=f"user{index % 5}",
            account="account1",
            nodes=1,
            shareable=False,
            repetitions=20.0,
            walltime_s=7_200.0,
            submit_s=0.0,
            reference_cluster="p1",
        )
        for index in range(JOBS)
    ]


@pytest.fixture(scope="module")
def played() -> EmbeddedSystem:
    """All jobs under a cap that leaves nothing for errors of predictions."""
    options = DemoOptions(seed=SEED)
    own = ServiceSettings(options.energy, options.placement)
    system = EmbeddedSystem(options.shared(), own)
    cap = PowerCapDeclared(
        scope=POWER_SCOPE_REGION,
        steps=[PowerCapStep(from_us=EPOCH_US, watts=IDLE_W + 2_400.0)],
        reason="a test",
        declared_at_us=EPOCH_US,
    )
    emulated = Emulator(
        requests(), CLUSTERS, SEED, metered_every_s=60.0, under_predicted_share=SHARE, caps=[cap]
    )
    play(emulated, system.publish, lambda _round: system.new_answers())
    return system


def under_predicted(system: EmbeddedSystem) -> set[str]:
    jobs = {job.job_id for job in payloads(system.topic("jobs.events"), JobStarted)}
    return {job for job in jobs if Noise(SEED).generator("under", job).random() < SHARE}


def test_it_is_reported_when_it_begins_and_when_it_is_over(played: EmbeddedSystem) -> None:
    told = payloads(played.topic("placement.decisions"), PowerCapExceeded)
    assert told
    assert {each.ended_at_us > 0 for each in told} == {True, False}
    over = [each for each in told if each.ended_at_us]
    assert all(0 < e.above_s <= (e.ended_at_us - e.began_at_us) / 1e6 for e in over)
    assert all(e.above_j <= e.above_s * (e.measured_w - e.cap_w) for e in over)


def test_the_job_that_is_furthest_off_was_predicted_too_low(played: EmbeddedSystem) -> None:
    wrong = under_predicted(played)
    assert wrong
    told = payloads(played.topic("placement.decisions"), PowerCapExceeded)
    furthest = {each.jobs[0].job_id for each in told}
    assert furthest <= wrong
    off = {
        job.job_id: job.measured_w / job.predicted_w
        for each in told
        for job in each.jobs
        if job.job_id in wrong
    }
    assert all(ratio > 1.5 for ratio in off.values()), off


def test_what_was_measured_is_what_meters_show_with_idle_nodes_beside_them(
    played: EmbeddedSystem,
) -> None:
    """By another road: of each minute the sum of all readings."""
    of_nodes = payloads(played.topic("telemetry.nodes"), NodeSamples)
    reads = [read for read in of_nodes if len(read.samples) == 1]  # not of a whole run
    idle_w = {cluster.name: cluster.idle_power_w for cluster in CLUSTERS}
    told = payloads(played.topic("placement.decisions"), PowerCapExceeded)
    ends_us = {job.ended_at_us for job in payloads(played.topic("jobs.events"), JobFinished)}
    begins_us = {job.started_at_us for job in payloads(played.topic("jobs.events"), JobStarted)}
    compared = 0
    for each in told:
        since_us = each.began_at_us - MINUTE_US
        if each.ended_at_us or any(
            since_us - MINUTE_US < t for t in ends_us | begins_us if t <= each.began_at_us
        ):
            continue
        beyond = [
            read.samples[0].power_w - idle_w[read.cluster]
            for read in reads
            if since_us < read.samples[0].time_us <= each.began_at_us
        ]
        assert each.measured_w == pytest.approx(IDLE_W + fsum(beyond), rel=1e-4)
        compared += 1
    assert compared
