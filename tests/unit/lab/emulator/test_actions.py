"""What emulated resource managers do to jobs that run, as they are asked."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_TIMED_OUT,
    JobActionDone,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_RESUME,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    Action,
    ActionKind,
    PlacementDecided,
)
from coplace.v1.telemetry_pb2 import ShuttersMeasured, SignatureMeasured

from lab.emulator.caps import built_in_caps
from lab.emulator.emulator import Emulator, RoundOutput
from lab.emulator.feasibility import ImpossibleDecisionError
from lab.workloads.request import JobRequest
from shared.catalogue.payloads.domain_types import run_us, suspensions
from tests.unit.lab.emulator.runs import (
    CLUSTERS,
    P1,
    in_round_one,
    payloads,
    request,
    start,
    until,
)

# Later jobs end rounds while the first one runs.
LATER = [request(n, submit_s=100.0 * n, nodes=1) for n in range(1, 4)]


def asked(
    job_id: str, number: int, kind: ActionKind.ValueType, round_number: int, **how: Any
) -> PlacementDecided:
    action = Action(kind=kind, number=number, **how)
    return PlacementDecided(
        job_id=job_id,
        attempt=1,
        round=round_number,
        verdict=VERDICT_ACTION,
        cluster="p1",
        action=action,
    )


def test_a_job_that_is_requeued_ends_is_reported_and_runs_anew_as_its_next_attempt() -> None:
    emulator, [job] = in_round_one(request(), *LATER)
    emulator.apply([start(job)])
    output = emulator.next_round()
    [began] = payloads([output], JobStarted)
    emulator.apply([asked(job.job_id, 1, ACTION_KIND_REQUEUE, output.round.number)])
    output = emulator.next_round()
    [ended], [back] = payloads([output], JobFinished), payloads([output], JobRequeued)
    assert (ended.attempt, ended.outcome, back.attempt) == (1, JOB_OUTCOME_CANCELLED, 2)
    number = output.round.number
    with pytest.raises(ImpossibleDecisionError, match="attempt 1 was never submitted"):
        emulator.apply([start(job, round=number)])
    emulator.apply([start(job, round=number, attempt=2, grant=2)])
    output = emulator.next_round()
    [again] = payloads([output], JobStarted)
    assert (again.job_id, again.attempt, again.grant) == (began.job_id, 2, 2)
    ids = [published.event.id for published in output.events]
    assert f"demo/p1/coplace.v1.JobStarted/{job.job_id}/2/1" in ids


def acted_on(
    *actions: tuple[int, ActionKind.ValueType, dict[str, Any]], **how: Any
) -> tuple[JobFinished, list[RoundOutput]]:
    """One job that is started in round 1, and acted on in later rounds; the others wait."""
    emulator, [job] = in_round_one(request(), *LATER)
    emulator.apply([start(job, **how)])
    outputs = until(JobFinished, emulator, decided(job, *actions))
    [finished] = payloads(outputs, JobFinished)
    return finished, outputs


def decided(
    job: JobSubmitted, *actions: tuple[int, ActionKind.ValueType, dict[str, Any]]
) -> dict[int, list[PlacementDecided]]:
    return {
        number: [asked(job.job_id, count, kind, number, **how)]
        for count, (number, kind, how) in enumerate(actions, 1)
    }


def test_a_job_goes_on_at_another_p_state_from_where_it_is() -> None:
    """The first stretch's share of the work is done; the rest takes as long as it does there, and
    each stretch draws what the whole job would."""
    plain, _ = acted_on()
    throughout, at_once = acted_on(freq_ghz=1.2)
    slow, outputs = acted_on((2, ACTION_KIND_SET_PSTATE, {"freq_ghz": 1.2, "walltime_s": 7200.0}))
    first, second = slow.intervals
    assert (first.freq_ghz, second.freq_ghz, slow.freq_ghz) == (2.7, 1.2, 1.2)
    first_us, second_us = (
        second.began_at_us - first.began_at_us,
        slow.ended_at_us - second.began_at_us,
    )
    assert second_us == pytest.approx((1 - first_us / run_us(plain)) * run_us(throughout), abs=3)
    assert first.energy_j + second.energy_j == pytest.approx(slow.energy_j)
    assert first.energy_j / first_us == pytest.approx(plain.energy_j / run_us(plain))
    assert second.energy_j / second_us == pytest.approx(throughout.energy_j / run_us(throughout))
    [seen], [same] = (
        [s for s in payloads(each, SignatureMeasured) if s.job_id == slow.job_id]
        for each in (outputs, at_once)
    )
    assert (seen.freq_ghz, seen.time_s, seen.power_w) == (1.2, same.time_s, same.power_w)


def test_a_job_that_is_suspended_draws_idle_power_and_does_nothing_as_is_reported_at_once() -> None:
    plain, _ = acted_on()
    stopped, outputs = acted_on((2, ACTION_KIND_SUSPEND, {}), (4, ACTION_KIND_RESUME, {}))
    assert [interval.freq_ghz for interval in stopped.intervals] == [2.7, 0.0, 2.7]
    assert run_us(stopped) == pytest.approx(run_us(plain), abs=3)
    [(from_us, until_us)] = suspensions(stopped)
    assert until_us > from_us
    idle_w = stopped.intervals[1].energy_j * 1e6 / (until_us - from_us)
    assert idle_w == pytest.approx(2 * P1.idle_power_w, rel=0.2)
    told = payloads(outputs, JobActionDone)
    assert [(d.number, d.freq_ghz, d.done_at_us) for d in told] == [
        (1, 0, from_us),
        (2, 2.7, until_us),
    ]
    by_round = {output.round.number: output for output in outputs}
    assert payloads([by_round[3]], JobActionDone)
    assert by_round[3].round.ended_at_us - by_round[2].round.ended_at_us == 30_000_000


def test_its_limit_stretches_with_the_p_state_and_waits_while_it_is_suspended() -> None:
    emulator, [job] = in_round_one(request(repetitions=1e6), *LATER, kill_at_limit=True)
    emulator.apply([start(job, walltime_s=300.0)])
    actions: tuple[tuple[int, ActionKind.ValueType, dict[str, Any]], ...] = (
        (2, ACTION_KIND_SET_PSTATE, {"freq_ghz": 1.2, "walltime_s": 600.0}),
        (3, ACTION_KIND_SUSPEND, {}),
        (4, ACTION_KIND_RESUME, {}),
    )
    outputs = until(JobFinished, emulator, decided(job, *actions))
    [finished] = payloads(outputs, JobFinished)
    assert finished.outcome == JOB_OUTCOME_TIMED_OUT
    first, second, _, _ = finished.intervals
    used_us = second.began_at_us - first.began_at_us
    assert run_us(finished) == pytest.approx(used_us + (300e6 - used_us) * 2, abs=3)


def test_nobody_is_disturbed_by_a_neighbour_that_is_suspended() -> None:
    halves = [request(n, shareable=True, nodes=1, repetitions=30.0) for n in (0, 1)]
    emulator, [one, other] = in_round_one(*halves, *LATER)
    beside = start(other, node_indices=[3], co_runner_job_id=one.job_id)
    emulator.apply([start(one, node_indices=[3]), beside])
    outputs = until(JobFinished, emulator, decided(other, (2, ACTION_KIND_SUSPEND, {})))
    [finished] = payloads(outputs, JobFinished)
    assert finished.job_id == one.job_id
    told = [s for s in payloads(outputs, ShuttersMeasured) if s.job_id == one.job_id]
    [done] = payloads(outputs, JobActionDone)
    assert [s.ended_at_us for s in told] == [done.done_at_us]


def test_an_end_ends_it() -> None:
    finished, _ = acted_on((2, ACTION_KIND_END, {}))
    assert finished.outcome == JOB_OUTCOME_CANCELLED
    assert not finished.intervals


def test_what_does_not_run_and_a_p_state_that_is_none_cannot_be_obeyed() -> None:
    emulator, [job] = in_round_one(request(), *LATER)
    with pytest.raises(ImpossibleDecisionError, match="does not run"):
        emulator.apply([asked(job.job_id, 1, ACTION_KIND_SUSPEND, 1)])
    emulator.apply([start(job)])
    emulator.next_round()
    with pytest.raises(ImpossibleDecisionError, match=r"9.9 GHz is not a P-state of p1"):
        emulator.apply([asked(job.job_id, 1, ACTION_KIND_SET_PSTATE, 2, freq_ghz=9.9)])


def test_a_cap_is_declared_when_its_operator_does_so() -> None:
    requests: list[JobRequest] = [request(submit_s=0.0), request(1, submit_s=50_000.0)]
    caps = built_in_caps(CLUSTERS)
    emulator = Emulator(requests, CLUSTERS, 1, caps=caps)
    first = emulator.next_round()
    emulator.apply([])
    kind = type(caps[0])
    assert len(payloads([first], kind)) == 2
    outputs = until(kind, emulator)
    assert [cap.reason for cap in payloads(outputs, kind)] == ["the grid asks for less at once"]
    assert outputs[-1].round.ended_at_us == caps[2].declared_at_us


def test_actions_on_neighbours_is_the_same_in_any_order() -> None:
    """Decisions on jobs of several Kafka partitions come in any order."""

    def played(order: int) -> list[RoundOutput]:
        halves = [request(n, shareable=True) for n in range(2)]
        emulator, jobs = in_round_one(*halves, *LATER)
        host, guest = jobs[:2]
        emulator.apply([start(host), start(guest, co_runner_job_id=host.job_id)])
        round_number = emulator.next_round().round.number
        slower = [
            asked(job.job_id, 1, ACTION_KIND_SET_PSTATE, round_number, freq_ghz=freq_ghz)
            for job, freq_ghz in ((host, 2.4), (guest, 2.1))
        ]
        emulator.apply(slower[::order])
        return until(JobFinished, emulator)

    assert played(1) == played(-1)
