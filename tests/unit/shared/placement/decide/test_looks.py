"""Slurm's backfill as the discipline of a site: placement decides as the simulator does."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, inf
from typing import Any, Final
from unittest.mock import patch

from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER, POWER_SCOPE_REGION
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_NOT_TRIED, CONSTRAINT_KIND_RESERVATION
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.queue_discipline import QueueDiscipline
from shared.placement.decide.layer import DecideLayer
from shared.placement.processor.placement import Placement
from shared.scheduling.backfill import Backfill, Dispatch
from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.forecast import StartsAhead
from shared.scheduling.load import Load
from shared.scheduling.slurm import SlurmBackfill
from shared.scheduling.slurm_nodes import SlurmNodesScheduler
from shared.scheduling.wait_queue import Entry, WaitQueue
from shared.streams.stages.stage import Round
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import APPS, CORES, T0_US, answered, round_of, starts

NODES: Final = 4
_SECOND_US: Final = 1_000_000
_T0_S: Final = T0_US / 1e6
# By job: when after T0 it is submitted, s, its nodes, the hours of its limit, its application, and
# which part of its limit it runs for.
Submission = tuple[int, int, int, int, float]
Starts = dict[int, tuple[str, float]]


def slurm(**rules: Any) -> dict[str, Any]:
    return {"discipline": QueueDiscipline.SLURM, **rules}


@st.composite
def workloads(draw: st.DrawFn) -> list[Submission]:
    """Jobs by submission."""
    jobs: list[Submission] = []
    submit_s = 0
    for _ in range(draw(st.integers(1, 12))):
        submit_s += draw(st.integers(0, 1200))
        nodes, hours = draw(st.integers(1, NODES)), draw(st.integers(1, 4))
        share = draw(st.sampled_from([0.1, 0.5, 0.9]))
        jobs.append((submit_s, nodes, hours, draw(st.integers(0, 7)), share))
    return jobs


def run_s(entry: Entry, share: float) -> int:
    return max(1, int(entry.limit_s * share))


@contextmanager
def noted_entries() -> Iterator[dict[int, dict[str, Entry]]]:
    """The entries of each arrival by cluster, as passes find them in the queue."""
    found: dict[int, dict[str, Entry]] = {}
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

    def __init__(self, rules: dict[str, Any], *, is_killed: bool) -> None:
        self._settings = PolicySettings(start_timeout_s=0.0, **rules)
        self._state: dict[str, bytes] = {}
        self._is_killed, self._number = is_killed, 0
        self.placement = Placement({}, self._settings, 7.0)
        region.feed(self.placement, region.models(NODES))

    def play(self, jobs: list[Submission], entries: dict[int, dict[str, Entry]]) -> Starts:
        """When and where each job starts."""
        found: Starts = {}
        coming = {n: submit_s for n, (submit_s, *_) in enumerate(jobs)}
        ends_s: dict[int, int] = {}
        told: list[Event] = []
        while coming or ends_s:
            looks_s = min(self.placement.layers.decide.looks.due_s(), default=inf) - _T0_S
            now_s = min([*coming.values(), *ends_s.values(), looks_s])
            now_us = T0_US + ceil(now_s * 1e6)
            for number in [n for n, end_s in ends_s.items() if end_s <= now_s]:
                del ends_s[number]
                told.append(region.finished(f"j{number}", now_us, grant=1))
            for number in [n for n, submit_s in coming.items() if submit_s <= now_s]:
                del coming[number]
                _, nodes, hours, app, _ = jobs[number]
                asked: dict[str, Any] = {
                    "nodes": nodes,
                    "walltime_s": 3600.0 * hours,
                    "app_id": APPS[app],
                }
                told.append(region.submitted(f"j{number}", now_us, **asked))
            decided = self._end_round(now_us, told)
            told = [region.started(each) for each in decided if each.job_id in starts([each])]
            for each in decided:
                if each.job_id in starts([each]):
                    number = int(each.job_id.removeprefix("j"))
                    found[number] = each.cluster, now_s
                    [entry] = [
                        by[each.cluster]
                        for by in entries.values()
                        if self._arrival(number) == by[next(iter(by))].arrival
                    ]
                    ends_s[number] = int(now_s) + run_s(entry, jobs[number][4])
        return found

    def _arrival(self, number: int) -> int:
        job = self.placement.layers.state.jobs.get(f"j{number}")
        assert job is not None
        return job.arrival

    def _end_round(self, now_us: int, told: list[Event]) -> list[Any]:
        region.feed(self.placement, told)
        decided = region.decisions(self.placement.end_round(Round(self._number, now_us)))
        self._number += 1
        if self._is_killed:
            self._state = region.saved(self._state, self.placement.changes())
            self.placement = Placement(self._state, self._settings, 7.0)
        return decided


def simulated(
    jobs: list[Submission], entries: dict[int, dict[str, Entry]], rules: SlurmBackfill
) -> Starts:
    """The same by the schedulers of the simulator, of the entries that placement made."""
    names = sorted({name for by in entries.values() for name in by})
    schedulers = [
        SlurmNodesScheduler(Load(NODES, NODES), WaitQueue(), rules, n) for n in range(len(names))
    ]
    numbers = {arrival: n for n, arrival in enumerate(sorted(entries))}
    arrivals = (
        tuple((names.index(name), entry) for name, entry in sorted(entries[arrival].items()))
        for arrival in sorted(entries)
    )

    def runs_s(served: Served) -> float:
        _, entry, _, _ = served
        return run_s(entry, jobs[numbers[entry.arrival]][4])

    submit_s = [float(submit_s) for submit_s, *_ in jobs]
    engine = Engine(Backfill(schedulers, arrivals), submit_s, runs_s, submit_s[0])
    found: Starts = {}
    while not engine.is_over:
        for number, entry, _, _ in engine.step():
            found[numbers[entry.arrival]] = names[number], engine.now_s
    return found


@given(
    workloads(),
    st.sampled_from([1, 2, 500]),
    st.sampled_from([600.0, 86_400.0]),
    st.sampled_from([30.0, 450.0]),
    st.sampled_from([0, 3, 5]),
    st.booleans(),
)
@settings(max_examples=25)
def test_placement_starts_what_the_simulator_starts_killed_or_not(
    jobs: list[Submission],
    depth: int,
    window_s: float,
    interval_s: float,
    records: int,
    is_killed: bool,
) -> None:
    rules = SlurmBackfill(depth, window_s, interval_s, records)
    said = slurm(bf_depth=depth, bf_window_s=window_s, bf_interval_s=interval_s, bf_records=records)
    with noted_entries() as entries:
        online = Site(said, is_killed=is_killed).play(jobs, entries)
    assert online == simulated(jobs, entries, rules)


# On p1 alone: three of four nodes for an hour, then three for the next, then all for the third.
FIRST: Final = [("a", 3), ("b", 3), ("c", 4)]
LONG_S: Final = 9000.0


def crowded(**rules: Any) -> Placement:
    """A region after its first round, at 30 s: a runs, b and c wait, a node is free."""
    placement = region.placement(NODES, **rules)
    region.feed(placement, [region.lost("p2", T0_US)])
    jobs = [region.submitted(name, nodes=nodes) for name, nodes in FIRST]
    assert starts(round_of(placement, 0, *jobs)) == ["a"]
    return placement


def small(name: str = "d", walltime_s: float = LONG_S) -> Event:
    return region.submitted(name, T0_US + 31 * _SECOND_US, walltime_s=walltime_s)


def why(placement: Placement, job_id: str) -> str:
    """Why a job does not start on p1."""
    return region.on(answered(placement, job_id), "p1").constraint


def test_a_job_that_delays_the_second_reservation_starts_under_easy_alone() -> None:
    assert starts(round_of(crowded(), 1, small())) == ["d"]
    placement = crowded(**slurm())
    [decided] = round_of(placement, 1, small())
    assert starts([decided]) == []
    [constraint] = region.on(decided, "p1").constraints
    assert constraint.kind == CONSTRAINT_KIND_RESERVATION
    assert (constraint.by, constraint.available) == ("c", 0)
    assert "after the reservation of c at 2026-01-01T02:00:30Z" in why(placement, "d")


def test_each_job_that_waits_is_promised_its_reservation() -> None:
    placement = crowded(**slurm())
    promised = [answered(placement, name).reservation.start_at_us - T0_US for name in "bc"]
    assert promised == [3630 * _SECOND_US, 7230 * _SECOND_US]
    one = crowded(**slurm(bf_window_s=3700.0))
    assert answered(one, "b").HasField("reservation")
    assert not answered(one, "c").HasField("reservation")


def test_what_arrives_between_two_looks_awaits_the_next() -> None:
    placement = crowded(**slurm(bf_interval_s=300.0))
    [decided] = round_of(placement, 1, small(walltime_s=60.0))
    [constraint] = region.on(decided, "p1").constraints
    assert constraint.kind == CONSTRAINT_KIND_NOT_TRIED
    assert constraint.until_us == T0_US + 330 * _SECOND_US
    assert why(placement, "d") == "Slurm's backfill looks again at 2026-01-01T00:05:30Z"
    wake_us = placement.wake_us()
    assert wake_us is not None
    assert wake_us <= T0_US + 330 * _SECOND_US
    assert [starts(round_of(placement, number)) for number in (9, 10)] == [[], ["d"]]


def test_a_job_behind_the_end_of_a_look_is_told_where_that_was() -> None:
    ended = "Slurm's backfill looks again at 2026-01-01T00:01:30Z: its last look ended "
    shallow, small_table = crowded(**slurm(bf_depth=2)), crowded(**slurm(bf_records=2))
    for placement in (shallow, small_table):
        round_of(placement, 1, small(walltime_s=60.0))
    assert why(shallow, "d") == f"{ended}after 2 jobs"
    assert why(small_table, "d") == f"{ended}when its table had 2 records"


def test_a_forecast_plays_the_discipline_from_the_last_look_on() -> None:
    placement = crowded(**slurm(bf_interval_s=300.0))
    round_of(placement, 1, small(walltime_s=60.0))
    snapshot = placement.queries.snapshot()
    ahead = dict(StartsAhead(snapshot.now_s, snapshot.schedulers).starts())
    expected = [ahead[placement.queries.arrival(name) or 0].start_s - _T0_S for name in "dbc"]
    assert expected == [330.0, 3630.0, 7230.0]
    # A forecast is of a copy.
    assert [starts(round_of(placement, number)) for number in (9, 10)] == [[], ["d"]]


def test_a_restart_between_two_looks_decides_and_explains_the_same() -> None:
    twins = region.Twins(lambda: crowded(**slurm(bf_interval_s=300.0, bf_depth=2)))
    twins.kill()
    twins.round_of(1, small(walltime_s=60.0), small("e", 120.0))
    for number in range(2, 130):
        twins.kill()
        twins.round_of(number)
        words = [why(each, "e") for each in (twins.lived, twins.killed) if _waits(each, "e")]
        assert len(set(words)) <= 1


def _waits(placement: Placement, job_id: str) -> bool:
    return placement.queries.arrival(job_id) is not None


def test_what_looks_left_goes_with_the_discipline() -> None:
    placement = crowded(**slurm())
    assert [*placement.layers.decide.looks.due_s()]
    declared = region.policy(T0_US + 31 * _SECOND_US, discipline="easy")
    assert starts(round_of(placement, 1, declared, small())) == ["d"]
    assert not [*placement.layers.decide.looks.due_s()]
    again = region.policy(T0_US + 61 * _SECOND_US, discipline="slurm")
    round_of(placement, 2, again, small("e"))
    assert why(placement, "e") == "needs 1 nodes, 0 free"
    assert [*placement.layers.decide.looks.due_s()]


def test_under_a_shared_cap_a_cluster_is_under_easy() -> None:
    capped = crowded(**slurm())
    cap = region.capped(POWER_SCOPE_REGION, "", (0, 1e6), time_us=T0_US + 31_000_000)
    assert starts(round_of(capped, 1, cap, small())) == ["d"]
    told = capped.queries.policy().under_easy
    assert told["p1"] == "a cap of power is over it and other clusters"
    assert crowded(**slurm()).queries.policy().under_easy == {}


def part(name: str, cores: int, walltime_s: float = LONG_S) -> Event:
    """A job that leaves the other cores of its node to others."""
    return region.submitted(
        name, T0_US + 31_000_000, cores_per_unit=cores, shareable=True, walltime_s=walltime_s
    )


def test_parts_of_nodes_are_planned_and_what_they_would_delay_is_named() -> None:
    """A node is free until all four are reserved for c."""
    easy, placement = crowded(), crowded(**slurm(bf_interval_s=1.0))
    half = CORES["p1"] // 2
    assert starts(round_of(easy, 1, part("d", half))) == ["d"]
    assert starts(round_of(placement, 1, part("d", half), part("e", half, 60.0))) == ["e"]
    [constraint] = region.on(answered(placement, "d"), "p1").constraints
    assert (constraint.kind, constraint.by) == (CONSTRAINT_KIND_RESERVATION, "c")
    assert "leave less than the reservation of c at" in why(placement, "d")
    assert placement.queries.policy().under_easy == {}
    promised = [answered(placement, name).reservation.start_at_us for name in "bcd"]
    assert promised == sorted(promised)


def test_a_restart_decides_and_explains_parts_of_nodes_the_same() -> None:
    twins = region.Twins(lambda: crowded(**slurm(bf_interval_s=300.0)))
    twins.kill()
    twins.round_of(1, part("d", 1), part("e", 1, 120.0), part("f", 2, 60.0))
    for number in range(2, 40):
        twins.kill()
        twins.round_of(number)
        for name in "def":
            if _waits(twins.lived, name) and _waits(twins.killed, name):
                assert why(twins.lived, name) == why(twins.killed, name)


def test_watts_are_reserved_for_all_that_wait_under_the_cap_of_a_cluster() -> None:
    """A node draws 280 W beyond idle. a has one, b awaits the watts of three: 900 W are there."""
    placement = region.placement(NODES, **slurm())
    cap = region.capped(POWER_SCOPE_CLUSTER, "p1", (0, 1300.0), time_us=T0_US - 1)
    region.feed(placement, [cap, region.lost("p2", T0_US)])
    jobs = [region.submitted(job_id, nodes=nodes) for job_id, nodes in [("a", 1), ("b", 3)]]
    assert starts(round_of(placement, 0, *jobs)) == ["a"]
    assert starts(round_of(placement, 1, small(), small("e", 60.0))) == ["e"]
    [shortage] = region.on(answered(placement, "d"), "p1").power.shortages
    assert (shortage.reserved_for, shortage.needed_w) == ("b", 280)
    promised = answered(placement, "b").reservation
    assert promised.start_at_us == T0_US + 3630 * _SECOND_US
    kept = placement.layers.budgets.reserved.reservations
    assert [(each.draw_mw, each.start_s - _T0_S) for each in kept][:1] == [(840_000, 3630.0)]
