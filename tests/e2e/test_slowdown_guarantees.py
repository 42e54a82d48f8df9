"""Promised slowdowns in a whole system whose neighbours really cost more than is predicted."""

from pathlib import Path

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided, SlowdownPromiseBroken
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from lab.demo import embedded
from lab.demo.options import DemoOptions
from lab.emulator.truth import interference

JOBS = 150


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> embedded.EmbeddedSystem:
    """Two that press memory slow each other down four times as much as in other runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interference, "WORST", 4 * interference.WORST)
        out: Path = tmp_path_factory.mktemp("promises")
        return embedded.run(DemoOptions(jobs=JOBS, out=out), lambda _count: None)


def payloads(system: embedded.EmbeddedSystem, topic: str) -> list[object]:
    return [event.payload for event in system.topic(topic)]


def test_pairs_that_broke_a_promise_never_start_beside_each_other_again(
    system: embedded.EmbeddedSystem,
) -> None:
    """By what was decided alone: which jobs start beside which, and when what was published."""
    jobs = payloads(system, "jobs.events")
    apps = {job.job_id: job.app_id for job in jobs if isinstance(job, JobSubmitted)}
    commands = payloads(system, "commands")
    models = {c.cluster: c.node_model for c in commands if isinstance(c, ClusterDeclared)}
    decided = payloads(system, "placement.decisions")
    broken = [each for each in decided if isinstance(each, SlowdownPromiseBroken)]
    apart = {
        (each.node_model, frozenset((each.app_id, each.co_runner_app_id))): each.told_at_us
        for each in sorted(broken, key=lambda each: -each.told_at_us)
    }
    assert apart
    starts = [
        each
        for each in decided
        if isinstance(each, PlacementDecided) and each.verdict == VERDICT_START
    ]
    shared = [each for each in starts if each.co_runner_job_ids]
    assert shared
    for start in shared:
        for beside in start.co_runner_job_ids:
            pair = models[start.cluster], frozenset((apps[start.job_id], apps[beside]))
            assert start.decided_at_us < apart.get(pair, start.decided_at_us + 1), pair


def test_what_is_reported_is_what_shutters_saw_of_who_was_promised_less(
    system: embedded.EmbeddedSystem,
) -> None:
    """By arithmetic of its own on the shutters: means of what was seen beside and during pauses."""
    decided = payloads(system, "placement.decisions")
    promised = {
        (each.job_id, each.attempt): each.promised_slowdown_ratio
        for each in decided
        if isinstance(each, PlacementDecided) and each.verdict == VERDICT_START
    }
    seen: dict[tuple[str, str, int], float] = {}
    for each in payloads(system, "telemetry.shutters"):
        if not isinstance(each, ShuttersMeasured):
            continue
        alone = sum(shutter.ipc_during for shutter in each.shutters)
        beside = sum(shutter.ipc_before + shutter.ipc_after for shutter in each.shutters)
        seen[each.job_id, each.co_runner_job_id, each.began_at_us] = 2 * alone / beside
    broken = [each for each in decided if isinstance(each, SlowdownPromiseBroken)]
    for told in broken:
        measured = seen[told.job_id, told.co_runner_job_id, told.began_at_us]
        assert told.measured_slowdown_ratio == pytest.approx(measured, rel=1e-9)
        assert told.promised_slowdown_ratio == promised[told.job_id, told.attempt] < measured
