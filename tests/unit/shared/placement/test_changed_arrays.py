"""Arrays whose users change what they ask for while tasks of them wait."""

from collections.abc import Sequence
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_CORR
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    after,
    answered,
    declined,
    end_us,
    event,
    feed,
    finished,
    held,
    placement,
    requeued,
    round_of,
    started,
    starts,
    submitted,
    verdicts,
)


def array(time_us: int = T0_US, **asked: Any) -> Event:
    """Ten tasks on one cluster of four nodes."""
    values: dict[str, Any] = {"array": "0-9", "clusters": ["p1"], "nodes": 2}
    return submitted("a", time_us, **(values | asked))


def changed(at_us: int, **asked: Any) -> Event:
    """It was submitted at the begin, and its user wants it so now."""
    payload = array(changed_at_us=at_us, **asked).payload
    return event(f"changed/a/{at_us}", payload, at_us)


def region() -> Placement:
    return placement(policy=Policy.BASE)


def test_tasks_that_are_left_ask_for_what_was_changed_and_those_that_run_go_on() -> None:
    processor = region()
    first = round_of(processor, 0, array())
    assert starts(first) == ["a_0", "a_1"]
    feed(processor, [started(each) for each in first[:2]])
    # The resource manager names the tasks that wait.
    assert starts(round_of(processor, 1, changed(end_us(0), array="2-9", nodes=1))) == []
    with pytest.raises(AlreadyAppliedError):
        processor.handle(changed(end_us(0), array="2-9", nodes=1))
    decided = round_of(processor, 2, finished("a_0", end_us(1)))
    assert starts(decided) == ["a_2", "a_3"]
    assert [len(each.node_indices) for each in decided[:2]] == [1, 1]
    standing = answered(processor, "a").array
    assert (standing.tasks, standing.waiting, standing.running) == (10, 6, 3)


def test_how_many_tasks_may_run_at_once_may_be_changed_up_and_down() -> None:
    processor = region()
    [first] = [d for d in round_of(processor, 0, array(nodes=1, array_at_most=1)) if d.cluster]
    more = changed(end_us(0), nodes=1, array_at_most=3)
    assert starts(round_of(processor, 1, started(first), more)) == ["a_1", "a_2"]
    any_number = changed(end_us(1), nodes=1, array_at_most=0)
    assert starts(round_of(processor, 2, any_number)) == ["a_3"]
    fewer = changed(end_us(2), nodes=1, array_at_most=2)
    assert starts(round_of(processor, 3, fewer, finished("a_0", end_us(2)))) == []
    assert starts(round_of(processor, 4, finished("a_1", end_us(3)))) == []
    assert starts(round_of(processor, 5, finished("a_2", end_us(4)))) == ["a_4"]


def test_a_task_that_is_declined_behind_a_change_asks_for_what_its_array_does() -> None:
    processor = region()
    granted = round_of(processor, 0, array())[:2]
    assert starts(granted) == ["a_0", "a_1"]
    asked = changed(end_us(0), nodes=4)
    decided = round_of(processor, 1, asked, *(declined(each, end_us(0)) for each in granted))
    assert starts(decided) == ["a_0"]
    assert len(next(d for d in decided if d.job_id == "a_0").node_indices) == 4


def test_tasks_that_wait_by_themselves_are_changed_with_their_array() -> None:
    processor = region()
    granted = round_of(processor, 0, array())[:2]
    full = submitted("x", end_us(0) - 9, nodes=4, clusters=["p1"], priority=9)
    round_of(processor, 1, full, *(declined(each, end_us(0)) for each in granted))
    round_of(processor, 2, changed(end_us(1), nodes=3))
    decided = round_of(processor, 3, finished("x", end_us(2)))
    assert starts(decided) == ["a_0"]
    assert len(next(d for d in decided if d.job_id == "a_0").node_indices) == 3


def test_an_array_without_a_task_that_is_left_is_changed_too() -> None:
    processor = region()
    granted = round_of(processor, 0, array(array="0-1"))[:2]
    feed(processor, [started(granted[0])])
    again = round_of(processor, 1, changed(end_us(0), array="1", nodes=1))
    assert starts(again) == []
    decided = round_of(processor, 2, declined(granted[1], end_us(1)))
    assert [len(each.node_indices) for each in decided if each.job_id == "a_1"] == [1]
    both = [finished(f"a_{n}", end_us(2)) for n in (0, 1)]
    round_of(processor, 3, *both)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(changed(end_us(3), nodes=1))


def test_tasks_whose_turn_has_come_may_start_behind_a_change() -> None:
    """Also where the task that they waited for was requeued since."""
    processor = region()
    other = submitted("x", T0_US - 1, array="0-9", clusters=["p1"], nodes=4)
    waits = after(DEPENDENCY_CONDITION_AFTER_CORR, "x")
    round_of(processor, 0, other, array(depends_on=waits))
    held_up = held("x", end_us(0), "its other tasks wait")
    done = round_of(processor, 1, finished("x_0", end_us(0)), held_up)
    assert starts(done) == ["a_0"]
    again = declined(next(d for d in done if d.job_id == "a_0"), end_us(1))
    asked = changed(end_us(1) + 1, nodes=3, depends_on=waits)
    decided = round_of(processor, 2, again, asked, requeued("x_0", end_us(1)))
    assert [(d.job_id, len(d.node_indices)) for d in decided if d.cluster] == [("a_0", 3)]


def test_what_fits_nowhere_by_its_change_is_rejected() -> None:
    processor = region()
    round_of(processor, 0, array())
    decided = round_of(processor, 1, changed(end_us(0), nodes=99))
    assert ("a", "rejected") in verdicts(decided)


def test_an_array_stays_one_and_a_job_none() -> None:
    processor = region()
    round_of(processor, 0, array(), submitted("b", T0_US, nodes=4, clusters=["p1"]))
    with pytest.raises(RejectedError, match="array"):
        processor.handle(changed(end_us(0), array=""))
    none = submitted("b", nodes=4, array="0-9", changed_at_us=end_us(0))
    with pytest.raises(RejectedError, match="array"):
        processor.handle(event("changed/b", none.payload, end_us(0)))
    with pytest.raises(RejectedError, match="user"):
        processor.handle(changed(end_us(0), user="mallory"))


# Behind three declines in a row a task is held.
_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["change", "end", "decline", "start", "kill"]),
        st.integers(1, 4),
        st.integers(0, 3),
    ),
    max_size=12,
).filter(lambda acts: sum(what in ("change", "decline") for what, _, _ in acts) < 3)


class Course:
    """An array, what its user wants of each task, and where its tasks are."""

    def __init__(self) -> None:
        self._twins, self._number = Twins(region), 0
        self._nodes, self._at_most = 2, 0
        self._granted: dict[str, PlacementDecided] = {}
        self._running, self.done = set[str](), set[str]()
        self._note(self._twins.round_of(0, array()))

    def play(self, what: str, nodes: int, at_most: int) -> None:
        """Let something happen, and end a round."""
        if what == "kill":
            self._twins.kill()
        facts = self._answers(what)
        if what == "end":
            facts += [finished(job_id, self._now_us) for job_id in sorted(self._running)]
            self.done |= self._running
            self._running.clear()
        elif what == "change" and len(self.done) < 10:
            self._nodes, self._at_most = nodes, at_most
            facts.append(changed(self._now_us, nodes=nodes, array_at_most=at_most))
        self._number += 1
        self._note(self._twins.round_of(self._number, *facts))

    @property
    def _now_us(self) -> int:
        return end_us(self._number)

    def _answers(self, what: str) -> list[Event]:
        """What was granted before a change is declined: so a start that crosses it is."""
        granted, self._granted = list(self._granted.values()), {}
        if what in ("decline", "change"):
            return [declined(each, self._now_us) for each in granted]
        self._running |= {each.job_id for each in granted}
        return [started(each, started_at_us=self._now_us) for each in granted]

    def _note(self, decided: Sequence[PlacementDecided]) -> None:
        new = {each.job_id: each for each in decided if each.verdict == VERDICT_START}
        assert not new.keys() & (self._running | self.done)
        assert all(len(each.node_indices) == self._nodes for each in new.values())
        assert not (self._at_most and new) or len(new) + len(self._running) <= self._at_most
        self._granted = new


@settings(deadline=None)
@given(_CHANGES)
def test_each_task_starts_once_by_the_newest_terms_whatever_happens_between(
    acts: list[tuple[str, int, int]],
) -> None:
    course = Course()
    for act in acts:
        course.play(*act)
    for _ in range(20):
        course.play("end", 0, 0)
    assert len(course.done) == 10
