"""A state that was restored, or begun anew, plays published rounds as they were published."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_PARTITION, POWER_SCOPE_REGION, Partition
from coplace.v1.jobs_pb2 import Part
from coplace.v1.placement_pb2 import ACTION_KIND_SET_PSTATE, VERDICT_CANCELLED, PlacementDecided
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cap_measures import Measure
from shared.placement.decide.published_decisions import recalled
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement.region import (
    Word,
    answered,
    cancelled,
    capped,
    decisions,
    declared,
    declined,
    done,
    end_us,
    finished,
    limits,
    models,
    requeued,
    saved,
    started,
    submitted,
    undeclared,
    verdict,
)

NODES, ROUNDS = 4, 9


@dataclass(slots=True)
class Story:
    """What placement read, by round, what it published, and its state at the end of each round."""

    rules: PolicySettings = field(default_factory=PolicySettings)
    read: list[list[Event]] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    states: list[Mapping[str, bytes]] = field(default_factory=list)
    placement: Placement = field(init=False)

    def __post_init__(self) -> None:
        self.placement = Placement({}, self.rules, 7.0)

    def round(self, *events: Event) -> list[PlacementDecided]:
        """One more."""
        self.read.append(list(events))
        published = round_of(self.placement, len(self.read) - 1, self.read[-1])
        self.told += [publish.event for publish in published]
        before = self.states[-1] if self.states else {}
        self.states.append(saved(before, self.placement.changes()))
        return decisions(published)

    def put_back(self, number: int) -> Placement:
        """A placement of the state after a round, -1: of none, and of what it published since."""
        return Placement(self.restored(number), self.rules, 7.0)

    def restored(self, number: int) -> dict[str, bytes]:
        """Its state."""
        state = self.states[number] if number >= 0 else {}
        return saved(state, recalled(state, self.told, number + 1))


def round_of(placement: Placement, number: int, events: list[Event]) -> list[Publish]:
    for event in events:
        with suppress(AlreadyAppliedError):
            assert list(placement.handle(event)) == []
    return list(placement.end_round(Round(number, end_us(number))))


def binding(decided: list[PlacementDecided]) -> list[PlacementDecided]:
    return [one for one in decided if verdict(one) not in ("queued", "held")]


def obeyed(told: list[PlacementDecided], rng: Random, number: int) -> Iterator[Event]:
    """What resource managers do about starts: most come true, and most of these end."""
    for one in told:
        if verdict(one) == "start" and rng.random() < 0.7:
            yield started(one, started_at_us=end_us(number) - 1)
            if rng.random() < 0.6:
                on: dict[str, Any] = {"grant": one.grant, "cluster": one.cluster}
                yield finished(one.job_id, end_us(number), one.attempt, **on)
            elif rng.random() < 0.3:
                yield requeued(one.job_id, end_us(number), one.attempt + 1, cluster=one.cluster)
        elif verdict(one) in ("start", "withdrawn"):
            yield declined(one, end_us(number))


def a_story(seed: int) -> Story:
    """Jobs of which some never fit, some are cancelled, beside starts that are obeyed or not."""
    rng = Random(seed)
    story = Story(PolicySettings(start_timeout_s=rng.choice([0.0, 45.0])))
    told = story.round(*models(NODES))
    for number in range(1, ROUNDS):
        come = [
            submitted(f"{number}-{n}", end_us(number) - 9, nodes=rng.randint(1, NODES + 1))
            for n in range(rng.randint(0, 3))
        ]
        of_jobs = [*come, *obeyed(told, rng, number)]
        if rng.random() < 0.2 and number > 1:
            of_jobs.append(submitted(f"{number}-late", end_us(number) - 5))
            of_jobs.append(cancelled(f"{number}-late", end_us(number) - 4))
        told = story.round(*of_jobs)
    return story


def read_again(story: Story, first: int, rng: Random) -> list[Publish]:
    """The rounds from one on; ends of some are not believed this time, and what they bring is
    decided with the next. Kills in between change nothing."""
    published, waiting = list[Publish](), list[Event]()
    placement, state = story.put_back(first - 1), story.restored(first - 1)
    for number, events in enumerate(story.read[first:], first):
        waiting += events
        if number < ROUNDS - 1 and rng.random() < 0.3:
            continue
        published += round_of(placement, number, waiting)
        waiting = []
        state = saved(state, placement.changes())
        if rng.random() < 0.3:
            placement = Placement(state, story.rules, 7.0)
    return published + round_of(placement, ROUNDS, [])


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.integers(0, ROUNDS - 1))
def test_what_was_told_is_not_told_again_nor_otherwise_and_the_same_rounds_come_to_the_same_jobs(
    seed: int, first: int
) -> None:
    story = a_story(seed)
    again = read_again(story, first, Random(seed))
    found = binding(decisions([*map(as_published, story.told), *again]))
    grants = [(d.job_id, d.attempt, d.grant) for d in found if verdict(d) == "start"]
    assert len(grants) == len(set(grants))
    ends = [(d.job_id, d.attempt) for d in found if verdict(d) == "rejected"]
    assert len(ends) == len(set(ends))
    assert not {(job_id, attempt) for job_id, attempt, _ in grants} & set(ends)

    placement = story.put_back(first - 1)
    for number, events in enumerate(story.read[first:], first):
        assert binding(decisions(round_of(placement, number, events))) == []
    more = [submitted(f"new-{n}", end_us(ROUNDS)) for n in range(NODES)]
    then, now = (
        binding(decisions(round_of(one, ROUNDS, more))) for one in (story.placement, placement)
    )
    assert [where(one) for one in now] == [where(one) for one in then]


def as_published(event: Event) -> Publish:
    return Publish("placement.decisions", event)


def where(decided: PlacementDecided) -> tuple[str, Word, int, str, tuple[int, ...]]:
    on = decided.cluster, tuple(decided.node_indices)
    return decided.job_id, verdict(decided), decided.grant, *on


def test_a_round_that_was_told_rejects_nobody_who_was_started() -> None:
    """The end of round 0 was refused by a clock when it was read first, and is believed now."""
    story = Story()
    story.read.append([])
    few, more = [*models(NODES), submitted("a", nodes=5)], [declared("p1", 8, end_us(0))]
    [start] = story.round(*few, *more)
    assert (verdict(start), start.round) == ("start", 1)
    placement = Placement(recalled({}, story.told, 0), PolicySettings(), 7.0)  # type: ignore[arg-type]
    assert decisions(round_of(placement, 0, few)) == []
    assert decisions(round_of(placement, 1, more)) == []
    placement.handle(started(start))
    assert binding(decisions(round_of(placement, 2, []))) == []


def test_a_rejection_stays_whatever_is_declared_by_now() -> None:
    story = Story()
    [rejected] = story.round(*models(NODES), submitted("a", nodes=5))
    assert verdict(rejected) == "rejected"
    placement = story.put_back(-1)
    assert decisions(round_of(placement, 0, [*story.read[0], declared("p1", 8, end_us(0))])) == []
    assert decisions(round_of(placement, 1, [])) == []


def test_an_answer_is_taken_in_before_the_end_of_the_round_that_told_the_start() -> None:
    story = Story()
    [start] = story.round(*models(NODES), submitted("a"))
    placement = story.put_back(-1)
    together = [*story.read[0], started(start), finished("a", end_us(0), grant=1, cluster="p1")]
    assert decisions(round_of(placement, 0, together)) == []
    assert [d.grant for d in decisions(round_of(placement, 1, [submitted("a", attempt=2)]))] == [2]


def test_who_was_started_where_nothing_is_declared_any_more_starts_nowhere_else() -> None:
    story = Story()
    [start] = story.round(*models(NODES), submitted("a"))
    placement = story.put_back(-1)
    gone = undeclared(start.cluster, end_us(0))
    back = declared(start.cluster, NODES, end_us(1))
    for number, events in enumerate(([*story.read[0], gone], [])):
        assert "start" not in [verdict(d) for d in decisions(round_of(placement, number, events))]
    round_of(placement, 2, [back, submitted("b")])
    placement.handle(started(start))
    answer = answered(placement, "a")
    assert answer.allocation.grant == 1


def test_who_was_started_counts_in_the_partition_that_was_told() -> None:
    story = Story()
    batch = [Partition(name="batch", default=True)]
    few = declared("p1", NODES, end_us(0), partitions=batch)
    most = limits(LIMIT_SUBJECT_PARTITION, "batch", most_running_jobs=1)
    parts = [Part(units=1), Part(units=1)]
    asks: dict[str, Any] = {"clusters": ["p1"], "nodes": 2, "parts": parts}
    [start] = story.round(*models(NODES), few, most, submitted("a", **asks))
    assert [part.partition for part in start.parts] == ["batch", "batch"]
    placement = story.put_back(-1)
    assert decisions(round_of(placement, 0, story.read[0])) == []
    [waits] = decisions(round_of(placement, 1, [submitted("b", end_us(1), clusters=["p1"])]))
    assert (verdict(waits), waits.reason) == (
        "queued",
        "p1: partition batch may run 1 jobs at once and runs 1",
    )


def test_actions_and_cancellations_are_not_asked_again() -> None:
    story = Story(PolicySettings(cap_measures=(Measure.LOWER_FREQUENCY,)))
    told = story.round(*models(NODES), submitted("a"), submitted("b"))
    story.round(*map(started, told), cancelled("b", end_us(0)))
    watts = 100.0 * 2 * NODES + 250
    told = story.round(capped(POWER_SCOPE_REGION, "", (0, watts), time_us=end_us(1)))
    [action] = [one for one in told if verdict(one) == "action"]
    assert action.action.kind == ACTION_KIND_SET_PSTATE
    placement = story.put_back(0)
    for number in (1, 2):
        assert decisions(round_of(placement, number, story.read[number])) == []
    assert binding(decisions(round_of(placement, 3, [done(action, end_us(2))]))) == []


def test_a_forged_decision_is_not_recalled() -> None:
    forged = PlacementDecided(job_id="a", attempt=1, round=7, verdict=VERDICT_CANCELLED)
    assert recalled({}, [Event("x", "somebody", 1, "a", forged)], 0) == {}


@pytest.mark.parametrize("next_round", [0, 1])
def test_what_the_state_knows_is_not_recalled(next_round: int) -> None:
    story = Story()
    story.round(*models(NODES), submitted("a"))
    kept = recalled({}, story.told, next_round)
    assert len(kept) == (2 if next_round == 0 else 0)
