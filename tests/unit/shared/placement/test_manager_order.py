"""Where resource managers own the order, what waits starts in theirs and in no other."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import ListJobsRequest

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.domain.queue_order import QueueOrder
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    declined,
    end_us,
    feed,
    finished,
    item,
    placement,
    policy,
    prioritized,
    proposed,
    reordered,
    round_of,
    starts,
    submitted,
    verdict,
)

NODES = 4


def ordered(policy: Policy = Policy.BASE) -> Placement:
    rules: dict[str, Any] = {"start_timeout_s": 0.0, "most_missed_starts": 0}
    return placement(NODES, policy, order=QueueOrder.MANAGER, **rules)


def whole(job_id: str, priority: int = 0, time_us: int = T0_US, **changes: Any) -> Event:
    """A job of all nodes of p1."""
    values: dict[str, Any] = {
        "nodes": NODES,
        "clusters": ["p1"],
        "app_id": "",
        "manager_priority": priority,
    }
    return submitted(job_id, time_us, **(values | changes))


def queued(processor: Placement, cluster: str = "p1") -> list[str]:
    """The jobs that wait, in the order of the queue, with the places that are listed."""
    listed = processor.queries.jobs(ListJobsRequest(in_queue=True, cluster=cluster, most=200)).jobs
    assert [each.place for each in listed] == [*range(1, len(listed) + 1)]
    return [each.job_id for each in listed]


def test_strictly_by_the_managers_priority_then_sequence_then_id_and_the_rest_by_arrival() -> None:
    processor = ordered()
    round_of(processor, 0, whole("runs", 9))
    round_of(
        processor,
        1,
        whole("none-1", time_us=T0_US + 1, priority=0),
        whole("low", 3, T0_US + 2),
        whole("none-2", time_us=T0_US + 3, priority=0),
        whole("tie-b", 5, T0_US + 4, sequence="22"),
        whole("tie-a", 5, T0_US + 5, sequence="4"),
        whole("id-10", 4, T0_US + 6),
        whole("id-9", 4, T0_US + 7),
        whole("top", 4_294_967_295, T0_US + 8),
    )
    expected = ["top", "tie-a", "tie-b", "id-9", "id-10", "low", "none-1", "none-2"]
    assert queued(processor) == expected


def test_the_tiers_and_priorities_of_coplace_order_no_jobs_then() -> None:
    processor = placement(NODES, start_timeout_s=0.0)
    jobs = [whole(name, n, T0_US + n, clusters=[]) for n, name in enumerate("abcdef", start=1)]
    round_of(processor, 0, *jobs[:2])
    round_of(processor, 1, *jobs[2:], prioritized("d", 90, T0_US + 10))
    before = queued(processor, "p1"), queued(processor, "p2")
    assert before[0] == ["d", "c", "e", "f"]
    round_of(processor, 2, policy(T0_US + 20, order="manager"))
    for cluster in ("p1", "p2"):
        assert queued(processor, cluster) == sorted(before[0], reverse=True)
    round_of(processor, 3, policy(T0_US + 30, order="coplace"))
    assert (queued(processor, "p1"), queued(processor, "p2")) == before


def test_one_message_gives_many_jobs_new_places_and_an_older_one_none() -> None:
    processor = ordered()
    jobs = [whole(f"j{n}", n, T0_US + n) for n in range(1, 6)]
    round_of(processor, 0, whole("runs", 9), *jobs)
    now_us = end_us(0)
    round_of(processor, 1, reordered(now_us, {"j1": 50, "j4": 0, "unknown": 7, "runs": 3}))
    assert queued(processor) == ["j1", "j5", "j3", "j2", "j4"]
    with pytest.raises(AlreadyAppliedError):
        feed(processor, [reordered(now_us - 1, {"j1": 1})])
    round_of(processor, 2)
    assert queued(processor) == ["j1", "j5", "j3", "j2", "j4"]


def test_priorities_that_leave_all_in_their_order_make_no_new_entry() -> None:
    processor = ordered()
    jobs = [whole(f"j{n}", n, T0_US + n) for n in range(1, 6)]
    round_of(processor, 0, whole("runs", 9), *jobs)
    queue = processor.layers.decide.waiting_jobs.queues.queue("p1")
    before = list(queue)
    round_of(processor, 1, reordered(end_us(0), {f"j{n}": 10 * n for n in range(1, 6)}))
    assert all(now is then for now, then in zip(queue, before, strict=True))
    round_of(processor, 2, reordered(end_us(1), {"j1": 45}))
    assert queued(processor) == ["j5", "j1", "j4", "j3", "j2"]
    assert sum(entry in before for entry in queue) == 4


def test_a_manager_says_nothing_of_the_jobs_of_another() -> None:
    processor = ordered()
    theirs = whole("theirs", 1, T0_US + 1, home_cluster="p2")
    round_of(processor, 0, whole("runs", 9), whole("own", 5, T0_US + 2), theirs)
    round_of(processor, 1, reordered(end_us(0), {"theirs": 50, "own": 4}))
    assert queued(processor) == ["own", "theirs"]
    round_of(processor, 2, reordered(end_us(1), {"theirs": 50}, "p2"))
    assert queued(processor) == ["theirs", "own"]


def test_each_job_of_a_message_has_a_priority() -> None:
    message = reordered(T0_US, {"a": 1, "b": 2})
    del message.payload.manager_priorities[1:]  # type: ignore[attr-defined]
    with pytest.raises(RejectedError, match="must be as many as job_ids, 2, got 1"):
        feed(ordered(), [message])


def test_what_a_clock_ahead_said_is_replaced_by_the_next_word() -> None:
    processor = ordered()
    jobs = [whole("a", 1, T0_US + 1), whole("b", 2, T0_US + 2)]
    round_of(processor, 0, whole("runs", 9), *jobs)
    round_of(processor, 1, reordered(end_us(0) + 10**13, {"a": 3}))
    assert queued(processor) == ["a", "b"]
    round_of(processor, 2, reordered(end_us(1) + 1, {"a": 1}))
    assert queued(processor) == ["b", "a"]


def test_a_priority_that_was_given_counts_for_the_next_attempt_too() -> None:
    processor = ordered()
    [start] = round_of(processor, 0, whole("runs", 9))
    round_of(processor, 1, reordered(end_us(0), {"runs": 2}), whole("a", 5, T0_US + 1))
    again = declined(start, end_us(1))
    decided = round_of(processor, 2, again)
    assert starts(decided) == ["a"]
    assert queued(processor) == ["runs"]


def test_tasks_of_an_array_go_together_by_index_whichever_of_them_are_jobs_by_now() -> None:
    processor = ordered()
    array = whole("array", 5, T0_US + 1, array="0-3")
    round_of(processor, 0, whole("runs", 9), array, whole("b", 5, T0_US + 2), whole("c", 4))
    began = list[str]()
    running, number = "runs", 1
    first: PlacementDecided | None = None
    while len(began) < 6:
        events = [finished(running, end_us(number - 1))] if running else []
        decided = round_of(processor, number, *events)
        [running] = starts(decided)
        began.append(running)
        if running == "array_1" and first is None:
            [first] = [each for each in decided if each.job_id == running]
            assert starts(round_of(processor, number + 1, declined(first, end_us(number)))) == [
                "array_1"
            ]
            number += 1
        number += 1
    assert began == ["array_0", "array_1", "array_2", "array_3", "b", "c"]


def test_an_array_that_is_reordered_takes_its_declined_tasks_along() -> None:
    processor = ordered()
    array = whole("array", 5, T0_US + 1, array="0-2")
    round_of(processor, 0, whole("runs", 9), array, whole("b", 4, T0_US + 2))
    decided = round_of(processor, 1, finished("runs", end_us(0)))
    [task] = [each for each in decided if each.job_id == "array_0"]
    events = declined(task, end_us(1)), reordered(end_us(1) + 1, {"array": 3})
    assert starts(round_of(processor, 2, *events)) == ["b"]
    assert queued(processor) == ["array_0", "array"]


def test_no_plan_applies_and_none_is_made() -> None:
    processor = ordered()
    jobs = [whole("a", 1, T0_US + 1), whole("b", 2, T0_US + 2)]
    round_of(processor, 0, whole("runs", 9), *jobs)
    round_of(processor, 1, proposed(0, item("a", "p1"), item("b", "p1")))
    assert queued(processor) == ["b", "a"]
    assert not processor.planning.problem(end_us(1) / 1e6, 1.0, 100).waiting
    round_of(processor, 2, policy(end_us(1), order="coplace"))
    assert queued(processor) == ["a", "b"]


@dataclass
class Naive:
    """EASY over one cluster in the words of its definition: what waits is sorted anew each time."""

    waiting: dict[str, tuple[int, int, int, float]] = field(default_factory=dict)
    ends: dict[str, tuple[float, int]] = field(default_factory=dict)

    def place(self, job_id: str) -> tuple[bool, int, int, int]:
        priority, sequence, _, _ = self.waiting[job_id]
        return not priority, -priority, sequence if priority else 0, int(job_id[1:])

    def starts(self, now_s: float) -> list[str]:
        """The jobs that start now: none delays the first that cannot."""
        free, shadow_s, spare, found = self._free(), 0.0, 0, list[str]()
        for job_id in sorted(self.waiting, key=self.place):
            _, _, nodes, limit_s = self.waiting[job_id]
            fits_beside = not shadow_s or now_s + limit_s <= shadow_s or nodes <= spare
            if nodes <= free and fits_beside:
                free -= nodes
                spare -= nodes if shadow_s and now_s + limit_s > shadow_s else 0
                self.ends[job_id] = (now_s + limit_s, nodes)
                found.append(job_id)
            elif not shadow_s:
                shadow_s, spare = self._shadow(now_s, free, nodes)
        for job_id in found:
            del self.waiting[job_id]
        return found

    def _free(self) -> int:
        return NODES - sum(nodes for _, nodes in self.ends.values())

    def _shadow(self, now_s: float, free: int, nodes: int) -> tuple[float, int]:
        ends = sorted((max(end_s, now_s), held) for end_s, held in self.ends.values())
        for place, (end_s, held) in enumerate(ends):
            free += held
            later_s = ends[place + 1][0] if place + 1 < len(ends) else -1.0
            if free >= nodes and later_s != end_s:
                return end_s, free - nodes
        raise AssertionError("it never fits")


class Region:
    """A placement with its twin that is killed, and beside it the naive one."""

    def __init__(self, seed: int) -> None:
        self.random, self.naive, self.twins = Random(seed), Naive(), Twins(ordered)
        self.known = dict[str, tuple[int, int, int, float]]()
        self.granted = dict[str, PlacementDecided]()

    def ends(self, now_us: int) -> list[Event]:
        """Some that run finish, or were declined and wait again."""
        events = list[Event]()
        for job_id in [each for each in self.naive.ends if self.random.random() < 0.3]:
            del self.naive.ends[job_id]
            start = self.granted[job_id]
            if self.random.random() < 0.3:
                events.append(declined(start, now_us))
                self.naive.waiting[job_id] = self.known[job_id]
            else:
                events.append(finished(job_id, now_us, grant=start.grant))
        return events

    def submissions(self, now_us: int) -> list[Event]:
        events = list[Event]()
        for _ in range(self.random.choice([0, 1, 2, 4])):
            count = len(self.known) + 1
            asked = self.random.choice([0, 1, 2, 3, 40]), self.random.randrange(30)
            size = self.random.randint(1, NODES), self.random.choice([60.0, 600.0, 6000.0])
            self.known[f"j{count}"] = self.naive.waiting[f"j{count}"] = (*asked, *size)
            terms = {"sequence": str(asked[1]), "nodes": size[0], "walltime_s": size[1]}
            events.append(whole(f"j{count}", asked[0], now_us + count, **terms))
        return events

    def new_priorities(self, now_us: int) -> list[Event]:
        if not self.known or self.random.random() < 0.4:
            return []
        most = min(len(self.known), self.random.choice([1, 5, 50]))
        named = self.random.sample(sorted(self.known), most)
        said = {job_id: self.random.choice([0, 1, 2, 3, 50]) for job_id in named}
        for job_id, priority in said.items():
            self.known[job_id] = (priority, *self.known[job_id][1:])
            if job_id in self.naive.waiting:
                self.naive.waiting[job_id] = self.known[job_id]
        return [reordered(now_us + 1_000_000, said)]


@pytest.mark.parametrize("seed", range(6))
def test_one_cluster_starts_what_a_naive_sort_says_at_each_moment_and_so_after_kills(
    seed: int,
) -> None:
    region = Region(seed)
    naive, twins = region.naive, region.twins
    for number in range(40):
        now_us = end_us(number - 1)
        events = [*region.ends(now_us), *region.submissions(now_us)]
        decided = twins.round_of(number, *events, *region.new_priorities(now_us))
        region.granted |= {each.job_id: each for each in decided if verdict(each) == "start"}
        assert starts(decided) == naive.starts(end_us(number) / 1e6)
        assert queued(twins.lived) == sorted(naive.waiting, key=naive.place)
        if region.random.random() < 0.4:
            twins.kill()
