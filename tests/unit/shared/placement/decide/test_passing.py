"""Backfill by predicted run times as the choice of a site: placement decides as the simulator
does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from coplace.v1.control_pb2 import POWER_SCOPE_REGION
from coplace.v1.placement_pb2 import PlacementDecided
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.runtimes import Runtimes
from shared.placement.decide.layer import DecideLayer
from shared.placement.decide.published_decisions import recalled
from shared.placement.processor.placement import Placement
from shared.scheduling.backfill import Backfill, Dispatch
from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.load import Load
from shared.scheduling.runtimes import PredictedScheduler, UserRuntimes
from shared.scheduling.wait_queue import Entry, WaitQueue
from shared.streams.stages.stage import Round
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import APPS, T0_US, answered, round_of, starts

NODES: Final = 4
_SECOND_US: Final = 1_000_000
# By job: when after T0 it is submitted, s, its nodes, the hours of its limit, its application, its
# user, and for how long it runs, s.
Submission = tuple[int, int, int, int, int, int]
Starts = dict[int, tuple[str, int]]
Entries = dict[int, dict[str, Entry]]


def predicted(**rules: Any) -> dict[str, Any]:
    return {"runtimes": Runtimes.PREDICTED, **rules}


@st.composite
def workloads(draw: st.DrawFn) -> list[Submission]:
    """Jobs by submission; those of user 0 are short, whatever they ask for."""
    jobs: list[Submission] = []
    submit_s = 0
    for _ in range(draw(st.integers(1, 20))):
        submit_s += draw(st.integers(0, 900))
        nodes, hours = draw(st.integers(1, NODES)), draw(st.integers(1, 4))
        user = draw(st.integers(0, 2))
        run_s = draw(st.integers(60, 3600 if user else 300))
        jobs.append((submit_s, nodes, hours, draw(st.integers(0, 7)), user, run_s))
    return jobs


@contextmanager
def noted_entries() -> Iterator[Entries]:
    """The entries of each arrival by cluster, as passes find them in the queue."""
    found: Entries = {}
    pass_over_queue = DecideLayer.pass_over_queue

    def note(layer: DecideLayer, now_s: float) -> Dispatch:
        for job in layer.waiting_jobs.jobs():
            if entries := layer.waiting_jobs.entries(job):
                found.setdefault(job.arrival, {}).update(entries)
        return pass_over_queue(layer, now_s)

    with patch.object(DecideLayer, "pass_over_queue", note):
        yield found


class Site:
    """Placement of a region that obeys at once; it is killed after each round where it is to be."""

    def __init__(self, rules: dict[str, Any], *, is_alone: bool, is_killed: bool) -> None:
        self._settings = PolicySettings(start_timeout_s=0.0, **rules)
        self._state: dict[str, bytes] = {}
        self._is_killed, self._number = is_killed, 0
        self.placement = Placement({}, self._settings, 7.0)
        region.feed(self.placement, region.models(NODES))
        if is_alone:
            region.feed(self.placement, [region.lost("p2", T0_US)])
        self.passed = 0

    def play(self, jobs: list[Submission]) -> Starts:
        """When and where each job starts."""
        found: Starts = {}
        coming = {n: submit_s for n, (submit_s, *_) in enumerate(jobs)}
        ends_s: dict[int, int] = {}
        told: list[Event] = []
        while coming or ends_s:
            now_s = min([*coming.values(), *ends_s.values()])
            now_us = T0_US + now_s * _SECOND_US
            for number in [n for n, end_s in sorted(ends_s.items()) if end_s <= now_s]:
                del ends_s[number]
                _, at_s = found[number]
                began_us = T0_US + at_s * _SECOND_US
                told.append(region.finished(f"j{number}", now_us, grant=1, started_at_us=began_us))
            for number in [n for n, submit_s in coming.items() if submit_s <= now_s]:
                del coming[number]
                _, nodes, hours, app, user, _ = jobs[number]
                asked: dict[str, Any] = {
                    "nodes": nodes,
                    "walltime_s": 3600.0 * hours,
                    "app_id": APPS[app],
                }
                told.append(
                    region.submitted(
                        f"j{number}", now_us, user=f"u{user}", submitted_at_us=now_us, **asked
                    )
                )
            decided = self._end_round(now_us, told)
            told = []
            for each in decided:
                if each.job_id in starts([each]):
                    told.append(region.started(each))
                    number = int(each.job_id.removeprefix("j"))
                    found[number] = each.cluster, now_s
                    ends_s[number] = now_s + jobs[number][-1]
                    self.passed += each.predicted_runtime_s > 0
        return found

    def _end_round(self, now_us: int, told: list[Event]) -> list[PlacementDecided]:
        region.feed(self.placement, told)
        decided = region.decisions(self.placement.end_round(Round(self._number, now_us)))
        self._number += 1
        if self._is_killed:
            self._state = region.saved(self._state, self.placement.changes())
            self.placement = Placement(self._state, self._settings, 7.0)
        return decided


def simulated(jobs: list[Submission], entries: Entries, share: float) -> tuple[Starts, int]:
    """The same by the schedulers of the simulator, of the entries that placement made; and how many
    passed by their predictions.

    By the clock of placement: sums of its seconds and of a limit that ends in ...0005 are rounded
    alike then.
    """
    names = sorted({name for by in entries.values() for name in by})
    t0_s = T0_US / 1e6
    users, submit_s = [job[4] for job in jobs], [t0_s + job[0] for job in jobs]
    history = UserRuntimes(users, submit_s, [float(job[-1]) for job in jobs])
    schedulers = [
        PredictedScheduler(Load(NODES, NODES), WaitQueue(), history, n, (), share)
        for n in range(len(names))
    ]
    arrivals = (
        tuple((names.index(name), entry) for name, entry in sorted(entries[arrival].items()))
        for arrival in sorted(entries)
    )

    def runs_s(served: Served) -> float:
        _, entry, _, _ = served
        return float(jobs[entry.arrival][-1])

    engine = Engine(Backfill(schedulers, arrivals), submit_s, runs_s, submit_s[0])
    found: Starts = {}
    while not engine.is_over:
        for number, entry, _, _ in engine.step():
            found[entry.arrival] = names[number], round(engine.now_s - t0_s)
    return found, sum(len(scheduler.passed_s) for scheduler in schedulers)


# Job 8 asks for 3600.0000000000005 s, and is to end with a job that asks for 3600.
_ROUNDED: Final = [
    (0, 3, 1, 0, 0, 180),
    (0, 1, 1, 0, 0, 60),
    (0, 3, 1, 0, 0, 180),
    (0, 2, 1, 0, 0, 60),
    (0, 3, 1, 0, 0, 60),
    *[(0, 1, 1, 0, 0, 60)] * 3,
    (0, 2, 1, 1, 0, 60),
    *[(0, 1, 1, 0, 0, 60)] * 3,
]


@given(workloads(), st.sampled_from([0.05, 0.5, 1.0]), st.booleans(), st.booleans())
@settings(max_examples=25)
@example(jobs=_ROUNDED, share=0.05, is_alone=False, is_killed=False)
def test_placement_starts_what_the_simulator_starts_killed_or_not(
    jobs: list[Submission], share: float, is_alone: bool, is_killed: bool
) -> None:
    site = Site(predicted(passing_share=share), is_alone=is_alone, is_killed=is_killed)
    with noted_entries() as entries:
        online = site.play(jobs)
    assert (online, site.passed) == simulated(jobs, entries, share)


# On p1 alone: user u0's two jobs were short. a has three nodes for two hours, b waits for two.
def crowded(**rules: Any) -> Placement:
    """A region after three rounds, at 90 s: a node is free."""
    placement = region.placement(NODES, **rules)
    region.feed(placement, [region.lost("p2", T0_US)])
    short = [region.submitted(name, user="u0") for name in ("x", "y")]
    assert starts(round_of(placement, 0, *short)) == ["x", "y"]
    ended = [
        region.finished(
            name, T0_US + 31 * _SECOND_US, grant=1, started_at_us=T0_US + number * _SECOND_US
        )
        for number, name in enumerate(("x", "y"), 1)
    ]
    wide = [
        region.submitted(name, T0_US + 40 * _SECOND_US, user="u1", nodes=nodes, walltime_s=7200.0)
        for name, nodes in (("a", 3), ("b", 2))
    ]
    assert starts(round_of(placement, 1, *ended, *wide)) == ["a"]
    return placement


def later(name: str, user: str, walltime_s: float = 4000.0, nodes: int = 1) -> Event:
    asked: dict[str, Any] = {"user": user, "walltime_s": walltime_s, "nodes": nodes}
    return region.submitted(name, T0_US + 2900 * _SECOND_US, **asked)


def both() -> tuple[Event, Event]:
    """One node is free, and b is promised two at 7,260 s: either ends before."""
    return later("d", "u1", 3000.0), later("e", "u0")


def test_the_shortest_by_its_users_runs_passes_before_what_came_earlier() -> None:
    by_requests, by_runs = crowded(), crowded(**predicted(passing_share=1.0))
    assert starts(round_of(by_requests, 99, *both())) == ["d"]
    decided = round_of(by_runs, 99, *both())
    assert starts(decided) == ["e"]
    [start] = [each for each in decided if each.job_id == "e"]
    assert (start.backfilled, start.predicted_runtime_s) == (True, 29.5)
    assert answered(by_runs, "e").allocation.passed_as_predicted_s == 29.5
    assert answered(by_requests, "d").allocation.passed_as_predicted_s == 0.0
    assert region.on(answered(by_runs, "d"), "p1").constraint == "needs 1 nodes, 0 free"


def test_where_nothing_may_pass_by_predictions_the_order_of_the_queue_counts() -> None:
    placement = crowded(**predicted(passing_share=0.0))
    assert starts(round_of(placement, 99, *both())) == ["d"]
    assert answered(placement, "d").allocation.passed_as_predicted_s == 0.0


def test_a_job_that_waits_is_told_what_its_users_runs_predict() -> None:
    placement, by_requests = crowded(**predicted(passing_share=0.0)), crowded()
    for each in (placement, by_requests):
        round_of(each, 99, later("c", "u0", 9000.0, nodes=2))
    assert answered(placement, "c").predicted_runtime_s == 29.5
    assert answered(placement, "b").predicted_runtime_s == 0.0
    assert answered(by_requests, "c").predicted_runtime_s == 0.0


def test_what_ran_before_the_policy_chose_predictions_counts_from_then_on() -> None:
    chosen: dict[str, Any] = {"runtimes": "predicted", "passing_share": 1.0}
    declared = region.policy(T0_US + 2800 * _SECOND_US, **chosen)
    assert starts(round_of(crowded(), 99, declared, *both())) == ["e"]


def test_a_start_that_was_declined_counts_no_more_among_what_passed() -> None:
    placement = crowded(**predicted(passing_share=1.0))
    decided = round_of(placement, 99, later("e", "u0"))
    [start] = [each for each in decided if each.job_id in starts([each])]
    assert _predicted_s(placement) == 29.5
    region.feed(placement, [region.declined(start, T0_US + 3001 * _SECOND_US)])
    assert _predicted_s(placement) == 0.0


def test_a_restart_that_replays_a_published_start_counts_it_among_what_passed() -> None:
    placement = crowded(**predicted(passing_share=1.0))
    state = region.saved(placement.changes())
    ended = Round(99, region.end_us(99))
    region.feed(placement, [later("e", "u0")])
    published = [each.event for each in placement.end_round(ended)]
    state = region.saved(state, recalled(state, published, 99))
    restored = Placement(state, placement.layers.state.models.rules.started, 7.0)
    region.feed(restored, [later("e", "u0")])
    restored.end_round(ended)
    assert _predicted_s(restored) == _predicted_s(placement) == 29.5


def _predicted_s(placement: Placement) -> float:
    job = placement.layers.state.jobs.known("e")
    return placement.layers.decide.passing.predicted_s(job)


def test_beside_parts_of_nodes_or_under_a_shared_cap_requests_count() -> None:
    capped = crowded(**predicted())
    cap = region.capped(POWER_SCOPE_REGION, "", (0, 1e6), time_us=T0_US + 61_000_000)
    round_of(capped, 2, cap)
    assert (
        capped.queries.policy().under_easy["p1"] == "a cap of power is over it and other clusters"
    )
    shared = crowded(**predicted())
    round_of(
        shared, 29, region.submitted("e", T0_US + 800_000_000, cores_per_unit=1, shareable=True)
    )
    assert shared.queries.policy().under_easy == {
        "p1": "a job has or wants parts of its nodes, or may run on some alone"
    }
    assert crowded(**predicted()).queries.policy().under_easy == {}
