"""Meters that show more than a cap allows: since when, by how much, and who was misjudged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from coplace.v1.placement_pb2 import PowerCapExceeded
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement, repaired
from tests.unit.shared.placement.metered_region import IDLE_W, PREDICTED_W, MeteredRegion, read
from tests.unit.shared.placement.region import T0_US, feed, finished, saved, submitted

CAP_W = 800.0


def exceeded(payloads: Iterable[Message]) -> list[PowerCapExceeded]:
    return [each for each in payloads if isinstance(each, PowerCapExceeded)]


def metered(at_s: float, powers_w: Mapping[int, float]) -> Event:
    """What meters of these nodes showed."""
    names = (f"p1-{node:04d}" for node in powers_w)
    return read(at_s, *names, powers_mw=(round(1000 * w) for w in powers_w.values()))


def told_again(region: MeteredRegion, at_s: float, **powers_w: float) -> list[PowerCapExceeded]:
    """What is published of a round in which meters showed this, by node as n0, n1, ..."""
    of_nodes = {int(name[1:]): power_w for name, power_w in powers_w.items()}
    return exceeded(region.round_at(at_s, metered(at_s - 1, of_nodes)))


def with_two_jobs(cap_w: float = CAP_W) -> MeteredRegion:
    """`a` and `b` run on a node each, predicted 333 W, below the cap; the first word on meters
    counts for nothing, since nobody knows what was there before."""
    region = MeteredRegion(2, cap_w, nameplate_w=0.0)
    region.run(30, submitted("a"), submitted("b"))
    assert told_again(region, 60, n0=900, n1=900) == []
    return region


def test_a_cap_that_meters_show_exceeded_is_told_with_who_was_misjudged_most_first() -> None:
    region = with_two_jobs()
    [began] = told_again(region, 120, n0=400, n1=550)
    assert (began.began_at_us, began.ended_at_us) == (T0_US + 120_000_000, 0)
    assert (began.measured_w, began.cap_w) == (950.0, CAP_W)
    assert [(j.job_id, j.predicted_w, j.measured_w) for j in began.jobs] == [
        ("b", 233.0, 450.0),
        ("a", 233.0, 300.0),
    ]
    assert region.standing.measured_w == 950.0
    assert region.standing.metered_nodes == 2
    assert region.standing.above_since_us == T0_US + 120_000_000


def test_when_it_is_over_it_is_told_for_how_long_and_how_much_was_drawn_beyond() -> None:
    """950 W for a minute, 850 W for a minute, then below: 150 x 60 + 50 x 60 J."""
    region = with_two_jobs()
    told_again(region, 120, n0=400, n1=550)
    assert told_again(region, 180, n0=400, n1=450) == []
    found = [told_again(region, 240 + 60 * n, n0=400, n1=350) for n in range(6)]
    assert found[:5] == [[]] * 5
    [over] = found[5]
    assert over.began_at_us == T0_US + 120_000_000
    assert over.ended_at_us == T0_US + 240_000_000
    assert (over.above_s, over.above_j, over.measured_w) == (120.0, 12_000.0, 950.0)
    assert (region.standing.above_s, region.standing.above_since_us) == (120.0, 0)


def test_a_reading_stands_for_two_minutes_where_no_other_comes() -> None:
    region = with_two_jobs()
    told_again(region, 120, n0=400, n1=550)
    assert exceeded(region.round_at(500)) == []
    woken_us = region.processor.wake_us()
    assert woken_us == T0_US + (120 + 120 + 300) * 1_000_000
    [over] = exceeded(region.round_at(540))
    assert (over.ended_at_us, over.above_s) == (T0_US + 240_000_000, 120.0)
    assert not region.standing.HasField("measured_w")


def test_a_reading_of_a_node_on_which_a_job_came_or_went_counts_for_nothing() -> None:
    region = with_two_jobs()
    events = [finished("b", T0_US + 100_000_000), metered(119, {0: 333, 1: 900})]
    assert exceeded(region.round_at(120, *events)) == []
    assert (region.standing.measured_w, region.standing.metered_nodes) == (433.0, 1)


def test_a_job_keeps_the_prediction_that_it_was_started_by_when_meters_correct_it() -> None:
    region = with_two_jobs()
    job = region.processor.layers.state.jobs.get("a")
    assert job is not None
    region.processor.layers.state.jobs.estimate(job, 400_000)
    assert told_again(region, 120, n0=500, n1=200) == []  # what was expected changed
    [began] = told_again(region, 180, n0=500, n1=333)
    assert [(j.job_id, j.predicted_w, j.measured_w) for j in began.jobs] == [("a", 233.0, 400.0)]


@pytest.mark.parametrize("powers_mw", [(), (1_000_000,)])
def test_a_word_without_a_power_for_each_node_says_nothing_of_power(powers_mw: Any) -> None:
    region = with_two_jobs()
    word = read(119, "p1-0000", "p1-0001", powers_mw=powers_mw)
    assert exceeded(region.round_at(120, word)) == []
    assert region.standing.measured_at_us == T0_US + 60_000_000 or not region.standing.HasField(
        "measured_w"
    )


def test_what_a_clock_that_was_ahead_metered_hides_no_overshoot_of_now() -> None:
    region = with_two_jobs()
    [ahead] = told_again(region, 86_400, n0=400, n1=550)
    assert ahead.began_at_us == T0_US + 86_400_000_000
    region.restart()
    changes = repaired(region.state, T0_US + 200_000_000)
    assert sorted(key for key, value in changes.items() if value is None) == [
        "metered|p1",
        "overshoot|cluster/p1",
    ]
    region.processor = Placement(saved(region.state, changes), PolicySettings(), 7.0)
    assert told_again(region, 260, n0=333, n1=333) == []
    [began] = told_again(region, 320, n0=400, n1=550)
    assert (began.began_at_us, began.ended_at_us) == (T0_US + 320_000_000, 0)


@dataclass
class PlainCap:
    """The same rule: all that was ever metered is kept, and read from its begin."""

    nodes: int
    cap_w: float
    jobs: dict[str, list[int]] = field(default_factory=dict)
    used: set[int] | None = None
    shown: list[tuple[float, float]] = field(default_factory=list)

    def meter(self, at_s: float, powers_w: Mapping[int, float]) -> None:
        """A node counts as read where it was in use before as it is now."""
        used = {node for nodes in self.jobs.values() for node in nodes}
        before, self.used = self.used, used
        drawn_w, counted = 0.0, 0
        for node in range(self.nodes):
            counts = node in powers_w and before is not None and (node in before) == (node in used)
            expected_w = PREDICTED_W if node in used else IDLE_W
            drawn_w, counted = (
                drawn_w + (powers_w[node] if counts else expected_w),
                counted + counts,
            )
        self.shown.append((at_s, max(0.0, drawn_w - self.cap_w) if counted else 0.0))

    def overshoots(self) -> list[tuple[float, float, float, float]]:
        """Begin, end, time above and energy beyond of each, when all are over."""
        ends_s = [at_s for at_s, _ in self.shown[1:]] + [float("inf")]
        found: list[tuple[float, float, float, float]] = []
        for (at_s, above_w), next_s in zip(self.shown, ends_s, strict=True):
            if above_w:
                for_s = min(next_s - at_s, 120.0)
                one = (at_s, at_s + for_s, for_s, for_s * above_w)
                if found and at_s - found[-1][1] < 300.0:
                    before = found.pop()
                    one = (before[0], one[1], before[2] + one[2], before[3] + one[3])
                found.append(one)
        return found


def meters_show(random: Any, nodes: int) -> dict[int, float]:
    return {
        n: random.choice([100.0, 333.0, 500.25, 800.0])
        for n in range(nodes)
        if random.random() < 0.8
    }


@pytest.mark.parametrize("nodes", [1, 2, 3])
@settings(max_examples=4, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_any_readings_jobs_rounds_and_restarts_keep_to_the_plain_rule(
    nodes: int, random: Any
) -> None:
    cap_w = nodes * PREDICTED_W + random.choice([0, 50, 200])
    region = MeteredRegion(nodes, cap_w, nameplate_w=0.0, rules={"cap_measures": ()})
    plain, at_s, told = PlainCap(nodes, cap_w), 0.0, list[PowerCapExceeded]()
    for number in range(24):
        at_s += random.choice([20, 60, 60, 60, 200, 400])
        events: list[Event] = []
        if plain.jobs and random.random() < 0.1:
            ended = random.choice(sorted(plain.jobs))
            del plain.jobs[ended]
            events.append(finished(ended, T0_US + round(at_s * 1e6) - 1))
        if random.random() < 0.3:
            events.append(
                submitted(f"j{number}", T0_US + round(at_s * 1e6), walltime_s=30 * 86_400.0)
            )
        if random.random() < 0.7:
            powers_w = meters_show(random, nodes)
            events.append(metered(at_s - 1, powers_w))
            if powers_w:
                plain.meter(at_s, powers_w)
        feed(region.processor, events)
        if random.random() < 0.2:
            before = region.processor.queries.overshoots()
            region.restart()
            assert region.processor.queries.overshoots() == before
        published = region.round_at(at_s)
        told += exceeded(published)
        plain.jobs |= region.confirm_starts(published)
    told += exceeded(region.round_at(at_s + 1_000))
    over = [each for each in told if each.ended_at_us]
    found = [
        (e.began_at_us - T0_US, e.ended_at_us - T0_US, e.above_s * 1e6, e.above_j) for e in over
    ]
    expected: list[Any] = [
        (round(b * 1e6), round(e * 1e6), above_s * 1e6, pytest.approx(above_j, abs=0.1))
        for b, e, above_s, above_j in plain.overshoots()
    ]
    assert found == expected
    assert [e.began_at_us for e in told if not e.ended_at_us] == [e.began_at_us for e in over]
    assert region.standing.above_s == pytest.approx(sum(e.above_s for e in over))
