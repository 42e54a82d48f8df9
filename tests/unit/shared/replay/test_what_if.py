"""A record under the rules that it ran with, and under others."""

from dataclasses import replace
from math import inf

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_REGION
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_TIMED_OUT,
    JobFinished,
)
from coplace.v1.placement_pb2 import VERDICT_ACTION, VERDICT_REJECTED
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from services.planner.app import search_of, stage_of
from services.planner.settings import PlannerSettings
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.state.caps import Covered
from shared.planning.searches import Searches
from shared.replay.caps import CapChanges, CapSchedule, NewCap
from shared.replay.inputs import RecordedInputs
from shared.replay.region import RecordFollower, Setting, replay
from shared.replay.truth import Truth
from shared.replay.what_if import as_recorded
from shared.scheduling.power import Scope
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import APPS, T0_US
from tests.unit.shared.placement.state.test_slowdown_guarantees import allowed, seen
from tests.unit.shared.replay.records import NODE_W, recorded, starts, what_if

S = 1_000_000


def low_at_first() -> Event:
    """A cap under which nothing starts for 3,000 s."""
    return region.capped(POWER_SCOPE_REGION, "", (0, 900.0), (3000, None))


def ends(inputs: RecordedInputs) -> dict[str, JobFinished]:
    told = (event.payload for event in inputs.events)
    return {each.job_id: each for each in told if isinstance(each, JobFinished)}


def test_what_was_declared_on_the_way_is_followed_unless_the_case_is_about_it() -> None:
    jobs = [region.submitted(f"j{n}", T0_US + n * 40 * S, app_id=APPS[n % 8]) for n in range(12)]
    said = region.policy(T0_US + 200 * S, policy="min-energy", max_slowdown=2.0)
    inputs, decisions = recorded([*jobs, said], {f"j{n}": 100.0 + n for n in range(12)})
    assert {one.policy for one in decisions} == {"priority-inc-v", "min-energy"}
    assert what_if(inputs).decisions == decisions
    followed = what_if(inputs, Policy.BASE)
    assert {one.policy for one in followed.decisions} == {"base", "min-energy"}
    throughout = what_if(inputs, Policy.BASE, fixed=["policy"])
    assert {one.policy for one in throughout.decisions} == {"base"}
    assert throughout.unfinished == followed.unfinished == 0


def test_arrays_are_left_out_and_counted() -> None:
    array = region.submitted("a", array="0-3", nodes=2)
    alone = region.submitted("b", T0_US + 1)
    gone = region.finished("a_3", T0_US + 100 * S, outcome=JOB_OUTCOME_CANCELLED)
    run_s = {f"a_{n}": 200.0 for n in range(3)} | {"b": 50.0}
    inputs, decisions = recorded([array, alone, gone], run_s)
    assert {"a_0", "b"} <= starts(decisions).keys()
    truth = Truth.from_record(inputs, decisions, Setting())
    assert (truth.arrays, list(truth.jobs), dict(truth.leaves_us)) == (1, ["b"], {})
    course = what_if(inputs)
    assert [each.job_id for each in course.finished] == ["b"]
    assert course.unfinished == 0


def test_pairs_that_were_measured_as_too_slow_stay_isolated_until_they_are_allowed_again() -> None:
    jobs = [
        region.submitted(
            f"j{n}", T0_US + n * 100 * S, nodes=1, shareable=True, cores_per_unit=6, app_id=APPS[0]
        )
        for n in range(12)
    ]
    run_s = {f"j{n}": 900.0 for n in range(12)}
    plain = starts(recorded(jobs, run_s, nodes=1)[1])
    first = next(d for d in plain.values() if d.co_runner_job_id)
    at_us, model = first.decided_at_us + 40 * S, region.MODELS[first.cluster]
    slow = seen(first.job_id, first.co_runner_job_id, 1.9, node_model=model, at_us=at_us)
    again = replace(allowed(), time_us=at_us + 300 * S)
    inputs, decisions = recorded([*jobs, slow, again], run_s, nodes=1)
    assert starts(decisions) != plain
    course = what_if(inputs)
    assert course.decisions == decisions


@settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    st.lists(
        st.tuples(
            st.integers(0, 600),
            st.integers(1, 4),
            st.booleans(),
            st.integers(0, 7),
            st.floats(1.0, 2000.0),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_neighbours_are_divided_out_of_what_was_observed_as_they_come_in_again(
    drawn: list[tuple[int, int, bool, int, float]],
) -> None:
    jobs = [
        region.submitted(f"j{n}", T0_US + at_s * S, nodes=nodes, shareable=shares, app_id=APPS[app])
        for n, (at_s, nodes, shares, app, _) in enumerate(drawn)
    ]
    run_s = {f"j{n}": each[-1] for n, each in enumerate(drawn)}
    inputs, decisions = recorded(jobs, run_s)
    course = what_if(inputs)
    assert course.decisions == decisions
    ran_us = {job.job_id: job.ended_at_us - job.started_at_us for job in course.finished}
    assert ran_us == {job_id: round(seconds * 1e6) for job_id, seconds in run_s.items()}


def test_another_clock_takes_the_predicted_ratio_longer_and_draws_the_predicted_ratio_less() -> (
    None
):
    inputs, decisions = recorded([region.submitted("j", app_id=APPS[2])], {"j": 100.0})
    course = what_if(inputs, Policy.MIN_ENERGY)
    truth = Truth.from_record(inputs, decisions, Setting())
    before, after = starts(decisions)["j"], starts(course.decisions)["j"]
    assert after.freq_ghz < before.freq_ghz
    job, seen = truth.jobs["j"], truth.hindsight
    places = ((after.cluster, after.freq_ghz), (before.cluster, before.freq_ghz))
    time, power = ([of(job, *at) for at in places] for of in (seen.time_s, seen.node_w))
    (finished,) = course.finished
    ran_s = (finished.ended_at_us - finished.started_at_us) / 1e6
    assert ran_s == pytest.approx(100.0 * time[0] / time[1])
    assert finished.energy_j == pytest.approx(100 * NODE_W * power[0] / power[1] * ran_s / 100.0)


def test_an_end_between_recorded_rounds_ends_a_round_on_their_grid() -> None:
    jobs = [region.submitted(f"j{n}", nodes=4, app_id=APPS[2]) for n in range(5)]
    inputs, _ = recorded(jobs, {f"j{n}": 1000.0 for n in range(5)})
    assert inputs.grid_us == 30 * S
    course = what_if(inputs, Policy.MIN_ENERGY)
    assert len(course.finished) == 5
    assert all((d.decided_at_us - T0_US) % (30 * S) == 0 for d in course.decisions)


def test_a_job_without_an_end_keeps_its_limit_and_is_counted() -> None:
    jobs = [region.submitted("endless", nodes=4), region.submitted("short")]
    inputs, decisions = recorded(jobs, {"short": 50.0})
    course = what_if(inputs)
    found = {job.job_id: job for job in course.finished}
    assert found["endless"].outcome == JOB_OUTCOME_TIMED_OUT
    limit_s = starts(decisions)["endless"].walltime_s
    ran_us = found["endless"].ended_at_us - found["endless"].started_at_us
    assert ran_us == pytest.approx(limit_s * 1e6, abs=1)
    truth = Truth.from_record(inputs, decisions, Setting())
    assert truth.complete == {"short"}


def test_a_cancelled_job_ends_when_its_user_cancelled_it_wherever_it_is() -> None:
    jobs = [region.submitted("j"), region.cancelled("j", T0_US + 200 * S)]
    inputs, _ = recorded(jobs, {"j": 1e5})
    course = what_if(inputs)
    (finished,) = course.finished
    assert finished.outcome == JOB_OUTCOME_CANCELLED
    assert finished.ended_at_us == T0_US + 210 * S


def test_a_job_that_was_held_waits_in_the_what_if_too() -> None:
    jobs = [
        region.submitted("j"),
        region.held("j", T0_US + S),
        region.released("j", T0_US + 300 * S),
    ]
    inputs, _ = recorded(jobs, {"j": 100.0})
    (start,) = starts(what_if(inputs, Policy.BASE).decisions).values()
    assert start.decided_at_us == T0_US + 300 * S


def test_a_cap_in_place_of_the_recorded_one_lets_fewer_run_at_once() -> None:
    jobs = [region.submitted(f"j{n}") for n in range(8)]
    inputs, _ = recorded(jobs, {f"j{n}": 100.0 for n in range(8)})
    idle_w = 2 * 4 * 100.0
    cap = NewCap(Covered(Scope.REGION), idle_w + 700.0)
    course = what_if(inputs, caps=CapChanges(instead=(cap,)))
    first = min(d.decided_at_us for d in starts(course.decisions).values())
    at_once = [d for d in starts(course.decisions).values() if d.decided_at_us == first]
    assert 0 < len(at_once) < 8
    assert len(course.finished) == 8
    assert [step.watts for step in course.caps[0].steps] == [idle_w + 700.0]


def test_without_caps_what_waited_for_power_starts_at_once() -> None:
    jobs = [region.submitted("j"), region.submitted("later", T0_US + 3001 * S)]
    inputs, decisions = recorded([low_at_first(), *jobs], {"j": 100.0, "later": 100.0})
    assert starts(decisions)["j"].decided_at_us == T0_US + 3030 * S
    course = what_if(inputs, caps=CapChanges(dropped=True))
    assert starts(course.decisions)["j"].decided_at_us == T0_US + 30 * S
    assert not course.caps


def test_a_cap_that_falls_away_ends_a_round_while_a_job_waits() -> None:
    inputs, _ = recorded([low_at_first(), region.submitted("j")], {"j": 100.0}, rounds=101)
    (start,) = starts(what_if(RecordedInputs(inputs.rounds[:1])).decisions).values()
    assert start.decided_at_us == T0_US + 3000 * S


def test_resource_managers_that_killed_once_kill_at_the_limits_of_the_what_if() -> None:
    jobs = [region.submitted(f"j{n}", walltime_s=100.0) for n in range(2)]
    inputs, decisions = recorded(jobs, {"j0": 100.0, "j1": 99.0})
    truth = Truth.from_record(inputs, decisions, Setting())
    assert not truth.kills
    ends(inputs)["j0"].outcome = JOB_OUTCOME_TIMED_OUT
    course = what_if(inputs, Policy.MIN_ENERGY)
    outcomes = {job.job_id: job.outcome for job in course.finished}
    assert outcomes["j0"] == JOB_OUTCOME_TIMED_OUT
    assert outcomes["j1"] in (JOB_OUTCOME_COMPLETED, JOB_OUTCOME_TIMED_OUT)
    limits = {d.job_id: d.walltime_s for d in starts(course.decisions).values()}
    for job in course.finished:
        assert job.ended_at_us - job.started_at_us <= limits[job.job_id] * 1e6 + 1


def test_the_region_rejects_what_it_rejected_when_it_was_recorded() -> None:
    inputs, recorded_decisions = recorded([region.submitted("j", nodes=5)], {})
    decisions, at_the_end = replay(inputs, Setting(), lambda _done: None)
    assert decisions == recorded_decisions
    assert [decided.verdict for decided in decisions] == [VERDICT_REJECTED]
    assert at_the_end.refused == []
    for course in (what_if(inputs), as_recorded(inputs, decisions)):
        assert (course.rejected, course.unfinished) == (1, 0)
    assert inf > inputs.grid_us > 0


def test_a_suspended_job_does_nothing_of_its_work_and_its_limit_waits() -> None:
    stop = [region.suspended(job_id, T0_US + 60 * S) for job_id in ("known", "endless")]
    resume = [region.unsuspended(job_id, T0_US + 360 * S) for job_id in ("known", "endless")]
    jobs = [region.submitted("known"), region.submitted("endless")]
    inputs, decisions = recorded([*jobs, *stop, *resume], {"known": 1000.0})
    course = what_if(inputs)
    ran_s = {job.job_id: (job.ended_at_us - job.started_at_us) / 1e6 for job in course.finished}
    limit_s = starts(decisions)["endless"].walltime_s
    assert ran_s == {"known": 1300.0, "endless": pytest.approx(limit_s + 300.0, abs=1e-6)}
    (known,) = [job for job in course.finished if job.job_id == "known"]
    stretches = [(each.began_at_us - T0_US) // S for each in known.intervals]
    assert stretches == [30, 60, 360]
    assert [bool(each.freq_ghz) for each in known.intervals] == [True, False, True]


def test_the_limit_of_a_job_that_is_clocked_down_is_the_longer_one() -> None:
    cap = region.capped(POWER_SCOPE_REGION, "", (0, 1000.0), time_us=T0_US + 90 * S)
    inputs, _ = recorded([region.submitted("endless"), cap], {})
    course = what_if(inputs)
    (action,) = [d.action for d in course.decisions if d.verdict == VERDICT_ACTION]
    limit_s = starts(course.decisions)["endless"].walltime_s
    assert action.walltime_s > limit_s
    (end,) = course.finished
    assert end.outcome == JOB_OUTCOME_TIMED_OUT
    left_s = (limit_s - 60.0) * action.walltime_s / limit_s
    assert (end.ended_at_us - end.started_at_us) / 1e6 == pytest.approx(60.0 + left_s, abs=1e-6)


def test_a_job_that_was_acted_on_and_is_cancelled_while_it_waits_leaves_the_queue() -> None:
    inputs, _ = recorded([region.submitted("j")], {"j": 500.0})
    end = ends(inputs)["j"]
    end.outcome = JOB_OUTCOME_CANCELLED
    end.intervals.add(began_at_us=end.started_at_us, freq_ghz=end.freq_ghz, energy_j=1.0)
    end.intervals.add(began_at_us=end.started_at_us + S, freq_ghz=0.0, energy_j=1.0)
    steps = low_at_first().payload.steps  # type: ignore[attr-defined]
    cap = NewCap(Covered(Scope.REGION), CapSchedule("low", steps))
    course = what_if(inputs, caps=CapChanges(instead=(cap,)))
    assert starts(course.decisions) == {}
    (left,) = course.finished
    assert (left.ended_at_us, list(left.intervals)) == (end.ended_at_us, [])
    assert course.unfinished == 0


def test_a_planner_lets_small_jobs_start_before_a_wide_one_that_came_first() -> None:
    jobs = [
        *(region.submitted(f"holder-{n}", T0_US + n, nodes=4, walltime_s=7200.0) for n in range(2)),
        region.submitted("long", T0_US + 10, nodes=4, walltime_s=200_000.0),
        *(
            region.submitted(f"short-{n}", T0_US + 11 + n, nodes=2, walltime_s=600.0)
            for n in range(4)
        ),
    ]
    inputs, _ = recorded(jobs, {**dict.fromkeys(["holder-0", "holder-1"], 300.0), "long": 9000.0})
    search = search_of(PlannerSettings(), Searches())
    stage = stage_of(search, PolicySettings(), 7.0, puts_barriers=False)
    planner = RecordFollower(stage, inputs.rounds[0].round.ended_at_us)
    planned, usual = (starts(what_if(inputs, planner=by).decisions) for by in (planner, None))
    assert planned.keys() == usual.keys()
    shorts = [f"short-{n}" for n in range(4)]
    usual_us = [usual[short].decided_at_us for short in shorts]
    assert min(usual_us) <= usual["long"].decided_at_us < max(usual_us)
    for short in shorts:
        assert planned[short].decided_at_us < planned["long"].decided_at_us
        assert planned[short].HasField("plan_round")
