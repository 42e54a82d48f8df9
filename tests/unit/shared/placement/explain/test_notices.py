"""Of a job that waits it is published when its reason changes, and not when a number does."""

from itertools import pairwise

from coplace.v1.control_pb2 import LIMIT_SUBJECT_ACCOUNT, LIMIT_SUBJECT_USER
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_ANY as AFTER_ANY
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_OK as AFTER_OK
from coplace.v1.placement_pb2 import PlacementDecided

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement.region import (
    T0_US,
    Word,
    after,
    answered,
    end_us,
    finished,
    held,
    limits,
    lost,
    placement,
    returned,
    round_of,
    saved,
    started,
    submitted,
    verdict,
)

ONE_JOB = limits(LIMIT_SUBJECT_ACCOUNT, "physics", most_running_jobs=1)
AT_THE_LIMIT = "account physics may run 1 jobs at once and runs 1"


def told(decided: list[PlacementDecided]) -> list[tuple[str, Word, str]]:
    return [(d.job_id, verdict(d), d.reason) for d in decided]


def runs(job_id: str, *nodes: int) -> Event:
    """The resource manager of p1 starts a job that placement may keep waiting."""
    mine = PlacementDecided(job_id=job_id, attempt=1, cluster="p1", node_indices=nodes)
    return started(mine, started_at_us=end_us(0))


def with_one_job_running(policy: Policy = Policy.BASE) -> Placement:
    """Job a runs, which brings its account to its limit."""
    processor = placement(policy=policy, start_timeout_s=0)
    round_of(processor, 0, ONE_JOB, submitted("a"))
    return processor


def test_a_job_whose_dependency_ended_is_told_of_the_limit_that_holds_it_now() -> None:
    processor = with_one_job_running()
    waiting = submitted("c", T0_US + 2, depends_on=after(AFTER_ANY, "b"))
    round_of(processor, 1, submitted("b"), waiting)
    decided = round_of(processor, 2, finished("b", end_us(1)))
    assert told(decided) == [("c", "queued", AT_THE_LIMIT)]
    assert {c.constraint for c in decided[0].candidates if c.cluster == "p1"} == {AT_THE_LIMIT}
    assert round_of(processor, 3) == []


def test_a_job_is_told_which_of_its_dependencies_it_waits_for() -> None:
    processor = placement()
    others = [submitted(name, T0_US + n) for n, name in enumerate("ab")]
    round_of(processor, 0, *others, submitted("c", T0_US + 9, depends_on=after(AFTER_OK, "a", "b")))
    assert told(round_of(processor, 1, finished("a", end_us(0)))) == [
        ("c", "queued", "after_ok b: it has not ended")
    ]


def test_a_hold_for_another_reason_is_told() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"), held("a", T0_US + 1, "input is missing"))
    assert told(round_of(processor, 1, held("a", end_us(0), "quota"))) == [
        ("a", "held", "held: quota")
    ]
    assert round_of(processor, 2, held("a", end_us(1), "quota")) == []


def test_a_number_that_grows_is_not_told() -> None:
    processor = with_one_job_running()
    others = [submitted(name, T0_US + n) for n, name in enumerate("bcd", 1)]
    round_of(processor, 1, *others)
    for number in (2, 3):
        over = runs("bc"[number - 2], number)
        assert round_of(processor, number, over) == []
    answer = answered(processor, "d")
    assert answer.reason == "account physics may run 1 jobs at once and runs 3"


def test_who_waits_for_nodes_is_told_of_a_limit_that_was_declared_meanwhile() -> None:
    processor = placement(policy=Policy.BASE)
    jobs = [submitted("a", nodes=4), submitted("b", T0_US + 1, nodes=4)]
    round_of(processor, 0, *jobs)
    assert round_of(processor, 1) == []
    assert told(round_of(processor, 2, limits(LIMIT_SUBJECT_USER, "ada", most_nodes=6))) == [
        ("b", "queued", "p1: user ada may hold 6 nodes at once, holds 4 and needs 4 more")
    ]


def test_a_loss_and_a_return_are_told_to_who_waits_for_that_cluster_alone() -> None:
    processor = placement(policy=Policy.BASE)
    p1_only = submitted("b", T0_US + 1, nodes=4)
    round_of(processor, 0, lost("p2", T0_US), submitted("a", nodes=4), p1_only)
    gone = round_of(processor, 1, runs("a", 0, 1, 2, 3), lost("p1", end_us(0), "power cut"))
    assert told(gone) == [("b", "queued", "p1: lost since 2026-01-01T00:00:30Z: power cut")]
    back = round_of(processor, 2, returned("p1", end_us(1)))
    assert told(back) == [("b", "queued", "p1: needs 4 nodes, 0 free")]


def alternating(processor: Placement, first: int, last: int) -> list[PlacementDecided]:
    """Job by job of ada ends in a round and the next starts in the one after it, while job b of
    hers waits for more nodes than are free: she reaches her limit every other round."""
    decided = []
    for number in range(first, last, 2):
        turn = submitted(f"turn-{number}", end_us(number - 1), walltime_s=60.0)
        decided += round_of(processor, number, turn)
        decided += round_of(processor, number + 1, finished(f"turn-{number}", end_us(number)))
    return [d for d in decided if d.job_id == "b"]


def waiting_for_nodes() -> Placement:
    processor = placement(policy=Policy.BASE, start_timeout_s=0)
    one = limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=1)
    fill = submitted("a", nodes=3, user="bob", walltime_s=90_000.0)
    round_of(processor, 0, one, fill, submitted("b", T0_US + 1, nodes=4))
    return processor


def test_a_limit_that_comes_and_goes_is_told_once_and_then_every_ten_minutes_at_most() -> None:
    processor = waiting_for_nodes()
    decided = alternating(processor, 1, 81)
    times = [d.decided_at_us / 1e6 for d in decided]
    assert decided[0].reason == "user ada may run 1 jobs at once and runs 1"
    assert times[0] == end_us(1) / 1e6
    assert 2 <= len(decided) <= 4
    assert all(later - earlier >= 600 for earlier, later in pairwise(times))


def test_what_was_put_off_is_told_when_it_is_due_though_nothing_happens() -> None:
    processor = waiting_for_nodes()
    [at_the_limit] = alternating(processor, 1, 3)
    assert all(round_of(processor, number) == [] for number in range(3, 21))
    state = saved(processor.changes())
    for one in (processor, Placement(state, PolicySettings(Policy.BASE, start_timeout_s=0), 7.0)):
        [due] = round_of(one, 21)
        assert due.decided_at_us - at_the_limit.decided_at_us == 600_000_000
        assert (due.job_id, due.reason) == ("b", "p1: needs 4 nodes, 1 free")
        assert round_of(one, 22) == []
