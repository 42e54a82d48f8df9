"""What runs gives up watts, so that a job may start which waits for them alone.

App 0 draws 280 W beyond idle on a node of p1 at 2.7 GHz, 207 W at 2.3 GHz and 66 W at 1.2 GHz, the
lowest P-state; nodes idle at 100 W each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER
from coplace.v1.placement_pb2 import (
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
    PlacementDecided,
)

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cap_measures import Measure
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement, repaired
from tests.unit.shared.placement.region import (
    T0_US,
    cancelled,
    capped,
    committed_w,
    declared,
    done,
    end_us,
    feed,
    finished,
    held,
    models,
    policy,
    refused,
    released,
    round_of,
    saved,
    started,
    starts,
    submitted,
    suspended,
    verdict,
    verdicts,
)

LONG_S, SHORT_S = 86_400.0, 600.0


@dataclass
class Region:
    """Jobs run on p1 alone, whose cap is in watts beyond idle."""

    nodes: int = 4
    rules: dict[str, Any] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        self.state: dict[str, bytes] = {}
        self.settings = PolicySettings(Policy.BASE, **({"cap_sharing": True} | self.rules))
        self.placement = Placement({}, self.settings, 7.0)
        feed(self.placement, models(self.nodes))
        feed(self.placement, [declared("p1", self.nodes, T0_US + 1, architecture="p1")])

    @property
    def now_us(self) -> int:
        return T0_US + self.number * 30_000_000

    def job(self, name: str, walltime_s: float = SHORT_S, **changes: Any) -> Event:
        changes |= {"walltime_s": walltime_s, "architectures": ["p1"]}
        return submitted(name, self.now_us + 1, **changes)

    def cap(self, watts: float | None, *later: tuple[int, float]) -> Event:
        steps = [(0, watts), *later]
        beyond = [(s, None if w is None else self.nodes * 100.0 + w) for s, w in steps]
        at_us = self.now_us + 2
        return capped(POWER_SCOPE_CLUSTER, "p1", *beyond, time_us=at_us, reason="heat wave")

    def close(self, *events: Event) -> list[PlacementDecided]:
        self.number += 1
        return round_of(self.placement, self.number - 1, *events)

    def run(self, *jobs: Event) -> None:
        """They start, and are confirmed."""
        for one in jobs:
            [start] = self.close(one)
            assert verdict(start) == "start"
            self.close(started(start))

    def obey(self, decided: Sequence[PlacementDecided]) -> list[Event]:
        return [done(d, self.now_us) for d in decided if verdict(d) == "action"]

    def restart(self) -> None:
        self.state = saved(self.state, self.placement.changes())
        self.placement = Placement(self.state, self.settings, 7.0)


def asked(decided: Sequence[PlacementDecided]) -> list[tuple[str, float]]:
    """Job and P-state of each action, all of which are to set one."""
    found = [d for d in decided if verdict(d) == "action"]
    assert all(d.action.kind == ACTION_KIND_SET_PSTATE for d in found)
    return [(d.job_id, d.action.freq_ghz) for d in found]


def of(decided: Sequence[PlacementDecided], job_id: str) -> PlacementDecided:
    return next(d for d in decided if d.job_id == job_id)


def with_long_jobs(*names: str, watts: float, nodes: int = 4, **rules: Any) -> Region:
    region = Region(nodes, rules)
    feed(region.placement, [region.cap(watts)])
    region.run(*[region.job(name, LONG_S) for name in names])
    return region


def test_what_runs_is_clocked_down_for_a_job_that_lacks_watts_alone() -> None:
    region = with_long_jobs("a", watts=500.0)
    found = region.close(region.job("b"))
    assert asked(found) == [("a", 2.3)]
    why = (
        "needs 280 W, 220 W left under the power cap of cluster p1 (declared by test: heat wave), "
        "until 2026-01-02T00:00:30Z"
    )
    assert of(found, "a").reason == f"set P-state to 2.3 GHz: so that b may start, which {why}"
    [shortage] = of(found, "a").action.power.shortages
    assert (shortage.needed_w, shortage.available_w, shortage.name) == (280.0, 220.0, "p1")
    assert of(found, "b").reason == f"p1: {why}"


@pytest.mark.parametrize(("share", "expected"), [(1.02, []), (1.5, [("a", 2.3)])])
def test_nobody_is_clocked_down_past_its_deadline(
    share: float, expected: list[tuple[str, float]]
) -> None:
    region = Region()
    feed(region.placement, [region.cap(500.0)])
    deadline_us = region.now_us + round(share * LONG_S * 1e6)
    region.run(region.job("a", LONG_S, deadline_at_us=deadline_us))
    assert asked(region.close(region.job("b"))) == expected


def test_without_the_setting_nothing_is_asked() -> None:
    region = with_long_jobs("a", watts=500.0, cap_sharing=False)
    assert asked(region.close(region.job("b"))) == []
    assert asked(region.close(policy(region.now_us, cap_sharing=True))) == [("a", 2.3)]


def test_the_job_starts_when_the_answers_have_come_and_never_before() -> None:
    region = with_long_jobs("a", watts=500.0)
    found = region.close(region.job("b"))
    assert region.close() == []
    assert committed_w(region.placement) == 280.0
    [start] = region.close(*region.obey(found))
    assert (start.job_id, verdict(start), start.freq_ghz) == ("b", "start", 2.7)
    assert committed_w(region.placement) == pytest.approx(487.0, abs=0.1)


def test_nobody_is_slowed_down_where_that_costs_more_than_the_start_gains() -> None:
    """A minute of waiting counts as much as that of whoever runs as long."""
    region = Region()
    feed(region.placement, [region.cap(500.0)])
    region.run(region.job("a", SHORT_S))
    [queued] = region.close(region.job("b", LONG_S))
    assert (queued.job_id, verdict(queued)) == ("b", "queued")


def test_those_are_slowed_down_who_lose_least_a_watt() -> None:
    region = Region()
    feed(region.placement, [region.cap(700.0)])
    region.run(region.job("a", SHORT_S), region.job("b", LONG_S))
    assert [name for name, _ in asked(region.close(region.job("c")))] == ["b"]


def test_nobody_who_comes_later_takes_what_is_kept() -> None:
    """440 W are left, of which job b needs all, and job c 280 W."""
    region = Region(5)
    feed(region.placement, [region.cap(1000.0)])
    region.run(region.job("a", LONG_S, nodes=2))
    found = region.close(region.job("b", nodes=2))
    assert [name for name, _ in asked(found)] == ["a"]
    [queued] = region.close(region.job("c", LONG_S))
    assert verdict(queued) == "queued"
    assert "beside the reservation of b" in queued.reason
    assert starts(region.close(*region.obey(found))) == ["b"]


def test_what_is_not_answered_in_time_keeps_watts_from_nobody() -> None:
    region = Region(5)
    feed(region.placement, [region.cap(1000.0)])
    region.run(region.job("a", LONG_S, nodes=2))
    region.close(region.job("b", nodes=2))
    region.close(region.job("c", LONG_S))
    assert region.placement.wake_us() == end_us(2) + 60_000_000
    assert starts(region.close()) == ["c"]


def test_who_gave_watts_is_clocked_up_when_they_are_back() -> None:
    region = with_long_jobs("a", watts=500.0)
    [start] = region.close(*region.obey(region.close(region.job("b"))))
    assert asked(region.close(started(start))) == []
    ended = finished("b", region.now_us)
    assert asked(region.close(ended)) == [("a", 2.7)]


def test_nobody_is_clocked_up_and_down_for_one_who_does_not_start() -> None:
    """Job b is held in the round in which its watts come, and released when job a has them again:
    for ten minutes nothing is asked for it."""
    region = with_long_jobs("a", watts=500.0)
    found = region.close(region.job("b"))
    back = region.close(*region.obey(found), held("b", region.now_us))
    assert asked(back) == [("a", 2.7)]
    feed(region.placement, [released("b", region.now_us + 1)])
    assert asked(region.close(*region.obey(back))) == []
    while region.number < 22:
        assert asked(region.close()) == []
    assert asked(region.close()) == [("a", 2.3)]


def test_whoever_refuses_is_not_asked_again_for_a_while() -> None:
    region = with_long_jobs("a", "b", watts=700.0)
    found = region.close(region.job("c"))
    assert [name for name, _ in asked(found)] == ["a", "b"]
    [back] = region.close(
        refused(of(found, "a"), region.now_us), done(of(found, "b"), region.now_us)
    )
    assert asked([back]) == [("b", 2.7)]
    feed(region.placement, region.obey([back]))
    while region.number < 24:
        assert asked(region.close()) == []
    assert [name for name, _ in asked(region.close())] == ["a", "b"]


def test_nobody_is_slowed_down_for_a_job_of_a_lower_priority() -> None:
    region = Region()
    feed(region.placement, [region.cap(500.0)])
    region.run(region.job("a", LONG_S, priority=1))
    assert asked(region.close(region.job("b"))) == []
    assert asked(region.close(region.job("c", priority=1))) == [("a", 2.3)]


def test_whoever_is_suspended_or_to_end_is_not_asked() -> None:
    region = with_long_jobs("a", watts=500.0)
    found = region.close(region.job("b"), suspended("a", region.now_us))
    assert [d.action.kind for d in found if verdict(d) == "action"] == [ACTION_KIND_SUSPEND]
    region = with_long_jobs("a", watts=500.0)
    assert asked(region.close(region.job("b"), cancelled("a", region.now_us))) == []


def test_room_is_made_for_one_job_on_a_cluster_at_a_time() -> None:
    region = with_long_jobs("a", "b", watts=700.0)
    found = region.close(region.job("c"), region.job("d"))
    assert all("so that c may start" in d.reason for d in found if verdict(d) == "action")
    [start, *others] = region.close(*region.obey(found))
    assert (start.job_id, verdict(start)) == ("c", "start")
    assert asked(others)
    assert all("so that d may start" in d.reason for d in others)


def test_a_lower_step_of_the_cap_ahead_is_made_room_for_too() -> None:
    region = Region()
    feed(region.placement, [region.cap(700.0, (300, 480.0))])
    region.run(region.job("a", LONG_S))
    found = region.close(region.job("b"))
    [(name, ghz)] = asked(found)
    assert (name, ghz) == ("a", 2.2)
    assert verdicts(region.close(*region.obey(found))) == [("b", "start")]


def test_no_reservation_is_delayed_by_who_runs_longer() -> None:
    """Job big was promised three of four nodes from the end of job a on."""
    region = Region()
    feed(region.placement, [region.cap(850.0)])
    region.run(region.job("a", LONG_S, nodes=2))
    [big] = region.close(region.job("big", LONG_S, nodes=3))
    assert big.reservation.start_at_us == end_us(0) + round(LONG_S * 1e6)
    assert asked(region.close(region.job("b", nodes=2))) == []
    assert asked(region.close(cancelled("big", region.now_us)))


@pytest.mark.parametrize(("watts", "is_asked"), [(743.0, False), (747.0, True)])
def test_all_together_would_draw_three_times_the_cap_at_most(watts: float, is_asked: bool) -> None:
    """Eight jobs want 2,240 W; at the lowest P-state seven of them draw 462 W."""
    region = Region(8, {"cap_measures": (Measure.LOWER_FREQUENCY,)})
    region.run(*[region.job(f"long-{n}", LONG_S) for n in range(7)])
    fell = region.close(region.cap(watts))
    assert asked(fell)
    region.close(*region.obey(fell))
    assert bool(asked(region.close(region.job("b")))) == is_asked


def test_the_margin_of_errors_is_made_room_for_too() -> None:
    region = with_long_jobs("a", watts=600.0, cap_risk=0.1, cap_power_sd=0.1)
    found = region.close(region.job("b"))
    assert [name for name, _ in asked(found)] == ["a"]
    assert verdicts(region.close(*region.obey(found))) == [("b", "start")]


def test_watts_that_a_wrong_clock_freed_in_the_future_are_freed_again_now() -> None:
    """The job would be served until that future otherwise, whoever refuses."""
    region = with_long_jobs("a", watts=500.0)
    region.number = 1_000_000
    found = region.close(region.job("b"))
    assert asked(found) == [("a", 2.3)]
    region.restart()
    region.number = 5
    assert "freed-watts|" not in repaired(region.state, end_us(1_000_000))
    region.state = saved(region.state, repaired(region.state, end_us(4)))
    region.placement = Placement(region.state, region.settings, 7.0)
    assert asked(region.close(refused(of(found, "a"), region.now_us))) == []
    assert [asked(region.close()) for _ in range(20)].count([("a", 2.3)]) == 1


@pytest.mark.parametrize("seed", range(9))
def test_whoever_was_killed_in_between_decides_the_same_and_no_cap_is_exceeded(seed: int) -> None:
    """Jobs come and end, caps rise, and answers come late, if at all."""
    rng, lived, killed = Random(seed), Region(12), Region(12)
    cap_w, runs, out = 1800.0, set[str](), list[PlacementDecided]()
    events = [lived.cap(cap_w)]
    asked_in: dict[str, list[int]] = {}
    for number in range(32):
        if rng.random() < 0.6:
            how = {"nodes": rng.randint(1, 2), "priority": rng.choice([0, 0, 1])}
            events.append(lived.job(f"job-{number}", rng.choice([SHORT_S, 3600.0, LONG_S]), **how))
        if runs and rng.random() < 0.3:
            gone = rng.choice(sorted(runs))
            runs.discard(gone)
            events.append(finished(gone, lived.now_us))
            out = [d for d in out if d.job_id != gone]
        for decided in [d for d in out if rng.random() < 0.5]:
            out.remove(decided)
            answer = refused if rng.random() < 0.1 else done
            events.append(answer(decided, lived.now_us))
        if rng.random() < 0.5:
            killed.restart()
        found = lived.close(*events)
        assert killed.close(*events) == found
        assert committed_w(lived.placement) <= cap_w + 1e-6
        runs |= {*starts(found)}
        events = [started(d) for d in found if verdict(d) == "start"]
        newer = [d for d in found if verdict(d) == "action"]
        out = [d for d in out if d.job_id not in {n.job_id for n in newer}] + newer
        for decided in newer:
            asked_in.setdefault(decided.job_id, []).append(number)
    assert len(asked_in) > 1
