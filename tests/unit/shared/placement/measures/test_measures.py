"""What is asked of jobs that run: where a cap falls below what they draw, when watts are released,
and by operators.

App 0 draws 280 W beyond idle on a node of p1 at 2.7 GHz and 253 W at 2.5 GHz; two of its four nodes
idle at 100 W each.
"""

from collections.abc import Sequence

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER, POWER_SCOPE_REGION
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_RESUME,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
    PlacementDecided,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cap_measures import Measure, measures_of
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.scheduling.capacity import AllocatedUnits
from shared.scheduling.forecast import StartsAhead
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    APPS,
    T0_US,
    Twins,
    answered,
    capped,
    committed_w,
    declared,
    done,
    end_us,
    feed,
    finished,
    lost,
    models,
    policy,
    refused,
    requeued,
    returned,
    round_of,
    saved,
    started,
    submitted,
    suspended,
    unsuspended,
    verdict,
)

NODES = 4
IDLE_W = NODES * 100.0
LOWER, SUSPEND, END = Measure.LOWER_FREQUENCY, Measure.SUSPEND, Measure.END


def rules(*measures: Measure, cap_slowdown: float = 1.0) -> PolicySettings:
    return PolicySettings(Policy.BASE, cap_measures=measures, cap_slowdown=cap_slowdown)


def region(*measures: Measure, cap_slowdown: float = 1.0) -> Placement:
    """Jobs run on p1 alone."""
    processor = Placement({}, rules(*measures, cap_slowdown=cap_slowdown), 7.0)
    feed(processor, models(NODES))
    feed(processor, [declared("p1", NODES, T0_US + 1, architecture="p1")])
    return processor


def job(name: str, seconds: int = 0, **changes: object) -> Event:
    at_us = T0_US + seconds * 1_000_000
    return submitted(name, at_us, architectures=["p1"], **changes)  # type: ignore[arg-type]


def running(processor: Placement, *jobs: Event) -> list[PlacementDecided]:
    """They start in rounds 0 to 2 n - 1, one after the other, and are confirmed."""
    starts = []
    for number, one in enumerate(jobs):
        [start] = round_of(processor, 2 * number, one)
        assert verdict(start) == "start"
        round_of(processor, 2 * number + 1, started(start))
        starts.append(start)
    return starts


def cap(watts: float | None, number: int) -> Event:
    """What p1 may draw beyond idle, declared in a round."""
    steps = (0, None if watts is None else IDLE_W + watts)
    return capped(POWER_SCOPE_CLUSTER, "p1", steps, time_us=end_us(number) - 5, reason="heat wave")


def actions(decided: Sequence[PlacementDecided]) -> list[tuple[str, int, float]]:
    """Job, kind and P-state of each."""
    found = [d for d in decided if verdict(d) == "action"]
    return [(d.job_id, d.action.kind, d.action.freq_ghz) for d in found]


def test_where_a_cap_falls_below_what_runs_the_last_one_of_the_least_priority_is_clocked_down() -> (
    None
):
    processor = region(LOWER)
    running(processor, job("a"), job("b", 1), job("urgent", 2, priority=10))
    [action] = round_of(processor, 6, cap(830.0, 6))
    assert (action.job_id, verdict(action)) == ("b", "action")
    assert (action.cluster, action.attempt, action.grant) == ("p1", 1, 1)
    assert (action.action.kind, action.action.number) == (ACTION_KIND_SET_PSTATE, 1)
    assert action.action.freq_ghz == 2.5
    assert action.action.walltime_s == pytest.approx(3600 * 2.7 / 2.5)
    assert action.reason == (
        "set P-state to 2.5 GHz: 1,240 W are committed under the power cap of cluster p1 (declared "
        "by test: heat wave), which allows 1,230 W"
    )
    [shortage] = action.action.power.shortages
    assert (shortage.needed_w, shortage.available_w) == (1240.0, 1230.0)
    assert (shortage.name, shortage.reason) == ("p1", "heat wave")


def test_until_it_is_confirmed_the_larger_draw_and_the_later_release_are_committed() -> None:
    def held(processor: Placement) -> AllocatedUnits:
        [found] = processor.layers.state.jobs.allocations.occupancy["p1"].held
        return found

    processor = region(LOWER)
    running(processor, job("a"))
    ends_s = held(processor).release_s
    [action] = round_of(processor, 2, cap(260.0, 2))
    assert committed_w(processor) == 280.0
    left_s = ends_s - end_us(2) / 1e6
    slower = 2.7 / 2.5 - 1
    assert held(processor).release_s == pytest.approx(ends_s + left_s * slower)
    assert actions(round_of(processor, 3)) == []  # each is asked once
    round_of(processor, 4, done(action, end_us(3)))
    assert committed_w(processor) == held(processor).draw_mw / 1000 < 254.0
    assert held(processor).release_s == pytest.approx(ends_s + (left_s - 30) * slower)


def test_what_no_p_state_can_give_is_suspended_in_the_same_order() -> None:
    """Once job b is suspended job a is slowed no more than need be."""
    processor = region(LOWER, SUSPEND)
    running(processor, job("a"), job("b", 1))
    found = {d.job_id: d for d in round_of(processor, 4, cap(100.0, 4))}
    assert found["b"].action.kind == ACTION_KIND_SUSPEND
    assert found["a"].action.kind == ACTION_KIND_SET_PSTATE
    assert found["a"].action.freq_ghz == 1.5
    answers = [done(d, end_us(4)) for d in found.values()]
    assert actions(round_of(processor, 5, *answers)) == []
    assert committed_w(processor) == pytest.approx(
        380 * (0.3 + 0.7 * (1.5 / 2.7) ** 2) - 100, abs=0.01
    )


@pytest.mark.parametrize(
    ("measure", "kind"), [(SUSPEND, ACTION_KIND_SUSPEND), (END, ACTION_KIND_END)]
)
def test_nobody_is_stopped_for_whom_there_is_enough_once_a_larger_one_is(
    measure: Measure, kind: int
) -> None:
    """Job b is the first to suffer, and 280 W are not enough: without job a, which draws 560 W, the
    cap has job b's."""
    processor = region(measure)
    running(processor, job("a", nodes=2), job("b", 1))
    assert actions(round_of(processor, 4, cap(500.0, 4))) == [("a", kind, 2.7)]


def test_who_is_not_stopped_after_all_is_slowed_as_it_would_have_been() -> None:
    """At the lowest P-state job a draws 133 W, more than the cap has, which job b's 280 W are too;
    at 1.5 GHz job b draws 96 W."""
    processor = region(LOWER, SUSPEND)
    running(processor, job("a", nodes=2), job("b", 1))
    asked = actions(round_of(processor, 4, cap(100.0, 4)))
    assert {("a", ACTION_KIND_SUSPEND, 2.7), ("b", ACTION_KIND_SET_PSTATE, 1.5)} == {*asked}


def test_without_measures_nothing_is_done_and_nothing_starts() -> None:
    processor = region()
    running(processor, job("a"))
    [queued] = round_of(processor, 2, cap(100.0, 2), job("b", 61))
    assert verdict(queued) == "queued"
    assert "W more than is allowed is drawn" in queued.reason


def test_what_is_refused_is_asked_of_another_one_and_of_it_after_ten_minutes() -> None:
    processor = region(SUSPEND)
    running(processor, job("a"), job("b", 1))
    [action] = round_of(processor, 4, cap(300.0, 4))
    assert action.job_id == "b"
    [other] = round_of(processor, 5, refused(action, end_us(4)))
    assert actions([other]) == [("a", ACTION_KIND_SUSPEND, 2.7)]
    assert actions(round_of(processor, 6, refused(other, end_us(5)))) == []
    wakes_us = processor.wake_us()
    assert wakes_us is not None
    assert wakes_us == end_us(4) + 600_000_000
    assert actions(round_of(processor, 25)) == [("b", ACTION_KIND_SUSPEND, 2.7)]


def test_how_soon_is_asked_again_what_was_refused_can_be_declared() -> None:
    processor = region(SUSPEND)
    running(processor, job("a"))
    [action] = round_of(processor, 2, cap(100.0, 2))
    sooner = policy(end_us(2), action_retry_s=60.0)
    assert actions(round_of(processor, 3, refused(action, end_us(2)), sooner)) == []
    assert processor.wake_us() == end_us(2) + 60_000_000
    assert actions(round_of(processor, 4)) == [("a", ACTION_KIND_SUSPEND, 2.7)]


def test_who_does_not_answer_in_time_keeps_the_cap_exceeded_no_longer() -> None:
    processor = region(SUSPEND)
    running(processor, job("a"), job("b", 1))
    [silent] = round_of(processor, 4, cap(300.0, 4))
    assert actions(round_of(processor, 5)) == []
    assert processor.wake_us() == end_us(4) + 60_000_000
    assert actions(round_of(processor, 7)) == [("a", ACTION_KIND_SUSPEND, 2.7)]
    assert committed_w(processor) == 560.0
    round_of(processor, 8, done(silent, end_us(7)))
    assert committed_w(processor) == 280.0


def test_a_job_that_is_suspended_keeps_its_nodes_and_no_limit_runs() -> None:
    processor = region(SUSPEND)
    [start] = running(processor, job("a", nodes=4))
    [action] = round_of(processor, 2, cap(100.0, 2))
    round_of(processor, 3, done(action, end_us(2)), job("b", 90))
    assert committed_w(processor) == 0.0
    answer = answered(processor, "b")
    assert answer.clusters[0].free_nodes == 0
    limit_us = round(start.walltime_s * 1e6)
    ran_us = end_us(2) - start.decided_at_us
    [resume] = round_of(processor, 103, cap(None, 103))
    assert actions([resume]) == [("a", ACTION_KIND_RESUME, 2.7)]
    round_of(processor, 104, done(resume, end_us(103)))
    told = answered(processor, "a")
    assert told.allocation.ends_by_us == pytest.approx(end_us(103) + limit_us - ran_us, abs=2)


def test_when_watts_come_back_the_first_to_suffer_is_the_last_to_recover() -> None:
    processor = region(SUSPEND)
    running(processor, job("a"), job("b", 1))
    asked = round_of(processor, 4, cap(100.0, 4))
    assert [one[0] for one in actions(asked)] == ["b", "a"]
    round_of(processor, 5, *[done(one, end_us(4)) for one in asked])
    [first] = round_of(processor, 6, cap(300.0, 6))
    assert actions([first]) == [("a", ACTION_KIND_RESUME, 2.7)]
    round_of(processor, 7, done(first, end_us(6)))
    assert actions(round_of(processor, 8, cap(560.0, 8))) == [("b", ACTION_KIND_RESUME, 2.7)]


def test_a_clock_is_raised_as_far_as_watts_are_there() -> None:
    processor = region(LOWER)
    running(processor, job("a"))
    [down] = round_of(processor, 2, cap(70.0, 2))
    assert down.action.freq_ghz == 1.2
    round_of(processor, 3, done(down, end_us(2)))
    [up] = round_of(processor, 4, cap(200.0, 4))
    assert 1.2 < up.action.freq_ghz < 2.7
    assert committed_w(processor) <= 200.0
    round_of(processor, 5, done(up, end_us(4)))
    assert actions(round_of(processor, 6, cap(None, 6))) == [("a", ACTION_KIND_SET_PSTATE, 2.7)]


def test_what_started_at_a_lower_p_state_is_clocked_up_too() -> None:
    processor = region(cap_slowdown=1.5)
    round_of(processor, 0, cap(253.0, 0))
    [start] = round_of(processor, 1, job("a", 40))
    assert start.freq_ghz == 2.5
    round_of(processor, 2, started(start))
    assert actions(round_of(processor, 3, cap(None, 3))) == [("a", ACTION_KIND_SET_PSTATE, 2.7)]


def test_no_reservation_that_stands_is_delayed_by_who_runs_on() -> None:
    """Job big was promised 840 W from the end of job a on before job b was suspended: when job a
    ends early, it starts, and job b runs on behind it."""
    processor = region(SUSPEND)
    feed(processor, [cap(5000.0, 0)])
    running(processor, job("a", nodes=3, walltime_s=600.0), job("b", 1, walltime_s=9000.0))
    [queued] = round_of(processor, 4, job("big", 121, nodes=3, walltime_s=900.0))
    assert queued.reservation.start_at_us == end_us(0) + 600_000_000
    [stop] = round_of(processor, 5, cap(900.0, 5))
    assert actions([stop]) == [("b", ACTION_KIND_SUSPEND, 2.7)]
    assert round_of(processor, 6, done(stop, end_us(5))) == []
    [start] = round_of(processor, 7, finished("a", end_us(6)))
    assert (start.job_id, verdict(start)) == ("big", "start")
    round_of(processor, 8, started(start))
    [resume] = round_of(processor, 9, finished("big", end_us(8)))
    assert actions([resume]) == [("b", ACTION_KIND_RESUME, 2.7)]


def test_a_cap_knows_the_reservations_that_stood_before_there_was_any() -> None:
    processor = region(SUSPEND)
    running(processor, job("a", nodes=3, walltime_s=600.0), job("b", 1, walltime_s=9000.0))
    [queued] = round_of(processor, 4, job("big", 121, nodes=3, walltime_s=900.0))
    assert queued.reservation.start_at_us == end_us(0) + 600_000_000
    [stop] = round_of(processor, 5, suspended("b", end_us(4)))
    round_of(processor, 6, done(stop, end_us(5)))
    both_want = finished("a", end_us(6)), unsuspended("b", end_us(6)), cap(900.0, 7)
    [start] = round_of(processor, 7, *both_want)
    assert (start.job_id, verdict(start)) == ("big", "start")


def test_nobody_takes_the_watts_that_a_suspended_job_waits_for() -> None:
    """Job b is suspended until job a ends; job c would last longer than that."""
    processor = region(SUSPEND)
    running(processor, job("a", walltime_s=1800.0), job("b", 1, nodes=2))
    [stop] = round_of(processor, 4, cap(700.0, 4))
    round_of(processor, 5, done(stop, end_us(4)))
    [queued] = round_of(processor, 6, job("c", 200, walltime_s=7200.0, app_id="?"))
    assert verdict(queued) == "queued"
    assert "beside the reservation of b" in queued.reason
    [resume] = round_of(processor, 7, finished("a", end_us(6)))
    assert actions([resume]) == [("b", ACTION_KIND_RESUME, 2.7)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_who_is_suspended_runs_on_before_the_job_that_waits_for_its_nodes(
    *, is_killed: bool
) -> None:
    """The cap rises 10 s before a round ends: then the reservation of the job that waits began 10 s
    too early for the other one, and each waited behind the other for ever."""
    processor = region(SUSPEND)
    running(processor, job("a", nodes=2))
    rises_s = 30 * 11 - 10
    steps = (0, IDLE_W + 500), (rises_s, IDLE_W + 900)
    [stop] = round_of(processor, 2, capped(POWER_SCOPE_CLUSTER, "p1", *steps, time_us=end_us(1)))
    [queued] = round_of(processor, 3, done(stop, end_us(2)), job("wide", 100, nodes=3))
    assert verdict(queued) == "queued"
    assert processor.wake_us() == end_us(10) - 10_000_000
    if is_killed:
        processor = Placement(saved(processor.changes()), rules(SUSPEND), 7.0)
    assert actions(round_of(processor, 10)) == [("a", ACTION_KIND_RESUME, 2.7)]


def test_who_waits_for_nodes_that_no_cap_ever_gives_back_keeps_nobody_from_anything() -> None:
    """Job a is suspended on three of four nodes, and the cap never has its 840 W. Job two needs two
    nodes; a reservation to it would keep job one from watts that nobody else may have."""
    processor = region(SUSPEND)
    running(processor, job("a", nodes=3))
    [stop] = round_of(processor, 2, cap(700.0, 2))
    round_of(processor, 3, done(stop, end_us(2)))
    [queued] = round_of(processor, 4, job("two", 100, nodes=2))
    assert not queued.HasField("reservation")
    assert queued.reason.endswith(
        "needs 2 nodes, 1 free; jobs that are suspended, and that no power cap lets run on, hold "
        "nodes that it needs"
    )
    [one] = round_of(processor, 5, job("one", 130, walltime_s=7200.0))
    assert (one.job_id, verdict(one)) == ("one", "start")
    round_of(processor, 6, started(one))
    assert actions(round_of(processor, 7, cap(None, 7))) == [("a", ACTION_KIND_RESUME, 2.7)]
    two = processor.layers.state.jobs.get("two")
    assert two is not None
    assert processor.queries._last.reservation(two) is not None  # type: ignore[union-attr]


def test_a_forecast_made_before_the_round_in_which_a_cap_was_lifted_ends() -> None:
    processor = region(SUSPEND)
    running(processor, job("a", nodes=3))
    [stop] = round_of(processor, 2, cap(700.0, 2))
    round_of(processor, 3, done(stop, end_us(2)), job("two", 70, nodes=2))
    feed(processor, [cap(None, 4)])
    snapshot = processor.queries.snapshot()
    assert [*StartsAhead(snapshot.now_s, snapshot.schedulers).starts()] == []


def test_an_operator_suspends_and_resumes_a_run() -> None:
    processor = region()
    running(processor, job("a"))
    [action] = round_of(processor, 2, suspended("a", end_us(2) - 9))
    assert actions([action]) == [("a", ACTION_KIND_SUSPEND, 2.7)]
    assert action.reason == "suspend: suspended by test: maintenance"
    assert not action.action.power.shortages
    assert round_of(processor, 3, done(action, end_us(2))) == []
    assert round_of(processor, 4) == []
    [resume] = round_of(processor, 5, unsuspended("a", end_us(5) - 9))
    assert actions([resume]) == [("a", ACTION_KIND_RESUME, 2.7)]


def test_who_is_suspended_for_long_is_not_expected_to_end_at_any_moment() -> None:
    """Job short is backfilled before what the suspended one has left of its limit, as ever."""
    processor = region()
    [start] = running(processor, job("a", nodes=3))
    [stop] = round_of(processor, 2, suspended("a", end_us(2) - 9))
    round_of(processor, 3, done(stop, end_us(2)), job("big", 100, nodes=4))
    later = round(start.walltime_s / 30) + 10
    [short] = round_of(processor, later, job("short", 30 * later, walltime_s=1800.0))
    assert verdict(short) == "start"
    big = processor.layers.state.jobs.get("big")
    assert big is not None
    reservation = processor.queries._last.reservation(big)  # type: ignore[union-attr]
    assert reservation is not None
    assert reservation.start_at_us >= end_us(later) + 3400 * 1_000_000


def test_caps_are_met_in_an_order_that_a_restart_keeps() -> None:
    """Job a is clocked down for the cap of its cluster, which is declared last."""
    twins = Twins(lambda: region(LOWER, SUSPEND))
    for processor in (twins.lived, twins.killed):
        running(processor, job("a"))
    region_cap = capped(POWER_SCOPE_REGION, "", (0, 2 * IDLE_W + 1.0), time_us=end_us(2) - 9)
    for one in (region_cap, cap(200.0, 2)):
        twins.kill()
        twins.tell(one)
    twins.kill()
    [(job_id, kind, _)] = actions(twins.round_of(2))
    assert (job_id, kind) == ("a", ACTION_KIND_SET_PSTATE)


def test_an_old_word_says_nothing_behind_a_newer_one_nor_of_the_next_attempt() -> None:
    processor = region()
    running(processor, job("a"), job("b", 1))
    feed(processor, [unsuspended("b", end_us(4) - 5)])
    word = suspended("a", end_us(4) - 9)
    round_of(processor, 4, word)
    [again] = round_of(processor, 5, requeued("a", end_us(4)))
    assert verdict(again) == "start"
    for late in (word, suspended("b", end_us(4) - 9)):
        with pytest.raises(AlreadyAppliedError):
            processor.handle(late)
    assert actions(round_of(processor, 6, started(again))) == []


def test_only_what_runs_can_be_suspended() -> None:
    processor = region()
    round_of(processor, 0, job("a", nodes=4))
    round_of(processor, 1, job("b", 40))
    with pytest.raises(RejectedError, match=r"job_id: has no run to suspend.*hold it"):
        processor.handle(suspended("b", end_us(1)))


def test_an_end_is_the_last_measure() -> None:
    processor = region(SUSPEND, END)
    running(processor, job("a"))
    [action] = round_of(processor, 2, cap(100.0, 2))
    [end] = round_of(processor, 3, refused(action, end_us(2)))
    assert actions([end]) == [("a", ACTION_KIND_END, 2.7)]
    assert committed_w(processor) == 280.0
    round_of(processor, 4, finished("a", end_us(3), grant=end.grant))
    assert committed_w(processor) == 0.0


def test_a_cluster_that_is_lost_is_asked_nothing() -> None:
    processor = region(SUSPEND)
    running(processor, job("a"))
    assert actions(round_of(processor, 2, lost("p1", end_us(1)), cap(100.0, 2))) == []
    assert actions(round_of(processor, 3, returned("p1", end_us(2)))) != []


def test_answers_that_say_nothing_new_and_such_as_nobody_asked_for_change_nothing() -> None:
    processor = region(SUSPEND)
    running(processor, job("a"))
    [action] = round_of(processor, 2, cap(100.0, 2))
    feed(processor, [done(action, end_us(2))])
    for again in (done(action, end_us(2) + 1), refused(action, end_us(2) + 1)):
        with pytest.raises(AlreadyAppliedError):
            processor.handle(again)
    action.action.number = 2
    with pytest.raises(RejectedError, match="number: 2 was never asked, the newest is 1"):
        processor.handle(done(action, end_us(2) + 1))


def test_an_action_that_was_overtaken_by_a_newer_one_is_not_waited_for() -> None:
    """A cap falls again while job a is asked to run on."""
    processor = region(SUSPEND)
    running(processor, job("a"))
    [stop] = round_of(processor, 2, cap(100.0, 2))
    round_of(processor, 3, done(stop, end_us(2)))
    [resume] = round_of(processor, 4, cap(None, 4))
    [again] = round_of(processor, 5, cap(90.0, 5))
    assert (again.action.kind, again.action.number) == (ACTION_KIND_SUSPEND, 3)
    assert committed_w(processor) == 280.0
    round_of(processor, 6, done(again, end_us(5)))
    assert committed_w(processor) == 0.0
    with pytest.raises(AlreadyAppliedError):
        processor.handle(done(resume, end_us(6)))


def test_who_refuses_to_stop_before_it_was_seen_to_run_on_is_asked_to_run_on_again() -> None:
    """A resource manager that finds two requests obeys the newer one, here by refusing it."""
    processor = region()
    running(processor, job("a"))
    [stop] = round_of(processor, 2, suspended("a", end_us(2) - 9))
    round_of(processor, 3, done(stop, end_us(2)))
    [overtaken] = round_of(processor, 4, unsuspended("a", end_us(4) - 9))
    [again] = round_of(processor, 5, suspended("a", end_us(5) - 9))
    round_of(processor, 6, refused(again, end_us(5)))
    [resume] = round_of(processor, 7, unsuspended("a", end_us(7) - 9))
    assert (resume.action.kind, resume.action.number) == (ACTION_KIND_RESUME, 4)
    assert actions(round_of(processor, 8, done(overtaken, end_us(7)))) == []
    assert actions(round_of(processor, 9, done(resume, end_us(8)))) == []


def test_a_cap_asks_again_of_whom_something_newer_was_refused() -> None:
    """Whether job a was clocked down is not known: it obeys, and refuses, the newer request."""
    processor = region(LOWER)
    running(processor, job("a"))
    [clocked] = round_of(processor, 2, cap(250.0, 2))
    assert clocked.action.kind == ACTION_KIND_SET_PSTATE
    [stop] = round_of(processor, 3, suspended("a", end_us(3) - 9))
    [lower] = round_of(processor, 4, refused(stop, end_us(3)), unsuspended("a", end_us(4) - 9))
    assert (lower.action.kind, lower.action.number) == (ACTION_KIND_SET_PSTATE, 3)
    round_of(processor, 5, done(lower, end_us(4)))
    assert committed_w(processor) <= 250.0


@pytest.mark.parametrize("text", ["lower_frequency", "suspend,suspend", "kill"])
def test_measures_are_named_as_they_are_called(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be some of lower-frequency, suspend, end, each"):
        measures_of(text)
    assert measures_of(" end, suspend,") == (END, SUSPEND)


def test_who_was_killed_in_between_asks_the_same() -> None:
    twins, inbox = Twins(lambda: region(LOWER, SUSPEND)), list[Event]()
    script: dict[int, list[Event]] = {
        0: [job("a")],
        1: [job("b", 31)],
        2: [job("c", 62, app_id=APPS[7])],
        4: [cap(200.0, 4)],
        8: [cap(500.0, 8), job("d", 250)],
        11: [cap(None, 11)],
    }
    for number in range(16):
        twins.kill()
        decided = twins.round_of(number, *script.get(number, []), *inbox)
        inbox = [done(d, end_us(number)) for d in decided if verdict(d) == "action"]
        inbox += [started(d) for d in decided if verdict(d) == "start"]


def test_a_start_that_tells_one_unit_a_node_is_the_one_that_was_decided() -> None:
    """Its P-state is known, so that it can be clocked down."""
    processor = region(LOWER)
    [start] = round_of(processor, 0, job("a", nodes=2, cores_per_unit=48))
    round_of(processor, 1, started(start, node_units=[1, 1]))
    [action] = round_of(processor, 2, cap(500.0, 2))
    assert action.action.kind == ACTION_KIND_SET_PSTATE
