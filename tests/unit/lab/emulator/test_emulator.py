from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_TIMED_OUT,
    JobDeclined,
    JobFinished,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    VERDICT_CANCELLED,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_WITHDRAWN,
)
from coplace.v1.plans_pb2 import PlanItem, PlanProposed
from coplace.v1.telemetry_pb2 import NodeSamples, SignatureMeasured
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.emulator.app import emulator
from lab.emulator.emulator import Emulator, StalledError
from lab.emulator.facts import EPOCH_US
from lab.emulator.feasibility import ImpossibleDecisionError
from lab.emulator.settings import SimulationSettings
from lab.emulator.truth.kernels import KERNELS
from lab.workloads.generate import built_in
from lab.workloads.table1 import profile
from shared.catalogue.event import Event
from shared.catalogue.trace import job_traceparent
from tests.unit.lab.emulator.placer import Placer, play
from tests.unit.lab.emulator.runs import (
    CLUSTERS,
    P1,
    P2,
    in_round_one,
    payloads,
    ran,
    request,
    start,
    to_the_end,
)


def test_round_zero_declares_the_clusters_and_profiles_them() -> None:
    output = Emulator([request()], CLUSTERS, 1).next_round()

    assert (output.round.number, output.round.ended_at_us) == (0, EPOCH_US)
    assert {c.cluster for c in payloads([output], ClusterDeclared)} == {"p1", "p2"}
    signatures = payloads([output], SignatureMeasured)
    kernels = [s for s in signatures if s.kernel]
    assert len(kernels) == len(KERNELS) * (len(P1.pstates_ghz) + len(P2.pstates_ghz))
    assert len(signatures) - len(kernels) == 16
    assert {s.node_model for s in payloads([output], NodeSamples)} == {
        c.node_model for c in CLUSTERS
    }


def test_what_nodes_draw_at_most_is_declared_of_all_clusters_where_it_is_set() -> None:
    for nameplate_w in (0.0, 650.0):
        wanted = SimulationSettings(jobs=1, nameplate_power_w=nameplate_w)
        [_, p2] = payloads([emulator(wanted).next_round()], ClusterDeclared)
        assert p2.nameplate_power_w == nameplate_w


def test_a_job_takes_its_repetitions_of_the_published_time() -> None:
    [finished] = payloads(ran(request()), JobFinished)

    runtime_s = (finished.ended_at_us - finished.started_at_us) / 1e6
    assert runtime_s == pytest.approx(10 * profile("STREAM", P1.node_model).time_s, rel=0.05)
    energy_j = 2 * profile("STREAM", P1.node_model).power_w * runtime_s
    assert finished.energy_j == pytest.approx(energy_j, rel=0.08)


def test_a_cancelled_job_ends_where_it_is_in_the_queue_or_on_its_nodes() -> None:
    emulator, jobs = in_round_one(request(repetitions=1e4), request(1), request(2, submit_s=60.0))
    emulator.apply([start(jobs[0])])
    jobs += payloads([emulator.next_round()], JobSubmitted)
    cancels = [start(job, round=2, verdict=VERDICT_CANCELLED) for job in jobs]
    emulator.apply(cancels)

    ends = {end.job_id: end for end in payloads(to_the_end(emulator), JobFinished)}

    assert {end.outcome for end in ends.values()} == {JOB_OUTCOME_CANCELLED}
    ran, waited = ends[jobs[0].job_id], ends[jobs[2].job_id]
    assert ran.started_at_us < ran.ended_at_us
    assert (waited.started_at_us, waited.energy_j) == (0, 0.0)


def test_a_rejected_job_leaves_the_queue_without_a_word_and_somebody_elses_changes_nothing() -> (
    None
):
    emulator, [rejected, job] = in_round_one(request(), request(1))
    foreign, own = (start(rejected, verdict=VERDICT_REJECTED) for _ in range(2))
    foreign.job_id = "demo/p1/somebody-elses/1767225600"
    emulator.apply([foreign, own, start(job)])
    [end] = payloads(to_the_end(emulator), JobFinished)
    assert end.job_id == job.job_id


def test_a_start_that_was_declined_never_takes_place_and_one_that_did_is_not_declined() -> None:
    emulator, jobs = in_round_one(request(), request(1), request(2, submit_s=60.0))
    runs, waits = (start(job, grant=1) for job in jobs)
    emulator.apply([runs])
    emulator.next_round()
    asked = [start(job, round=2, grant=1, verdict=VERDICT_WITHDRAWN) for job in jobs]
    emulator.apply([*asked, start(jobs[1], round=2, grant=1)])
    output = emulator.next_round()
    [declined] = payloads([output], JobDeclined)
    assert (declined.job_id, declined.attempt, declined.grant) == (waits.job_id, 1, 1)
    assert payloads([output], JobStarted) == []
    emulator.apply([start(jobs[1], round=3, grant=2, node_indices=[5, 6])])
    [started] = payloads([emulator.next_round()], JobStarted)
    assert (started.job_id, started.grant) == (waits.job_id, 2)


def test_a_start_takes_place_at_the_end_of_its_round() -> None:
    [started] = payloads(ran(request(submit_s=31.0)), JobStarted)
    assert started.started_at_us == EPOCH_US + 60_000_000
    assert list(started.nodes) == ["p1-[0003-0004]"]


def test_rounds_end_on_a_grid_are_numbered_without_gaps_and_skip_what_is_idle() -> None:
    emulator = Emulator([request(), request(1, submit_s=100_000.0)], CLUSTERS, 1)

    outputs, _ = play(emulator, Placer(CLUSTERS))

    rounds = [output.round for output in outputs]
    assert [r.number for r in rounds] == list(range(len(rounds)))
    assert all((r.ended_at_us - EPOCH_US) % 30_000_000 == 0 for r in rounds)
    assert all(a.ended_at_us < b.ended_at_us for a, b in pairwise(rounds))
    assert len(rounds) < 10
    assert [r.last for r in rounds] == [False] * (len(rounds) - 1) + [True]


def test_every_job_is_reported_once_under_its_own_trace_and_in_the_order_of_time() -> None:
    emulator = Emulator(built_in(3, 60, CLUSTERS), CLUSTERS, 3)

    outputs, _ = play(emulator, Placer(CLUSTERS))

    for kind in (JobSubmitted, JobStarted, JobFinished):
        assert len({payload.job_id for payload in payloads(outputs, kind)}) == 60
    events = [published.event for output in outputs for published in output.events]
    assert len({event.id for event in events}) == len(events)
    for event in events:
        job = getattr(event.payload, "job_id", "")
        assert not job or event.traceparent == job_traceparent(job)
    for output in outputs:
        times = [published.event.time_us for published in output.events]
        assert times == sorted(times)
        assert not times or times[-1] <= output.round.ended_at_us
    assert len([s for s in payloads(outputs, SignatureMeasured) if s.job_id]) == 60


def test_a_mislabelled_job_runs_as_what_it_is_under_the_name_that_its_user_gave() -> None:
    outputs = ran(request(app_id="ep.D", runs="STREAM"))

    [seen] = payloads(outputs, SignatureMeasured)
    [ended] = payloads(outputs, JobFinished)
    assert (seen.app_id, ended.app_id) == ("ep.D", "ep.D")
    assert seen.cpi == pytest.approx(profile("STREAM", P1.node_model).cpi, rel=0.05)


def test_a_running_job_is_measured_when_it_was_asked_for() -> None:
    """The second job ends before it would be measured."""
    jobs = request(), request(1, repetitions=1.0)
    emulator, [long, short] = in_round_one(*jobs, measured_after_s=200.0)
    emulator.apply([start(long), start(short, node_indices=[5, 6])])

    events = [p.event for output in to_the_end(emulator) for p in output.events]

    seen = [e for e in events if isinstance(e.payload, SignatureMeasured)]
    assert len({e.id for e in seen}) == 3
    early, late = sorted(e.time_us for e in seen if long.job_id in e.id)
    [began_us] = {e.payload.started_at_us for e in events if isinstance(e.payload, JobStarted)}
    assert early == began_us + 200_000_000
    assert late > early


def test_the_meter_of_a_shared_node_shows_both_jobs_and_its_idle_half() -> None:
    [alone] = payloads(ran(request(shareable=True)), NodeSamples)
    emulator, [a, b] = in_round_one(request(shareable=True), request(1, shareable=True))
    emulator.apply([start(a), start(b, co_runner_job_id=a.job_id)])
    together = payloads(to_the_end(emulator), NodeSamples)[0]

    power_w = profile("STREAM", P1.node_model).power_w
    assert alone.samples[0].power_w == pytest.approx((power_w + P1.idle_power_w) / 2, rel=0.08)
    assert together.samples[0].power_w == pytest.approx(power_w, rel=0.08)


def test_a_job_beyond_its_limit_runs_on_unless_limits_kill() -> None:
    [on], [killed] = (
        payloads(ran(request(), walltime_s=60.0, options=options), JobFinished)
        for options in ({}, {"kill_at_limit": True})
    )
    assert on.ended_at_us - on.started_at_us > 1_000_000_000
    assert killed.ended_at_us - killed.started_at_us == 60_000_000
    assert killed.outcome == JOB_OUTCOME_TIMED_OUT


@settings(max_examples=6)
@given(seed=st.integers(0, 1000), jobs=st.integers(1, 30))
def test_replayed_decisions_give_identical_outputs_in_any_order(seed: int, jobs: int) -> None:
    requests = built_in(seed, jobs, CLUSTERS)
    outputs, decisions = play(Emulator(requests, CLUSTERS, seed), Placer(CLUSTERS))

    again = Emulator(requests, CLUSTERS, seed)
    for output, decided in zip(outputs, decisions, strict=True):
        assert again.next_round() == output
        again.apply(list(reversed(decided)))
    assert again.finished


def test_another_seed_is_another_machine() -> None:
    plays = (play(Emulator([request()], CLUSTERS, seed), Placer(CLUSTERS)) for seed in (1, 2))
    [one], [two] = (payloads(outputs, JobFinished) for outputs, _ in plays)
    assert one.energy_j != two.energy_j
    assert one.ended_at_us != two.ended_at_us


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"job_id": "demo/p1/9/9"}, "not in the queue"),
        ({"round": 7}, "another round"),
        ({"attempt": 2}, "attempt 2"),
        ({"cluster": "p9"}, "p9"),
        ({"freq_ghz": 2.75}, "P-state"),
        ({"cores_per_node": 24}, "48 cores"),
        ({"walltime_s": 0.0}, "limit"),
        ({"node_indices": []}, "different nodes"),
        ({"node_indices": [3]}, "asked for 2 units, got 1"),
        ({"node_indices": [3, 3]}, "different nodes"),
        ({"node_indices": [3], "node_units": [2]}, "1 units on one node"),
        ({"node_indices": [3, 4], "node_units": [2]}, "units of 1 nodes"),
        ({"node_indices": [3, 16]}, "no node 16"),
        ({"node_indices": [0, 1]}, "p1-0000"),
        ({"co_runner_job_id": "demo/p1/9/9"}, "does not run"),
    ],
)
def test_a_decision_that_cannot_be_obeyed_is_refused_by_name(
    changes: dict[str, Any], problem: str
) -> None:
    emulator, [busy, job] = in_round_one(request(), request(1))
    emulator.apply([start(busy, node_indices=[0, 1])])

    with pytest.raises(ImpossibleDecisionError, match=problem):
        emulator.apply([start(job, **changes)])


def test_a_job_is_started_once() -> None:
    emulator, [job] = in_round_one(request())

    with pytest.raises(ImpossibleDecisionError, match="twice"):
        emulator.apply([start(job), start(job, node_indices=[5, 6])])


def test_nodes_are_shared_only_by_shareable_jobs_that_are_named() -> None:
    halves = (request(n, shareable=True) for n in range(3))
    emulator, [a, b, c, whole] = in_round_one(*halves, request(3))
    emulator.apply([start(a)])

    with pytest.raises(ImpossibleDecisionError, match="without naming"):
        emulator.apply([start(b)])
    with pytest.raises(ImpossibleDecisionError, match="is elsewhere"):
        emulator.apply([start(b, co_runner_job_id=a.job_id, node_indices=[5, 6])])
    with pytest.raises(ImpossibleDecisionError, match="72 cores of 48"):
        emulator.apply([start(whole, co_runner_job_id=a.job_id)])
    emulator.apply([start(b, co_runner_job_id=a.job_id)])
    with pytest.raises(ImpossibleDecisionError, match="72 cores of 48"):
        emulator.apply([start(c, co_runner_job_id=a.job_id)])


def test_a_queued_verdict_changes_nothing() -> None:
    emulator, [job] = in_round_one(request())
    emulator.apply([start(job, verdict=VERDICT_QUEUED)])

    with pytest.raises(StalledError, match=r"1 jobs wait"):
        emulator.next_round()


def test_a_request_for_no_cluster_and_a_node_model_without_a_truth_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="request 0"):
        Emulator([request(reference_cluster="p9")], CLUSTERS, 1)
    with pytest.raises(ValueError, match="gold-9999"):
        Emulator([], [replace(P1, node_model="gold-9999")], 1)


def plan(*not_before_us: int, valid_s: float = 7200.0) -> Event:
    """One that was made after round 1."""
    items = [PlanItem(job_id=f"{n}", not_before_us=at_us) for n, at_us in enumerate(not_before_us)]
    until_us = EPOCH_US + round(valid_s * 1e6)
    payload = PlanProposed(round=1, based_at_us=EPOCH_US, valid_until_us=until_us, items=items)
    return Event("planner/1", "planner", EPOCH_US, "region", payload)


def test_a_plan_goes_out_with_the_next_round_which_follows_at_once() -> None:
    emulator, [job, _] = in_round_one(request(repetitions=1e4), request(1))
    emulator.apply([start(job)], plan(0))
    output = emulator.next_round()
    assert output.round.ended_at_us == EPOCH_US + 60_000_000
    [told] = [one for one in output.events if one.event.id == "planner/1"]
    assert (told.topic, told.event) == ("commands", plan(0))
    emulator.apply([])
    later = emulator.next_round()
    assert [one for one in later.events if one.event.id == "planner/1"] == []


def test_while_jobs_wait_a_round_ends_when_a_plan_lets_something_start_and_when_it_ends() -> None:
    emulator, [job, _] = in_round_one(request(repetitions=1e4), request(1))
    hour_us = EPOCH_US + 3_600_000_000
    emulator.apply([start(job)], plan(0, hour_us))
    ended = []
    for _ in range(3):
        ended.append(emulator.next_round().round.ended_at_us)
        emulator.apply([])
    assert ended[1:] == [hour_us, EPOCH_US + 7_200_000_000]


def test_a_plan_is_not_reported_where_nothing_waits_nor_keeps_a_run_from_its_end() -> None:
    emulator, [job] = in_round_one(request())
    emulator.apply([start(job)], plan(0))
    outputs = to_the_end(emulator)
    assert outputs[-1].round.last
    assert not payloads(outputs, PlanProposed)


def test_tasks_of_an_array_run_as_jobs_and_the_run_ends_with_the_last() -> None:
    emulator, [array] = in_round_one(request(array="3-4"))
    tasks = [f"{array.job_id}_{index}" for index in (3, 4)]
    decided = [start(array, job_id=task, array_job_id=array.job_id) for task in tasks]
    decided[1].node_indices[:] = [node + 2 for node in decided[1].node_indices]
    emulator.apply(decided)
    outputs = to_the_end(emulator)
    assert [each.job_id for each in payloads(outputs, JobStarted)] == tasks
    ends = payloads(outputs, JobFinished)
    assert sorted(each.job_id for each in ends) == tasks
    assert emulator.finished


def test_a_cancelled_array_leaves_the_queue_with_the_tasks_that_never_started() -> None:
    emulator, [array] = in_round_one(request(array="0-9"))
    emulator.apply([start(array, verdict=VERDICT_CANCELLED)])
    [end] = payloads(to_the_end(emulator), JobFinished)
    assert (end.job_id, end.outcome) == (array.job_id, JOB_OUTCOME_CANCELLED)
