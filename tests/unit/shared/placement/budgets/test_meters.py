"""Meters that fall silent: nameplate power counts under caps until they are read again."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from coplace.v1.placement_pb2 import ACTION_KIND_RESUME, ACTION_KIND_SUSPEND, NodeMetersSilent
from coplace.v1.placement_service_pb2 import PowerStanding
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cap_measures import Measure
from shared.domain.hostlist import expand
from shared.placement.processor.placement import Placement, repaired
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.metered_region import (
    IDLE_W,
    NAMEPLATE_W,
    PREDICTED_W,
    MeteredRegion,
    read,
)
from tests.unit.shared.placement.region import (
    T0_US,
    declared,
    done,
    feed,
    finished,
    submitted,
    verdict,
)

# As long as a property waits.
SHORT_S = 180.0


def silent(payloads: Iterable[Message]) -> list[list[str]]:
    return [list(each.nodes) for each in payloads if isinstance(each, NodeMetersSilent)]


def metered(nodes: int = 2, cap_w: float = 1_000.0, **rules: Any) -> MeteredRegion:
    """`a` runs on the first node, whose meter was read in its round and never after."""
    region = MeteredRegion(nodes, cap_w, rules=rules)
    region.run(30, submitted("a"))
    region.run(60, read(59, "p1-[0000-0001]"))
    return region


def silent_since_a_minute(nodes: int = 2, cap_w: float = 1_000.0) -> MeteredRegion:
    """As `metered`, at 660 s."""
    region = metered(nodes, cap_w)
    for at_s in range(120, 720, 60):
        region.round_at(at_s)
    return region


def test_nameplate_power_counts_once_a_meter_was_silent_for_as_long_as_declared() -> None:
    """A round is asked for then, though nothing else happens."""
    region, at_s = metered(), 60.0
    while not silent(region.round_at(at_s)):
        assert region.standing.committed_w == PREDICTED_W - IDLE_W
        woken_us = region.processor.wake_us()
        assert woken_us is not None
        at_s = (woken_us - T0_US) / 1e6
    assert at_s == 660
    assert region.standing.committed_w == NAMEPLATE_W - IDLE_W
    assert (region.standing.silent_nodes, region.standing.nameplate_w) == (1, 400.0)
    assert region.processor.queries.silent_meters() == {"p1": 1}


def test_a_job_waits_for_the_watts_that_a_silent_node_may_draw() -> None:
    """200 W idle, 233 W of `a`: 300 W are left, 133 W by nameplate. It starts on a third node."""
    region = silent_since_a_minute(3, 300 + 233 + 300)
    [waits] = region.run(720, submitted("b", T0_US + 700_000_000))
    assert verdict(waits) != "start"
    [starts] = region.run(750, read(740, "p1-[0000-0002]"))
    assert (starts.job_id, verdict(starts)) == ("b", "start")


def test_nodes_whose_meters_are_silent_are_given_last() -> None:
    region = silent_since_a_minute()
    ended = finished("a", T0_US + 710_000_000)
    [after] = region.run(720, ended, submitted("b", T0_US + 710_000_000))
    assert list(after.node_indices) == [1]


def test_what_exceeds_a_cap_by_nameplate_is_suspended_and_runs_on_when_it_is_read() -> None:
    """Another P-state would change nothing that anybody sees."""
    region = metered(1, 100 + 300.0, cap_measures=(Measure.LOWER_FREQUENCY, Measure.SUSPEND))
    asked = [d for at_s in range(120, 780, 60) for d in region.run(at_s)]
    assert [d.action.kind for d in asked] == [ACTION_KIND_SUSPEND]
    assert "meters of nodes are silent (1): nameplate power counts" in asked[0].reason
    region.run(780, done(asked[0], T0_US + 770_000_000))
    assert region.standing.committed_w == 0.0
    assert region.run(840) == []
    [resumed] = region.run(900, read(890, "p1-0000"))
    assert (verdict(resumed), resumed.action.kind) == ("action", ACTION_KIND_RESUME)


@pytest.mark.parametrize(
    ("rules", "nameplate_w"), [({"meter_silence_s": 0.0}, NAMEPLATE_W), ({}, 0.0)]
)
def test_nothing_counts_where_nobody_declared_it(rules: dict[str, Any], nameplate_w: float) -> None:
    region = MeteredRegion(2, 1_000.0, nameplate_w, rules)
    region.run(30, submitted("a"), read(29, "p1-0000"))
    assert not any(silent(region.round_at(at_s)) for at_s in range(90, 1_500, 60))
    assert region.standing.committed_w == PREDICTED_W - IDLE_W


@pytest.mark.parametrize(("declared_w", "tdp_w"), [(NAMEPLATE_W, 0.0), (0.0, 400.0)])
def test_a_nameplate_that_is_derived_counts_as_one_that_is_declared(
    declared_w: float, tdp_w: float
) -> None:
    """What is published of it says which of both it is."""
    region, power_w = metered(), {"nameplate_power_w": declared_w, "processors_tdp_w": tdp_w}
    region.round_at(90, declared("p1", 2, T0_US + 1, **power_w))
    published = [each for at_s in range(150, 720, 60) for each in region.round_at(at_s)]
    [said] = [each for each in published if isinstance(each, NodeMetersSilent)]
    assert list(said.nodes) == ["p1-0000"]
    assert (said.nameplate_power_w, said.nameplate_derived) == (NAMEPLATE_W, not declared_w)
    assert region.standing.committed_w == NAMEPLATE_W - IDLE_W
    assert (region.standing.silent_nodes, region.standing.nameplate_w) == (1, 400.0)
    assert region.standing.nameplate_derived == (not declared_w)


def test_a_region_that_stood_still_and_a_clock_that_jumped_are_no_silence() -> None:
    region = metered()
    assert silent(region.round_at(86_400)) == []
    assert region.processor.wake_us() == T0_US + (86_400 + 60) * 1_000_000
    for minute in range(1, 9):
        assert silent(region.round_at(86_400 + 60 * minute)) == []
    assert silent(region.round_at(86_400 + 60 * 9)) == [["p1-0000"]]


def test_a_word_that_is_older_or_of_nodes_and_clusters_that_nobody_knows_changes_nothing() -> None:
    region = metered()
    for known in (read(59, "p1-0000"), read(40, "p1-0000"), read(90, "x-0000", cluster="x")):
        with pytest.raises(AlreadyAppliedError):
            region.processor.handle(known)
    region.round_at(90, read(80, "login-1", "p1-9999", "p1-[0001-0002,9998]"))
    for at_s in range(150, 690, 60):
        region.round_at(at_s)
    assert silent(region.round_at(690)) == [["p1-0000"]]


def test_a_word_of_a_clock_that_was_ahead_is_mended() -> None:
    region = metered()
    region.round_at(90, read(86_400, "p1-0000"))
    region.restart()
    now_us = T0_US + 100_000_000
    changes = repaired(region.state, now_us)
    region.processor = Placement({**region.state, **changes}, PolicySettings(), 7.0)  # type: ignore[dict-item]
    feed(region.processor, [read(120, "p1-0000")])


def test_a_nameplate_below_idle_power_is_refused() -> None:
    with pytest.raises(RejectedError, match="idle_power_w"):
        feed(Placement({}, PolicySettings(), 7.0), [declared("p1", nameplate_power_w=50.0)])
    with pytest.raises(RejectedError, match="nameplate_power_w"):
        check_contents(declared("p1", nameplate_power_w=inf).payload)


@dataclass
class Plain:
    """The same rule, node by node in dictionaries."""

    nodes: int
    held: dict[str, list[int]] = field(default_factory=dict)
    since_s: dict[int, float] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    is_known: bool = False
    now_s: float | None = None
    time_s: float = 0.0

    def pass_time(self, at_s: float, read_now: set[int] | None) -> None:
        self.is_known |= read_now is not None
        if not self.is_known:
            return
        if self.now_s is not None:
            self.time_s += min(at_s - self.now_s, 60.0)
        self.now_s = at_s
        self.silent -= read_now or set()
        in_use = {node for nodes in self.held.values() for node in nodes}
        self.since_s = {
            node: self.time_s
            if node in (read_now or set())
            else self.since_s.get(node, self.time_s)
            for node in in_use
        }
        self.silent |= {n for n, s in self.since_s.items() if self.time_s - s >= SHORT_S}

    def committed_w(self) -> float:
        """Nobody on a silent node counts for less than its nameplate."""
        return sum(
            (NAMEPLATE_W if node in self.silent else PREDICTED_W) - IDLE_W
            for nodes in self.held.values()
            for node in nodes
        )


def something_happens(random: Any, plain: Plain, number: int, at_s: float) -> list[Event]:
    """Jobs end and come."""
    at_us, nodes, events = T0_US + round(at_s * 1e6), plain.nodes, []
    if plain.held and random.random() < 0.25:
        ended = random.choice(sorted(plain.held))
        del plain.held[ended]
        events.append(finished(ended, at_us - 1))
    if random.random() < 0.7:
        size, walltime_s = random.randint(1, min(nodes, 2)), 30 * 86_400.0
        events.append(submitted(f"j{number}", at_us, nodes=size, walltime_s=walltime_s))
    return events


def meters_are_read(random: Any, plain: Plain, at_s: float) -> tuple[list[Event], set[int] | None]:
    """Some of them, now and then."""
    if random.random() > 0.15:
        return [], None
    found = {node for node in range(plain.nodes) if random.random() < 0.5}
    return [read(at_s - 1, *(f"p1-{node:04d}" for node in sorted(found)))], found


@pytest.mark.parametrize("nodes", [1, 2, 3])
@settings(max_examples=4, deadline=None)
@given(random=st.randoms(use_true_random=False), spare=st.integers(0, 3))
def test_any_telemetry_rounds_and_restarts_keep_to_the_plain_rule(
    nodes: int, random: Any, spare: int
) -> None:
    """No start takes place that the cap has no nameplate watts for, and what is published and shown
    is what follows from what was read."""
    cap_w = nodes * IDLE_W + spare * (NAMEPLATE_W - IDLE_W) + 250
    region = MeteredRegion(nodes, cap_w, rules={"cap_measures": (), "meter_silence_s": SHORT_S})
    plain, at_s, told = Plain(nodes), 0.0, 0
    for number in range(24):
        at_s += random.choice([60, 60, 60, 7_200])
        events, read_now = meters_are_read(random, plain, at_s)
        feed(region.processor, events + something_happens(random, plain, number, at_s))
        if random.random() < 0.2:
            region.restart()
        plain.pass_time(at_s, read_now)
        published = region.round_at(at_s)
        starts = region.confirm_starts(published)
        plain.held |= starts
        for names in silent(published):
            found = {name for text in names for name in expand(text)}
            assert found == {f"p1-{node:04d}" for node in plain.silent}
            told = len(plain.silent)
        assert told == len(plain.silent) == region.standing.silent_nodes
        assert region.standing.committed_w == pytest.approx(plain.committed_w())
        assert not starts or nodes * IDLE_W + plain.committed_w() <= cap_w


@pytest.mark.parametrize("power_mw", [0, 49_000, 751_000, 65_535_000])
def test_a_meter_that_shows_what_no_node_in_use_draws_is_as_good_as_silent(power_mw: int) -> None:
    """The node idles at 100 W and draws 500 W at most: after ten minutes it counts for that, and
    what was shown of it counts for nothing."""

    def standing_after(power_mw: int | None) -> PowerStanding:
        region = MeteredRegion(2, 200 + 433)
        region.run(0, submitted("a"))
        region.run(60, read(60, "p1-0000", powers_mw=[300_000]))
        for minute in range(2, 25):
            readings = () if power_mw is None else (power_mw,)
            told = [read(60 * minute, "p1-0000", powers_mw=[mw]) for mw in readings]
            region.run(60 * minute, *told)
        return region.standing

    silent = standing_after(None)
    assert (silent.silent_nodes, silent.committed_w, silent.headroom_w) == (1, 400.0, 33.0)
    assert standing_after(power_mw) == silent
    assert standing_after(300_000).committed_w == PREDICTED_W - 100.0
