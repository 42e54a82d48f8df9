"""Arrays of tasks: one entry of the queue, and a job of each task once it is decided."""

from time import process_time

import pytest
from coplace.v1.accounts_pb2 import STANDING_FUNDED, STANDING_REFUSED, AccountStanding
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER, POWER_SCOPE_CLUSTER
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER as AFTER
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_ANY as AFTER_ANY
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_CORR as AFTER_CORR
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_NOT_OK as AFTER_NOT_OK
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_OK as AFTER_OK
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_SINGLETON as SINGLETON
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_FAILED, Dependency
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_POWER_BUDGET, PlacementDecided
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_CANCELLED,
    JOB_STANDING_FINISHED,
    JOB_STANDING_REJECTED,
    JOB_STANDING_RESERVED,
    JOB_STANDING_RUNNING,
    ArrayStanding,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.explain.start_estimates import StartEstimates
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    after,
    answered,
    cancelled,
    capped,
    declared,
    declined,
    end_us,
    event,
    feed,
    finished,
    held,
    limits,
    placement,
    power,
    prioritized,
    released,
    requeued,
    round_of,
    started,
    starts,
    submitted,
    verdict,
    verdicts,
)


def full() -> list[Event]:
    """Two jobs that take all nodes."""
    return [submitted("x", nodes=4), submitted("y", nodes=4)]


def emptied(number: int) -> list[Event]:
    """They end in a round."""
    return [finished("x", end_us(number - 1)), finished("y", end_us(number - 1))]


def standing(processor: Placement, job_id: str) -> ArrayStanding:
    """How far the tasks of an array are."""
    return answered(processor, job_id).array


def test_the_tasks_of_an_array_start_in_the_order_of_their_indices() -> None:
    processor = placement()
    decided = round_of(processor, 0, submitted("a", array="0-99", nodes=2))
    assert starts(decided) == ["a_0", "a_1", "a_2", "a_3"]
    assert [(each.array_job_id, each.array_index) for each in decided[:4]] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("a", 3),
    ]


def test_indices_go_by_ranges_and_steps() -> None:
    processor = placement()
    decided = round_of(processor, 0, submitted("a", array="1,3,5-9:2,20", nodes=1))
    assert starts(decided) == ["a_1", "a_3", "a_5", "a_7", "a_9", "a_20"]


def test_an_array_has_its_place_in_the_queue() -> None:
    processor = placement()
    early = submitted("a", T0_US, array="0-5", nodes=2)
    late = submitted("b", T0_US + 1, nodes=2)
    first = round_of(processor, 0, early, late)
    assert starts(first) == ["a_0", "a_1", "a_2", "a_3"]
    ended = finished("a_0", end_us(0)), finished("a_1", end_us(0)), finished("a_2", end_us(0))
    assert starts(round_of(processor, 1, *ended)) == ["a_4", "a_5", "b"]


def test_at_most_so_many_tasks_have_nodes_at_once() -> None:
    processor = placement()
    first = round_of(processor, 0, submitted("a", array="0-9", array_at_most=3))
    assert starts(first) == ["a_0", "a_1", "a_2"]
    waits = answered(processor, "a")
    assert waits.reason == "3 tasks of a may have nodes at once and 3 have"
    assert round_of(processor, 1) == []
    assert starts(round_of(processor, 2, finished("a_1", end_us(1)))) == ["a_3"]


def test_a_declined_task_counts_no_more_and_goes_before_those_that_are_left() -> None:
    processor = placement()
    first = round_of(processor, 0, submitted("a", array="0-9", array_at_most=2))
    second = round_of(processor, 1, declined(first[0], end_us(0)))
    assert starts(second) == ["a_0"]
    assert second[0].grant == 2


def test_the_standing_of_an_array_counts_its_starts() -> None:
    processor = placement()
    first = round_of(processor, 0, submitted("a", array="0-9", nodes=2))
    ended = finished("a_0", end_us(0)), finished("a_1", end_us(0), outcome=JOB_OUTCOME_FAILED)
    round_of(processor, 1, *map(started, first[:4]), *ended)
    assert standing(processor, "a") == ArrayStanding(
        job_id="a", tasks=10, waiting=4, running=4, completed=1, failed=1, next_index=6
    )
    assert answered(processor, "a").standing == JOB_STANDING_RESERVED


def test_a_task_that_is_left_waits_as_its_array_does() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-9", nodes=4))
    task, array = answered(processor, "a_7"), answered(processor, "a")
    assert (task.job_id, task.standing, task.reason) == ("a_7", array.standing, array.reason)
    assert task.array.next_index == 0
    assert processor.queries.answer("a_10") is None
    assert processor.queries.owned("a_7").user == "ada"


def test_a_cancelled_task_never_starts_and_the_others_do() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3"))
    decided = round_of(processor, 1, cancelled("a_1", end_us(0)))
    assert verdicts(decided) == [("a_1", "cancelled")]
    assert starts(round_of(processor, 2, *emptied(2))) == ["a_0", "a_2", "a_3"]


def test_a_cancelled_array_ends_with_its_starts() -> None:
    processor = placement()
    first = round_of(processor, 0, submitted("a", array="0-9", nodes=4))
    round_of(processor, 1, *map(started, first[:2]))
    decided = round_of(processor, 2, cancelled("a", end_us(1), "enough"))
    assert sorted(verdicts(decided)) == [
        ("a", "cancelled"),
        ("a_0", "cancelled"),
        ("a_1", "cancelled"),
    ]
    assert answered(processor, "a").standing == JOB_STANDING_RUNNING
    ends = [finished(f"a_{n}", end_us(2), outcome=JOB_OUTCOME_CANCELLED) for n in range(2)]
    assert starts(round_of(processor, 3, *ends)) == []
    assert standing(processor, "a").failed == 10


def test_an_array_that_is_cancelled_before_any_task_starts_is_cancelled() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3"))
    round_of(processor, 1, cancelled("a", end_us(0)))
    assert answered(processor, "a").standing == JOB_STANDING_CANCELLED
    assert starts(round_of(processor, 2, *emptied(2))) == []


@pytest.mark.parametrize("last", ["in an earlier round", "in the same round"])
def test_the_cancellation_of_an_array_is_published_although_no_task_is_alive(last: str) -> None:
    processor = placement()
    first = round_of(processor, 0, submitted("a", array="0-9", nodes=4))
    others = [submitted(name, end_us(0), nodes=4, priority=9) for name in ("x", "y")]
    round_of(processor, 1, *map(started, first[:2]), *others)
    ends = [finished(f"a_{n}", end_us(1)) for n in range(2)]
    asked = cancelled("a", end_us(1) + 1)
    if last == "in the same round":
        decided = round_of(processor, 2, asked, *ends)
    else:
        round_of(processor, 2, *ends)
        decided = round_of(processor, 3, asked)
    assert ("a", "cancelled") in verdicts(decided)
    assert answered(processor, "a").standing == JOB_STANDING_CANCELLED
    assert standing(processor, "a").completed == 2


def test_what_an_array_at_its_limit_has_reserved_is_given_back_in_the_same_round() -> None:
    processor = placement(6)
    limit = limits(LIMIT_SUBJECT_USER, "ada", most_nodes=5)
    ahead = submitted("y", nodes=2, clusters=["p1"], user="bob", walltime_s=600.0)
    round_of(processor, 0, limit, ahead)
    array = submitted("a", end_us(0), array="0-3", nodes=3, clusters=["p1"])
    late = submitted("b", end_us(0) + 1, nodes=1, clusters=["p1"], user="bob", walltime_s=86_400.0)
    assert starts(round_of(processor, 1, array, late)) == ["a_0", "b"]


def test_a_singleton_waits_for_tasks_of_its_name_that_run_though_the_array_has_more() -> None:
    processor = placement()
    first = round_of(processor, 0, submitted("a", array="0-9", sequence="5", nodes=4, job_name="n"))
    round_of(processor, 1, *map(started, first[:2]))
    alone = [Dependency(condition=SINGLETON)]
    early = submitted("s", end_us(0), job_name="n", sequence="1", nodes=1, depends_on=alone)
    round_of(processor, 2, early)
    assert "a_0: it goes first" in answered(processor, "s").reason


def test_a_start_that_crosses_the_cancellation_of_its_array_has_its_nodes() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3", nodes=2))
    round_of(processor, 1, finished("x", end_us(0)), cancelled("a", end_us(0)))
    own = PlacementDecided(job_id="a_2", attempt=1, cluster="p1", node_indices=[0, 1])
    crossing = started(own, started_at_us=end_us(0) - 1)
    late = submitted("z", end_us(1), nodes=4, clusters=["p1"])
    decided = round_of(processor, 2, crossing, late)
    assert verdicts(decided) == [("a_2", "cancelled"), ("z", "queued")]
    assert standing(processor, "a").running == 1
    ended = finished("a_2", end_us(2), outcome=JOB_OUTCOME_CANCELLED)
    assert starts(round_of(processor, 3, ended)) == ["z"]
    assert standing(processor, "a").failed == 4


def test_a_start_that_crosses_the_rejection_of_its_array_has_its_nodes() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", array="0-3", nodes=9))
    own = PlacementDecided(job_id="a_2", attempt=1, cluster="p1", node_indices=[0, 1])
    late = submitted("z", end_us(0), nodes=4, clusters=["p1"])
    round_of(processor, 1, started(own), late)
    assert answered(processor, "a_2").standing == JOB_STANDING_RUNNING
    assert answered(processor, "z").standing == JOB_STANDING_RESERVED


def test_ends_of_tasks_that_were_cancelled_with_their_array_leave_it_cancelled() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3"))
    round_of(processor, 1, cancelled("a", end_us(0)))
    ends = [finished(f"a_{n}", end_us(1), outcome=JOB_OUTCOME_CANCELLED) for n in range(4)]
    assert round_of(processor, 2, *ends) == []
    assert answered(processor, "a").standing == JOB_STANDING_CANCELLED
    assert standing(processor, "a").failed == 4


def test_an_array_that_left_the_queue_of_its_resource_manager_starts_no_more() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3"))
    round_of(processor, 1, finished("a", end_us(0), outcome=JOB_OUTCOME_CANCELLED))
    assert starts(round_of(processor, 2, *emptied(2))) == []


def test_a_task_that_waits_by_itself_ends_too_when_its_array_left_the_queue() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3"))
    left = finished("a", end_us(0) + 1, outcome=JOB_OUTCOME_CANCELLED)
    round_of(processor, 1, prioritized("a_1", 5, end_us(0)), left)
    assert answered(processor, "a_1").standing == JOB_STANDING_CANCELLED
    assert starts(round_of(processor, 2, *emptied(2))) == []


def test_a_task_that_is_declined_after_its_array_left_the_queue_ends() -> None:
    processor = placement()
    first, second, *_ = round_of(processor, 0, submitted("a", array="0-9", nodes=4))
    left = finished("a", end_us(0), outcome=JOB_OUTCOME_CANCELLED)
    round_of(processor, 1, started(first), left, declined(second, end_us(0) + 1))
    assert answered(processor, "a_0").standing == JOB_STANDING_RUNNING
    assert answered(processor, "a_1").standing == JOB_STANDING_CANCELLED
    assert starts(round_of(processor, 2)) == []


def test_a_held_array_starts_nothing_until_it_or_a_task_is_released() -> None:
    processor = placement()
    array = submitted("a", array="0-3", held_because="checked first")
    assert verdicts(round_of(processor, 0, array)) == [("a", "held")]
    assert starts(round_of(processor, 1, released("a_2", end_us(0)))) == ["a_2"]
    assert starts(round_of(processor, 2, released("a", end_us(1)))) == ["a_0", "a_1", "a_3"]


def test_a_held_task_is_left_out_until_it_is_released() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3"))
    round_of(processor, 1, held("a_0", end_us(0), "look first"))
    assert starts(round_of(processor, 2, *emptied(2))) == ["a_1", "a_2", "a_3"]
    assert starts(round_of(processor, 3, released("a_0", end_us(2)))) == ["a_0"]


def test_the_priority_of_an_array_and_of_a_task_moves_them() -> None:
    processor = placement()
    others = [submitted(f"b{n}", T0_US + 1, nodes=4) for n in range(2)]
    round_of(processor, 0, *full(), *others, submitted("a", T0_US + 2, array="0-3", nodes=4))
    early = prioritized("a_3", 20, end_us(0)), prioritized("a_2", 5, end_us(0) + 2)
    round_of(processor, 1, *early, prioritized("a", 10, end_us(0) + 1))
    # What is newer on the array is on its tasks too.
    assert starts(round_of(processor, 2, *emptied(2))) == ["a_0", "a_1"]
    round_of(processor, 3, prioritized("a_3", -1, end_us(2)))
    ends = finished("a_0", end_us(3)), finished("a_1", end_us(3))
    assert starts(round_of(processor, 4, *ends)) == ["a_2", "b0"]


def test_a_requeued_task_waits_as_its_next_attempt_behind_the_others() -> None:
    processor = placement()
    first = round_of(processor, 0, submitted("a", array="0-9", nodes=4))
    round_of(processor, 1, *map(started, first[:2]))
    decided = round_of(processor, 2, requeued("a_0", end_us(1)))
    assert starts(decided) == ["a_2"]
    assert standing(processor, "a").waiting == 8
    assert answered(processor, "a_0").attempt == 2


def test_limits_hold_for_each_task() -> None:
    processor = placement()
    limit = limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=2)
    first = round_of(processor, 0, limit, submitted("a", array="0-9"))
    assert starts(first) == ["a_0", "a_1"]
    other = submitted("b", end_us(0), user="bob")
    assert starts(round_of(processor, 1, other)) == ["b"]
    assert starts(round_of(processor, 2, finished("a_0", end_us(1)))) == ["a_2"]


def test_a_cap_of_power_holds_for_each_task() -> None:
    """p1 has four nodes that idle at 100 W; a first run of one node draws 233 W beyond that."""
    processor = Placement({}, PolicySettings(), 7.0)
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, 400.0 + 2 * 233))
    feed(processor, [declared("p1", 4), power(), cap])
    decided = round_of(processor, 0, submitted("a", array="0-9"))
    assert starts(decided) == ["a_0", "a_1"]
    [waits] = [each for each in decided if each.job_id == "a"]
    assert waits.constraints[0].kind == CONSTRAINT_KIND_POWER_BUDGET
    assert starts(round_of(processor, 1, finished("a_0", end_us(0)))) == ["a_2"]


def test_no_task_starts_on_an_account_that_has_used_up_what_it_was_allocated() -> None:
    empty = AccountStanding(
        account="physics", number=1, standing=STANDING_REFUSED, allocated_su="40"
    )
    processor = placement()
    feed(processor, [event("pricing/physics/1", empty, T0_US)])
    [waits] = round_of(processor, 0, submitted("a", array="0-9"))
    assert (verdict(waits), waits.job_id) == ("queued", "a")
    assert waits.reason == "account physics has used up its 40 SU"
    funded = AccountStanding(account="physics", number=2, standing=STANDING_FUNDED)
    told = event("pricing/physics/2", funded, end_us(0))
    assert len(starts(round_of(processor, 1, told))) > 1


def expected_s(processor: Placement, job_id: str) -> tuple[int, float]:
    """How many jobs and tasks go before one, and in how many seconds it is expected to start."""
    snapshot, arrival = processor.queries.snapshot(), processor.queries.arrival(job_id)
    assert arrival is not None
    found = StartEstimates(snapshot, 1000).of(arrival)
    assert found is not None
    assert found.expected is not None
    return found.jobs_before, found.expected.start_s - snapshot.now_s


@pytest.mark.parametrize("limits_it", ["own", "user's", "none"])
def test_a_job_behind_an_array_is_expected_when_all_its_tasks_have_started(limits_it: str) -> None:
    processor = placement()
    most = 2 if limits_it == "own" else 0
    limit = (
        [limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=2)] if limits_it == "user's" else []
    )
    array = submitted("a", T0_US + 1, nodes=4, array="0-9", array_at_most=most)
    assert starts(round_of(processor, 0, *limit, array)) == ["a_0", "a_1"]
    round_of(processor, 1, submitted("b", end_us(0), nodes=4, user="bob"))
    before, wait_s = expected_s(processor, "b")
    assert (before, round(wait_s / 3600, 1)) == (8, 5.0)


def test_a_task_that_is_left_is_expected_in_its_turn() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", array="0-9", nodes=1, array_at_most=2))
    waits = [expected_s(processor, f"a_{n}") for n in (2, 3, 4, 9)]
    assert [(before, round(wait_s / 3600, 1)) for before, wait_s in waits] == [
        (0, 1.0),
        (1, 1.0),
        (2, 2.0),
        (7, 4.0),
    ]


def test_a_forecast_of_an_array_changes_no_decision() -> None:
    twins = Twins(placement)
    twins.round_of(0, submitted("a", array="0-9", nodes=3, array_at_most=1))
    assert expected_s(twins.lived, "a_9")[1] > 0
    assert starts(twins.round_of(1, finished("a_0", end_us(0)))) == ["a_1"]


def test_what_is_reserved_is_for_the_next_task() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3", nodes=3))
    assert answered(processor, "a").reservation.nodes == 3
    round_of(processor, 1, submitted("b", end_us(0), nodes=2))
    assert starts(round_of(processor, 2, finished("x", end_us(1)))) == ["a_0"]
    assert answered(processor, "a").reservation.nodes == 3
    assert not answered(processor, "b").HasField("reservation")


def test_a_job_after_an_array_waits_for_all_its_starts() -> None:
    processor = placement()
    later = submitted("b", T0_US + 1, depends_on=after(AFTER_OK, "a"))
    first = round_of(processor, 0, submitted("a", array="0-1", nodes=4), later)
    assert starts(first) == ["a_0", "a_1"]
    assert starts(round_of(processor, 1, finished("a_0", end_us(0)))) == []
    assert starts(round_of(processor, 2, finished("a_1", end_us(1)))) == ["b"]
    assert answered(processor, "a").standing == JOB_STANDING_FINISHED


def test_a_singleton_waits_for_tasks_of_its_name_that_run_and_tasks_for_none_of_their_array() -> (
    None
):
    processor = placement()
    singleton = [Dependency(condition=SINGLETON)]
    early = submitted("s", T0_US, job_name="n", depends_on=[*singleton, *after(AFTER_OK, "x")])
    array = submitted("a", T0_US + 1, job_name="n", array="0-9", depends_on=singleton, nodes=4)
    round_of(processor, 0, submitted("x", nodes=4), submitted("y", nodes=4), early, array)
    assert "s: it goes first" in answered(processor, "a").reason
    round_of(processor, 1, held("s", end_us(0)), cancelled("s", end_us(0) + 1))
    assert starts(round_of(processor, 2, *emptied(2))) == ["a_0", "a_1"]
    late = submitted("t", end_us(2), job_name="n", depends_on=singleton, nodes=1)
    round_of(processor, 3, late, cancelled("a", end_us(2)))
    assert "it goes first" in answered(processor, "t").reason
    ends = [finished(f"a_{n}", end_us(3), outcome=JOB_OUTCOME_CANCELLED) for n in range(2)]
    assert starts(round_of(processor, 4, *ends)) == ["t"]


def test_a_singletons_task_that_is_requeued_waits_for_a_job_of_its_name_that_started_since() -> (
    None
):
    processor = placement()
    singleton = [Dependency(condition=SINGLETON)]
    array = submitted("a", job_name="n", array="0-1", depends_on=singleton, nodes=1)
    assert starts(round_of(processor, 0, array)) == ["a_0", "a_1"]
    other = submitted("s", end_us(0), job_name="n", nodes=1)
    ends = [finished("a_1", end_us(0)), requeued("a_0", end_us(0)), held("a_0", end_us(0))]
    assert starts(round_of(processor, 1, other, *ends)) == ["s"]
    round_of(processor, 2, released("a_0", end_us(1)))
    assert "s: it goes first" in answered(processor, "a_0").reason
    assert starts(round_of(processor, 3, finished("s", end_us(2)))) == ["a_0"]


def test_requeued_tasks_of_a_singleton_wait_for_none_of_their_array() -> None:
    processor = placement()
    singleton = [Dependency(condition=SINGLETON)]
    array = submitted("a", job_name="n", array="0-3", depends_on=singleton, nodes=4)
    assert starts(round_of(processor, 0, array)) == ["a_0", "a_1"]
    assert starts(round_of(processor, 1, requeued("a_0", end_us(0)))) == ["a_2"]
    ends = [finished("a_1", end_us(1)), finished("a_2", end_us(1))]
    assert starts(round_of(processor, 2, *ends)) == ["a_3", "a_0"]


def test_all_tasks_start_where_one_condition_is_enough_and_their_name_is_free() -> None:
    processor = placement()
    other = submitted("o", array="0-1", nodes=4, reservation="none")
    either = [Dependency(condition=SINGLETON), *after(AFTER_CORR, "o")]
    array = submitted(
        "a", job_name="n", array="0-1", depends_on=either, depends_on_any=True, nodes=4
    )
    assert starts(round_of(processor, 0, other, array)) == ["a_0", "a_1"]


def test_a_task_that_is_requeued_after_its_array_was_cancelled_is_cancelled() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", array="0-9", nodes=4))
    round_of(processor, 1, finished("a_0", end_us(0), outcome=JOB_OUTCOME_FAILED))
    round_of(processor, 2, cancelled("a", end_us(1)))
    decided = round_of(processor, 3, requeued("a_0", end_us(2)))
    assert ("a_0", "cancelled") in verdicts(decided)


def test_a_task_that_is_requeued_after_its_array_was_held_is_held_until_it_is_released() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", array="0-1", nodes=4))
    failed = finished("a_0", end_us(0), outcome=JOB_OUTCOME_FAILED)
    round_of(processor, 1, failed, held("a", end_us(0) + 1))
    assert verdicts(round_of(processor, 2, requeued("a_0", end_us(1)))) == [("a_0", "held")]
    assert starts(round_of(processor, 3, released("a", end_us(2)))) == ["a_0"]


def test_a_task_that_is_requeued_has_the_newest_priority_of_its_array() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", array="0-1", nodes=4))
    failed = finished("a_0", end_us(0), outcome=JOB_OUTCOME_FAILED)
    asked = prioritized("a", 10, end_us(0) + 1)
    round_of(processor, 1, failed, submitted("b", end_us(0), nodes=4), asked)
    others = submitted("c", end_us(1), nodes=4), requeued("a_0", end_us(1) + 1)
    round_of(processor, 2, *others)
    assert starts(round_of(processor, 3, finished("a_1", end_us(2)))) == ["a_0"]


def test_one_task_that_failed_makes_after_ok_hopeless_and_meets_after_not_ok() -> None:
    processor = placement()
    strict = submitted("b", T0_US + 1, depends_on=after(AFTER_OK, "a"))
    lax = submitted("c", T0_US + 2, depends_on=after(AFTER_NOT_OK, "a"))
    round_of(processor, 0, submitted("a", array="0-1", nodes=4), strict, lax)
    failed = finished("a_0", end_us(0), outcome=JOB_OUTCOME_FAILED)
    assert starts(round_of(processor, 1, failed)) == []
    decided = round_of(processor, 2, finished("a_1", end_us(1)))
    assert sorted(verdicts(decided)) == [("b", "held"), ("c", "start")]


def test_after_an_array_means_that_all_its_tasks_have_started() -> None:
    processor = placement()
    later = submitted("b", T0_US + 1, depends_on=after(AFTER, "a"), nodes=1)
    first = round_of(processor, 0, submitted("a", array="0-1", nodes=3), later)
    assert starts(round_of(processor, 1, started(first[0]))) == []
    assert starts(round_of(processor, 2, started(first[1]))) == ["b"]


def test_a_job_may_wait_for_one_task() -> None:
    processor = placement()
    later = submitted("b", T0_US + 1, depends_on=after(AFTER_OK, "a_2"))
    round_of(processor, 0, submitted("a", array="0-2", nodes=4), later)
    assert answered(processor, "b").reason == "after_ok a_2: it has not ended"
    assert starts(round_of(processor, 1, finished("a_0", end_us(0)))) == ["a_2"]
    assert starts(round_of(processor, 2, finished("a_2", end_us(1)))) == ["b"]


def test_a_job_that_waits_for_a_task_of_a_cancelled_array_is_hopeless() -> None:
    processor = placement()
    later = submitted("b", T0_US + 2, depends_on=after(AFTER_OK, "a_2"))
    array = submitted("a", T0_US + 1, array="0-2", nodes=4)
    round_of(processor, 0, *full(), array, later)
    decided = round_of(processor, 1, cancelled("a", end_us(0)))
    assert ("b", "held") in verdicts(decided)


@pytest.mark.parametrize("awaited", ["a", "a_2"])
def test_a_delay_after_a_task_of_a_cancelled_array_counts_from_its_cancellation(
    awaited: str,
) -> None:
    processor = placement()
    [dependency] = after(AFTER_ANY, awaited)
    dependency.delay_s = 100
    later = submitted("b", T0_US + 2, depends_on=[dependency])
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3"), later)
    round_of(processor, 1, cancelled("a", end_us(0)))
    assert starts(round_of(processor, 2, *emptied(2))) == []
    assert starts(round_of(processor, 4)) == []
    assert starts(round_of(processor, 5)) == ["b"]
    late = submitted("c", end_us(5), depends_on=[dependency])
    assert starts(round_of(processor, 6, late)) == ["c"]


def test_each_task_waits_for_the_task_of_the_same_index() -> None:
    processor = placement()
    second = submitted("b", T0_US + 1, array="0-3", depends_on=after(AFTER_CORR, "a"))
    first = round_of(processor, 0, submitted("a", array="0-3", nodes=2), second)
    assert starts(first) == ["a_0", "a_1", "a_2", "a_3"]
    assert starts(round_of(processor, 1, finished("a_2", end_us(0)))) == ["b_2"]
    failed = finished("a_0", end_us(1), outcome=JOB_OUTCOME_FAILED)
    assert starts(round_of(processor, 2, failed)) == []
    assert starts(round_of(processor, 3, finished("a_1", end_us(2)))) == ["b_1"]
    assert starts(round_of(processor, 4, finished("a_3", end_us(3)))) == ["b_3"]
    assert answered(processor, "b").reason == "after_corr a: it ended without completing"
    assert standing(processor, "b").waiting == 1


def test_a_task_may_start_though_the_one_of_its_index_is_requeued_after_it_completed() -> None:
    twins = Twins(placement)
    array = submitted("a", T0_US, array="0-3", nodes=2)
    later = submitted("b", T0_US + 1, array="0-3", nodes=4, depends_on=after(AFTER_CORR, "a"))
    twins.round_of(0, array, later)
    assert starts(twins.round_of(1, finished("a_0", end_us(0)))) == []
    twins.round_of(2, requeued("a_0", end_us(1)))
    twins.kill()
    ends = [finished(f"a_{n}", end_us(2)) for n in (1, 2, 3)]
    assert starts(twins.round_of(3, *ends)) == ["b_0", "b_1"]


def test_a_declined_task_may_start_though_the_one_of_its_index_was_requeued() -> None:
    processor = placement()
    array = submitted("a", T0_US, array="0-1", nodes=2)
    later = submitted("b", T0_US + 1, array="0-1", depends_on=after(AFTER_CORR, "a"))
    round_of(processor, 0, array, later)
    [decided] = round_of(processor, 1, finished("a_0", end_us(0)))
    assert starts([decided]) == ["b_0"]
    both = requeued("a_0", end_us(1)), declined(decided, end_us(1))
    assert "b_0" in starts(round_of(processor, 2, *both))


def test_an_array_says_what_it_waits_for_where_two_others_completed_other_tasks() -> None:
    processor = placement()
    both = [submitted(name, array="0-3", nodes=1) for name in ("a", "c")]
    later = submitted("b", T0_US + 1, array="0-3", depends_on=after(AFTER_CORR, "a", "c"))
    round_of(processor, 0, *both, later)
    ends = finished("a_1", end_us(0)), finished("c_2", end_us(0))
    assert starts(round_of(processor, 1, *ends)) == []
    assert answered(processor, "b").reason == "after_corr a: it has not ended"
    failed = finished("a_2", end_us(1), outcome=JOB_OUTCOME_FAILED)
    rest = [finished(f"a_{n}", end_us(1)) for n in (0, 3)]
    assert starts(round_of(processor, 2, failed, *rest)) == []
    assert answered(processor, "b").reason == "after_corr c: it has not ended"
    assert starts(round_of(processor, 3, finished("c_1", end_us(2)))) == ["b_1"]


def test_nothing_is_kept_of_what_an_array_waited_for_once_all_of_it_completed() -> None:
    processor = placement()
    later = submitted("b", T0_US + 1, array="0-9", nodes=4, depends_on=after(AFTER_CORR, "a"))
    round_of(processor, 0, submitted("a", array="0-1", nodes=4), later)
    round_of(processor, 1, finished("a_0", end_us(0)))
    progress = processor.layers.state.jobs.known("b").progress
    assert progress is not None
    assert list(progress.met) == ["a"]
    assert starts(round_of(processor, 2, finished("a_1", end_us(1)))) == ["b_1"]
    assert progress.met == {}


def test_arrays_of_other_indices_are_compared_index_by_index() -> None:
    processor = placement()
    second = submitted("b", T0_US + 1, array="2,4,9", depends_on=after(AFTER_CORR, "a"))
    round_of(processor, 0, submitted("a", array="0-8:4", nodes=2), second)
    assert starts(round_of(processor, 1, finished("a_4", end_us(0)))) == ["b_4"]
    ends = finished("a_0", end_us(1)), finished("a_8", end_us(1))
    assert starts(round_of(processor, 2, *ends)) == ["b_2", "b_9"]


def test_a_round_with_many_tasks_met_by_those_of_other_indices_is_short() -> None:
    processor = placement()
    awaited = submitted("a", T0_US + 1, array="0-99998:2")
    later = submitted("b", T0_US + 2, array="0-99998", depends_on=after(AFTER_CORR, "a"))
    round_of(processor, 0, *full(), awaited, later)
    array = processor.layers.state.jobs.known("a")
    assert array.progress is not None
    array.progress.left, array.progress.begun = ((49_999, 50_000),), ((0, 49_999),)
    array.progress.completed = ((0, 49_999),)
    before_s = process_time()
    round_of(processor, 1, held("a_99998", end_us(0)))
    assert process_time() - before_s < 3
    assert starts(round_of(processor, 2, *emptied(2))) == [f"b_{2 * n}" for n in range(8)]


@pytest.mark.parametrize("array", ["3-1", "1,1", "5,3", "a", "1-9:0", " ", "0-100000", "-1"])
def test_wrong_indices_are_refused(array: str) -> None:
    processor = placement()
    with pytest.raises(RejectedError):
        feed(processor, [submitted("a", array=array)])


def test_ids_of_tasks_are_taken() -> None:
    processor = placement()
    feed(processor, [submitted("a", array="0-3"), submitted("b_7")])
    with pytest.raises(RejectedError, match="is a task of 'a'"):
        feed(processor, [submitted("a_3")])
    with pytest.raises(RejectedError, match="has a task 'b_7'"):
        feed(processor, [submitted("b", array="0-9")])
    feed(processor, [submitted("a_4"), submitted("b", array="0-6")])
    with pytest.raises(AlreadyAppliedError):
        feed(processor, [submitted("a", array="0-3")])


def test_what_happens_to_a_task_is_not_said_of_its_array() -> None:
    processor = placement()
    [first, *_] = round_of(processor, 0, submitted("a", array="0-3"))
    with pytest.raises(RejectedError, match="is an array: name one of its tasks, such as 'a_0'"):
        feed(processor, [started(first, job_id="a")])


def test_a_resource_manager_may_start_a_task_by_itself() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-3"))
    own = PlacementDecided(job_id="a_2", attempt=1, cluster="p1", node_indices=[0])
    round_of(processor, 1, started(own, started_at_us=end_us(0)))
    assert answered(processor, "a_2").standing == JOB_STANDING_RUNNING
    assert standing(processor, "a").waiting == 3


def test_a_hundred_thousand_tasks_are_one_entry_and_few_bytes() -> None:
    processor = placement()
    round_of(processor, 0, *full())
    processor.changes()
    round_of(processor, 1, submitted("a", end_us(0), array="0-99999"))
    assert sum(len(value or b"") for value in processor.changes().values()) < 4_000
    assert len(processor.layers.decide.waiting_jobs.queues.queue("p1")) == 1
    assert processor.queries.waiting() == 100_000


def test_tasks_that_end_in_any_order_take_no_more_than_a_bit_each() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-99999"))
    array = processor.layers.state.jobs.known("a")
    assert array.progress is not None
    array.progress.left = tuple((n, n + 1) for n in range(0, 100_000, 2))
    array.progress.failed = tuple((n, n + 1) for n in range(1, 100_000, 2))
    processor.changes()
    decided = round_of(processor, 1, *emptied(1), prioritized("a", 1, end_us(0)))
    assert starts(decided) == [f"a_{2 * n}" for n in range(8)]
    assert max(len(value or b"") for value in processor.changes().values()) < 50_000


def test_more_runs_of_tasks_than_an_entry_names_start_in_one_round() -> None:
    processor = placement(100)
    both = [submitted(name, nodes=100) for name in ("x", "y")]
    round_of(processor, 0, *both, submitted("a", T0_US + 1, array="0-300"))
    holes = [cancelled(f"a_{n}", end_us(0) + n) for n in range(1, 300, 2)]
    round_of(processor, 1, *holes)
    decided = round_of(processor, 2, *emptied(2))
    assert starts(decided) == [f"a_{2 * n}" for n in range(151)]


def test_two_thousand_runs_of_tasks_wait_and_start() -> None:
    processor = placement()
    round_of(processor, 0, *full(), submitted("a", T0_US + 1, array="0-4000"))
    feed(processor, [cancelled(f"a_{n}", end_us(0) + n) for n in range(1, 4000, 2)])
    assert len(round_of(processor, 1)) == 2000
    assert starts(round_of(processor, 2, *emptied(2))) == [f"a_{2 * n}" for n in range(8)]


def test_a_placement_that_was_killed_decides_tasks_as_one_that_was_not() -> None:
    twins = Twins(placement)
    first = twins.round_of(
        0,
        submitted("a", array="0-30", nodes=1, array_at_most=5),
        submitted("b", T0_US + 1, array="0-30:3", depends_on=after(AFTER_CORR, "a")),
        submitted("c", T0_US + 2, depends_on=after(AFTER_OK, "a_4")),
    )
    twins.kill()
    decided, number = first, 1
    seen = list(starts(first))
    while decided or number < 6:
        ends = [finished(each.job_id, end_us(number - 1)) for each in decided if each.grant]
        decided = twins.round_of(number, *ends)
        twins.kill()
        seen += starts(decided)
        number += 1
    assert sorted(seen) == sorted(
        [*(f"a_{n}" for n in range(31)), *(f"b_{n}" for n in range(0, 31, 3)), "c"]
    )


def test_an_array_that_fits_nowhere_is_rejected_although_a_task_is_a_job_of_its_own() -> None:
    processor = placement()
    decided = round_of(processor, 0, submitted("a", array="0-3", nodes=9), held("a_1", T0_US + 5))
    assert sorted(verdicts(decided)) == [("a", "rejected"), ("a_1", "rejected")]
    assert answered(processor, "a").standing == JOB_STANDING_REJECTED
    assert round_of(processor, 1) == []


def test_an_array_that_fits_nowhere_is_rejected_as_one() -> None:
    processor = placement()
    later = submitted("b", T0_US + 1, depends_on=after(AFTER_OK, "a_2"))
    decided = round_of(processor, 0, submitted("a", array="0-3", nodes=9), later)
    assert ("a", "rejected") in verdicts(decided)
    assert standing(processor, "a").failed == 4
    assert ("b", "held") in verdicts(decided)
