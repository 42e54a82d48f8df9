"""A resource manager that said it was there and says so no more gets nothing new to start, and
keeps the jobs of its own queue."""

import pytest
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_SILENT_MANAGER

from coplace_client.errors import RejectedError
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement, repaired
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement.region import (
    T0_US,
    alive,
    declared,
    declined,
    end_us,
    feed,
    placement,
    returned,
    round_of,
    saved,
    started,
    submitted,
    undeclared,
    verdict,
    verdicts,
)

WORDS = "silent since 2026-01-01T00:02:00Z: no word from its resource manager, slurm of north"


def silent() -> Placement:
    """p1's manager is heard at the end of round 0, and silent from round 4 on."""
    processor = placement()
    round_of(processor, 0, alive(T0_US, "p1"))
    assert [round_of(processor, number) for number in (1, 2, 3, 4)] == [[], [], [], []]
    return processor


def test_nothing_is_judged_before_a_manager_spoke() -> None:
    processor = placement()
    [start] = round_of(processor, 100_000, submitted("a"))
    assert (verdict(start), start.cluster) == ("start", "p1")


def test_jobs_that_no_manager_queues_go_elsewhere_until_it_speaks() -> None:
    processor = silent()
    [there] = round_of(processor, 5, submitted("a", end_us(4)))
    assert (verdict(there), there.cluster) == ("start", "p2")
    again = alive(end_us(5), "p1"), submitted("b", end_us(5))
    [back] = round_of(processor, 6, *again)
    assert (verdict(back), back.cluster) == ("start", "p1")


def test_a_job_of_its_own_queue_stays_with_a_typed_reason_and_starts_when_it_speaks() -> None:
    processor = silent()
    [waits] = round_of(processor, 5, submitted("a", end_us(4), home_cluster="p1"))
    assert (verdict(waits), waits.reason) == ("queued", WORDS)
    [constraint] = waits.constraints
    assert (constraint.kind, constraint.by) == (CONSTRAINT_KIND_SILENT_MANAGER, "p1")
    assert round_of(processor, 6) == []
    assert verdicts(round_of(processor, 7, alive(end_us(6), "p1"))) == [("a", "start")]


def test_a_job_that_another_manager_queues_is_not_held_by_the_silent_one() -> None:
    [start] = round_of(silent(), 5, submitted("a", end_us(4), home_cluster="p2"))
    assert (verdict(start), start.cluster) == ("start", "p2")


def test_a_job_that_fits_only_there_waits_for_the_manager() -> None:
    processor = silent()
    [waits] = round_of(processor, 5, submitted("a", end_us(4), clusters=["p1"]))
    assert (verdict(waits), waits.reason) == ("queued", f"p1: {WORDS}")


def test_what_was_granted_stays_until_it_is_answered_and_what_runs_goes_on() -> None:
    processor = placement()
    runs, granted = round_of(
        processor, 0, alive(T0_US, "p1"), submitted("a"), submitted("b", T0_US + 1)
    )
    round_of(processor, 1, started(runs))
    assert [round_of(processor, number) for number in (2, 3, 4, 5)] == [[], [], [], []]
    answer = processor.queries.answer("b")
    assert answer is not None
    assert answer.allocation.cluster == "p1"
    [again] = round_of(processor, 6, declined(granted, end_us(5)))
    assert (verdict(again), again.cluster) == ("start", "p2")


def test_placement_wants_a_round_when_a_manager_falls_silent() -> None:
    processor = placement()
    round_of(processor, 0, alive(T0_US, "p1"))
    assert processor.wake_us() == end_us(0) + 90_001_000
    round_of(processor, 1, alive(end_us(0), "p1"))
    assert processor.wake_us() == end_us(1) + 90_001_000
    round_of(processor, 6)
    assert processor.wake_us() is None


def test_a_clock_that_is_wrong_in_either_direction_makes_no_manager_silent_or_loud() -> None:
    processor = placement()
    behind, hour_us = T0_US - 3_600_000_000, 3_600_000_000
    round_of(processor, 0, alive(behind, "p1"), alive(T0_US + hour_us, "p2"))
    [start] = round_of(processor, 1, submitted("a", end_us(0)))
    assert start.cluster == "p1"
    # Its clock is right again: what it says now is newer than what it said from ahead.
    round_of(processor, 2, alive(end_us(1), "p2"), alive(behind + 1, "p1"))
    assert processor.queries.silent_managers() == {"p1": False, "p2": False}
    round_of(processor, 6)
    assert processor.queries.silent_managers() == {"p1": True, "p2": True}


def test_a_copy_of_an_old_word_is_no_word() -> None:
    processor = silent()
    with pytest.raises(AlreadyAppliedError):
        processor.handle(alive(T0_US, "p1"))
    round_of(processor, 5)
    assert processor.queries.silent_managers()["p1"]


def test_a_manager_of_another_name_speaks_for_its_clusters() -> None:
    processor = silent()
    round_of(processor, 5, alive(end_us(4), "p1", manager="slurm, restarted"))
    assert not processor.queries.silent_managers()["p1"]


def test_a_word_on_clusters_that_are_not_declared_is_refused() -> None:
    processor = placement()
    with pytest.raises(RejectedError, match="p9"):
        processor.handle(alive(T0_US, "p9"))
    round_of(processor, 0, alive(T0_US, "p9", "p1"))
    assert processor.wake_us() == end_us(0) + 90_001_000


def test_an_undeclared_cluster_is_silent_no_more() -> None:
    processor = silent()
    round_of(processor, 5, undeclared("p1", end_us(4)))
    round_of(processor, 6)
    assert processor.queries.silent_managers() == {"p2": False}


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_copy_of_a_word_of_before_an_undeclaration_is_no_word_either(*, is_killed: bool) -> None:
    processor = silent()
    anew = declared("p1", 4, time_us=end_us(5))
    round_of(processor, 5, undeclared("p1", end_us(4)))
    round_of(processor, 6, anew, alive(end_us(5), "p1", manager="its successor"))
    if is_killed:
        processor = Placement(saved(processor.changes()), PolicySettings(), 7.0)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(alive(T0_US, "p1"))
    round_of(processor, 10)
    assert processor.queries.silent_managers() == {"p1": True, "p2": False}


def test_a_manager_of_before_an_undeclaration_is_not_judged_until_it_speaks_again() -> None:
    processor = silent()
    round_of(processor, 5, undeclared("p1", end_us(4)))
    round_of(processor, 6, declared("p1", 4, time_us=end_us(5)))
    assert not processor.queries.silent_managers()["p1"]
    assert processor.wake_us() is None
    hour_us = 3_600_000_000  # by its clock, which is behind, this is before the undeclaration
    round_of(processor, 7, alive(end_us(6) - hour_us + 1, "p1", manager="behind"))
    round_of(processor, 11)
    assert processor.queries.silent_managers()["p1"]


def test_a_return_by_an_operator_does_not_speak_for_a_manager() -> None:
    processor = silent()
    [start] = round_of(processor, 5, returned("p1", end_us(4)), submitted("a", end_us(4)))
    assert start.cluster == "p2"


def test_a_restart_finds_the_same_silence() -> None:
    lived = silent()
    killed = Placement(saved(lived.changes()), PolicySettings(), 7.0)
    for processor in lived, killed:
        [start] = round_of(processor, 5, submitted("a", end_us(4)))
        assert start.cluster == "p2"
    assert killed.queries.clusters() == lived.queries.clusters()


def test_a_word_in_a_round_that_a_kill_cuts_is_heard() -> None:
    processor = silent()
    feed(processor, [alive(end_us(4), "p1")])
    killed = Placement(saved(processor.changes()), PolicySettings(), 7.0)
    [start] = round_of(killed, 5, submitted("a", end_us(4)))
    assert start.cluster == "p1"


def test_a_successor_whose_clock_is_behind_is_heard_at_once() -> None:
    processor = silent()
    hour_us = 3_600_000_000
    round_of(processor, 5, alive(end_us(4) - hour_us, "p1", manager="the other host"))
    assert not processor.queries.silent_managers()["p1"]
    round_of(processor, 9)
    assert processor.queries.silent_managers()["p1"]


def test_of_two_managers_the_one_that_promised_more_decides() -> None:
    processor = placement()
    long = alive(T0_US, "p1", silent_after_s=600.0, manager="long")
    round_of(processor, 0, long, alive(T0_US + 1, "p1", silent_after_s=1.0, manager="short"))
    round_of(processor, 4)
    assert not processor.queries.silent_managers()["p1"]


def test_names_of_managers_without_end_are_forgotten() -> None:
    processor = placement()
    words = [alive(T0_US + n, "p1", manager=f"m{n}") for n in range(100)]
    round_of(processor, 0, *words)
    [row] = [value for key, value in saved(processor.changes()).items() if "managers" in key]
    assert len(row) < 1_000


def test_jobs_of_an_undeclared_cluster_are_free_of_its_silent_manager() -> None:
    processor = silent()
    job = submitted("a", end_us(4), home_cluster="p1", reference_cluster="p2")
    assert verdicts(round_of(processor, 5, job)) == [("a", "queued")]
    [start] = round_of(processor, 6, undeclared("p1", end_us(5)))
    assert (verdict(start), start.cluster) == ("start", "p2")


def test_words_from_a_clock_that_was_a_year_ahead_are_repaired() -> None:
    year_us = 366 * 86_400_000_000
    processor = placement()
    ahead = Round(0, T0_US + year_us)
    feed(processor, [alive(T0_US + year_us, "p1")])
    processor.end_round(ahead)
    state = saved(processor.changes())
    for key, value in repaired(state, T0_US).items():
        if value is not None:
            state[key] = value
    now = Placement(state, PolicySettings(), 7.0)
    round_of(now, 1, alive(T0_US + 1, "p1"))
    round_of(now, 6)
    assert now.queries.silent_managers()["p1"]


def test_clusters_say_that_their_manager_is_silent() -> None:
    listed = {each.name: each.lost for each in silent().queries.clusters().clusters}
    assert listed == {"p1": WORDS, "p2": ""}
