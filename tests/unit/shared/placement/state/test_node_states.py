"""Nodes that are drained, or that failed too often, take no jobs; what runs there goes on, and who
resumes them has them back."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import NodesDrained
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import (
    NODE_STATE_ALLOCATED,
    NODE_STATE_DRAINED,
    NODE_STATE_DRAINING,
    NODE_STATE_IDLE,
    NODE_STATE_MIXED,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.explain.start_estimates import StartEstimates
from shared.placement.processor.placement import Placement, repaired
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    declared,
    drained,
    end_us,
    event,
    feed,
    finished,
    lost,
    on,
    placement,
    released,
    requeued,
    resumed,
    round_of,
    saved,
    started,
    submitted,
    verdict,
)

BOTH = ("p1", "p2")


def placed(decided: list[PlacementDecided]) -> dict[str, tuple[str, list[int]]]:
    """Where those run that start."""
    found = [d for d in decided if verdict(d) == "start"]
    return {d.job_id: (d.cluster, list(d.node_indices)) for d in found}


def only_p1(nodes: int = 4, **rules: Any) -> Placement:
    """A region whose p2 is out of reach."""
    processor = placement(nodes, **rules)
    feed(processor, [lost("p2", T0_US + 1)])
    return processor


def groups(processor: Placement, cluster: str = "p1") -> list[tuple[list[str], int, list[str]]]:
    found = processor.queries.nodes(cluster).groups
    return [(list(one.nodes), one.state, list(one.job_ids)) for one in found]


def test_a_drained_node_is_given_to_nobody_and_what_runs_there_goes_on() -> None:
    processor = only_p1()
    [running] = round_of(processor, 0, submitted("a", nodes=2))
    decided = round_of(
        processor,
        1,
        started(running),
        drained("p1", end_us(0), "p1-0000", "p1-0002"),
        submitted("b", end_us(0)),
        submitted("c", end_us(0) + 1),
    )
    assert placed(decided) == {"b": ("p1", [3])}
    [waiting] = [d for d in decided if d.job_id == "c"]
    assert waiting.reason == (
        "p1: needs 1 nodes, 0 free; 2 of 4 nodes are drained, such as one drained by test since "
        "2026-01-01T00:00:30Z: fan"
    )
    assert placed(round_of(processor, 2, finished("a", end_us(1)))) == {"c": ("p1", [1])}


def test_a_node_is_there_again_when_its_time_has_come_although_nothing_happens() -> None:
    processor = only_p1()
    until_us = end_us(9)
    feed(processor, [drained("p1", T0_US + 2, "p1-[0000-0003]", until_us=until_us)])
    [waiting] = round_of(processor, 0, submitted("a", T0_US + 3))
    assert verdict(waiting) == "queued"
    assert waiting.reservation.start_at_us == until_us
    assert processor.wake_us() == until_us
    assert round_of(processor, 8) == []
    assert placed(round_of(processor, 9)) == {"a": ("p1", [0])}


def test_a_forecast_counts_on_the_node_from_that_time_on() -> None:
    for parts in (False, True):
        processor = only_p1()
        feed(processor, [drained("p1", T0_US + 2, "p1-0000", until_us=end_us(9))])
        half = submitted("half", T0_US + 3, cores_per_unit=24) if parts else submitted("half")
        round_of(processor, 0, half, submitted("all", T0_US + 4, nodes=4, walltime_s=60.0))
        arrival = processor.queries.arrival("all")
        assert arrival is not None
        found = StartEstimates(processor.queries.snapshot(), 100).of(arrival)
        assert found is not None
        assert found.expected is not None
        assert found.expected.start_s * 1e6 == pytest.approx(T0_US + 3630 * 1e6)


def test_what_is_drained_until_a_time_is_not_backfilled_into_and_holds_no_longer() -> None:
    processor = only_p1()
    feed(processor, [drained("p1", T0_US + 2, "p1-[0002-0003]", until_us=end_us(3))])
    decided = round_of(
        processor,
        0,
        submitted("large", T0_US + 3, nodes=4, walltime_s=600.0),
        submitted("short", T0_US + 4, nodes=2, walltime_s=60.0),
        submitted("long", T0_US + 5, nodes=2, walltime_s=6000.0),
    )
    assert placed(decided) == {"short": ("p1", [0, 1])}
    assert placed(round_of(processor, 3, finished("short", end_us(2)))) == {
        "large": ("p1", [0, 1, 2, 3])
    }


@pytest.mark.parametrize("policy", list(Policy))
def test_a_whole_cluster_is_drained_and_jobs_go_elsewhere_under_every_policy(
    policy: Policy,
) -> None:
    processor = placement(policy=policy)
    feed(processor, [drained("p1", T0_US + 1, why="the pump is serviced")])
    [decided] = round_of(processor, 0, submitted("a", T0_US + 2))
    assert decided.cluster == "p2"
    assert on(decided, "p1").constraint == (
        "all 4 nodes are drained by test since 2026-01-01T00:00:00Z: the pump is serviced"
    )
    feed(processor, [resumed("p1", end_us(0))])
    assert placed(round_of(processor, 1, submitted("b", end_us(0) + 1)))["b"][0] == "p1"


def test_a_cluster_that_gets_more_nodes_while_it_is_drained_gives_none_of_them() -> None:
    processor = only_p1()
    feed(processor, [drained("p1", T0_US + 2), declared("p1", 8, T0_US + 3)])
    assert placed(round_of(processor, 0, submitted("a", T0_US + 4))) == {}


def test_a_node_that_is_told_of_by_itself_stays_as_it_was_told() -> None:
    """Whatever becomes of its cluster: one is resumed before the others, another stays drained."""
    processor = only_p1()
    whole = drained("p1", T0_US + 2, until_us=end_us(2))
    feed(
        processor, [whole, drained("p1", T0_US + 3, "p1-0000"), resumed("p1", T0_US + 4, "p1-0002")]
    )
    jobs = [submitted(name, T0_US + 5 + n) for n, name in enumerate("ab")]
    assert placed(round_of(processor, 0, *jobs)) == {"a": ("p1", [2])}
    assert placed(round_of(processor, 2)) == {"b": ("p1", [1])}


def test_words_of_before_change_nothing_and_copies_are_recognised() -> None:
    processor = only_p1()
    first, second = drained("p1", T0_US + 5, "p1-0000"), resumed("p1", T0_US + 9)
    feed(processor, [first, second])
    for late in (first, second, drained("p1", T0_US + 6, "p1-0001")):
        with pytest.raises(AlreadyAppliedError):
            list(processor.handle(late))
    assert groups(processor) == [(["p1-[0000-0003]"], NODE_STATE_IDLE, [])]


@pytest.mark.parametrize("nodes", [["p1-0004"], ["n7"], ["p1-0000", "p2-0001"]])
def test_nodes_that_nobody_declared_are_refused(nodes: list[str]) -> None:
    with pytest.raises(RejectedError, match="nodes"):
        list(placement().handle(drained("p1", T0_US + 1, *nodes)))
    with pytest.raises(RejectedError, match="cluster"):
        list(placement().handle(drained("p9", T0_US + 1)))


def run_and_fail(processor: Placement, number: int, job_id: str, attempt: int) -> list[int]:
    """Let an attempt run and its first node fail; the nodes that it had."""
    extra = [submitted(job_id, end_us(number - 1))] if attempt == 1 else []
    [start] = [d for d in round_of(processor, number, *extra) if verdict(d) == "start"]
    node = f"p1-{start.node_indices[0]:04d}"
    how = {"cluster": "p1", "failed_nodes": [node], "reason": "NODE_FAIL"}
    feed(processor, [started(start), requeued(job_id, end_us(number) + 1, attempt + 1, **how)])
    return list(start.node_indices)


def test_a_job_does_not_go_back_to_the_node_that_failed_under_it_while_others_are_free() -> None:
    processor = only_p1()
    nodes = [run_and_fail(processor, number, "a", number) for number in (1, 2, 3, 4)]
    assert nodes == [[0], [1], [2], [3]]


def test_a_node_that_failed_too_often_is_drained_with_an_event_that_says_why() -> None:
    processor = only_p1(1, most_node_failures=2)
    assert run_and_fail(processor, 1, "a", 1) == [0]
    assert run_and_fail(processor, 2, "a", 2) == [0]
    published = list(processor.end_round(Round(3, end_us(3))))
    [event] = [p.event for p in published if isinstance(p.event.payload, NodesDrained)]
    assert event.payload == NodesDrained(
        cluster="p1",
        nodes=["p1-0000"],
        reason="failed 2 times within 24 h, last under a, a",
        drained_at_us=end_us(3),
    )
    assert (event.source, event.key) == ("placement", "p1")
    again = Placement(saved(processor.changes()), PolicySettings(most_node_failures=2), 7.0)
    for one in (processor, again):
        assert placed(round_of(one, 4)) == {}
        decided = round_of(one, 5, resumed("p1", end_us(4), "p1-0000"))
        assert placed(decided) == {"a": ("p1", [0])}


def test_a_failure_is_counted_once_however_often_and_by_whom_it_is_told() -> None:
    processor = only_p1(1, most_node_failures=2)
    run_and_fail(processor, 1, "a", 1)
    how = {"cluster": "p1", "failed_nodes": ["p1-0000"]}
    for late_us in (5, 6):
        with pytest.raises(AlreadyAppliedError):
            list(processor.handle(requeued("a", end_us(1) + late_us, 2, **how)))
    assert placed(round_of(processor, 2)) == {"a": ("p1", [0])}


@pytest.mark.parametrize(("jumps", "drains"), [(0, True), (1, False), (2, True)])
def test_failures_of_long_ago_do_not_count_unless_a_clock_ahead_aged_them(
    jumps: int, drains: bool
) -> None:
    """No jump of the clock, one that is true, one that is repaired."""
    rules: dict[str, Any] = {"most_node_failures": 2, "node_failure_window_s": 300.0}
    processor = only_p1(1, **rules)
    run_and_fail(processor, 1, "a", 1)
    [start] = round_of(processor, 2)
    state = saved(processor.changes())
    number = 2
    if jumps:
        number = 1000 if jumps == 1 else 2
        assert processor.layers.state.nodes.failing("p1") == {0}
        round_of(processor, 1000)
        assert processor.layers.state.nodes.failing("p1") == set()
        state = saved(state, processor.changes())
        state = saved(state, repaired(state, end_us(number)))
    again = Placement(state, PolicySettings(**rules), 7.0)
    how = {"cluster": "p1", "failed_nodes": ["p1-0000"]}
    feed(again, [started(start), requeued("a", end_us(number) + 1, 3, **how)])
    assert bool(placed(round_of(again, number + 1))) != drains
    assert [state for _, state, _ in groups(again)] == [
        NODE_STATE_DRAINED if drains else NODE_STATE_ALLOCATED
    ]


def test_a_failure_on_a_node_that_nobody_knows_is_none_and_its_job_is_put_back() -> None:
    processor = only_p1()
    [start] = round_of(processor, 0, submitted("a"))
    how = {"cluster": "p1", "failed_nodes": ["n1"]}
    [again] = round_of(processor, 1, started(start), requeued("a", end_us(0) + 1, 2, **how))
    assert (again.attempt, verdict(again)) == (2, "start")


def test_a_job_that_was_put_back_too_often_is_held_until_it_is_released() -> None:
    processor = only_p1(most_requeues=2)
    for number in (1, 2):
        run_and_fail(processor, number, "a", number)
    [held] = round_of(processor, 3)
    assert (held.attempt, verdict(held)) == (3, "held")
    assert held.reason == "was requeued 2 times, last: NODE_FAIL: release it when that is repaired"
    again = Placement(saved(processor.changes()), PolicySettings(most_requeues=2), 7.0)
    for one in (processor, again):
        decided = round_of(one, 4, released("a", end_us(3)))
        assert [verdict(d) for d in decided] == ["start"]


def test_where_nodes_stand_is_told_in_groups_that_are_alike() -> None:
    processor = only_p1(6)
    [whole] = round_of(processor, 0, submitted("whole", nodes=2))
    decided = round_of(
        processor, 1, submitted("part", end_us(0), cores_per_unit=12, shareable=True)
    )
    [part] = [d for d in decided if verdict(d) == "start"]
    node = f"p1-{part.node_indices[0]:04d}"
    feed(processor, [drained("p1", end_us(1), "p1-0001", "p1-0005", until_us=end_us(99))])
    round_of(processor, 2, started(whole))
    assert groups(processor) == [
        (["p1-0000"], NODE_STATE_ALLOCATED, ["whole"]),
        (["p1-0001"], NODE_STATE_DRAINING, ["whole"]),
        ([node], NODE_STATE_MIXED, ["part"]),
        (["p1-[0003-0004]"], NODE_STATE_IDLE, []),
        (["p1-0005"], NODE_STATE_DRAINED, []),
    ]
    [group] = [g for g in processor.queries.nodes("p1").groups if g.state == NODE_STATE_DRAINED]
    assert (group.reason, group.drained_by, group.count) == ("fan", "test", 1)
    assert (group.drained_at_us, group.until_us) == (end_us(1), end_us(99))
    answer = processor.queries.nodes("")
    assert [(c.cluster, c.nodes) for c in answer.clusters] == [("p1", 6), ("p2", 6)]
    assert answer.clusters[1].closed.startswith("lost since")


Word = tuple[str, str, list[int]]
_WORDS = st.lists(
    st.tuples(
        st.sampled_from(["drain", "until", "resume"]),
        st.sampled_from(BOTH),
        st.lists(st.integers(0, 3), max_size=3, unique=True),
    ),
    max_size=3,
)
_JOBS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 0, 12])), max_size=3)


def told(words: list[Word], number: int) -> list[Event]:
    """The events of words, before the end of a round: the first lasts until one round later, each
    other one round longer."""
    found = []
    for place, (word, cluster, nodes) in enumerate(words):
        at_us, names = end_us(number - 1) + place, [f"{cluster}-{n:04d}" for n in nodes]
        until = {"until_us": end_us(number + 1 + place)} if word == "until" else {}
        one = (resumed if word == "resume" else drained)(cluster, at_us, *names, **until)
        found.append(event(f"{one.id}/{place}", one.payload, at_us))
    return found


@settings(max_examples=25, deadline=None)
@given(rounds=st.lists(st.tuples(_WORDS, _JOBS), min_size=1, max_size=6))
def test_no_start_is_on_a_node_that_is_drained_and_a_restart_decides_the_same(
    rounds: list[tuple[list[Word], list[tuple[int, int]]]],
) -> None:
    twins, drains = Twins(placement), dict[tuple[str, int], int]()
    for number, (words, jobs) in enumerate(rounds, 1):
        for place, (word, cluster, nodes) in enumerate(words):
            # A whole cluster is named as all of its nodes here.
            for node in nodes or range(4):
                drains.pop((cluster, node), None)
                if word != "resume":
                    drains[cluster, node] = end_us(number + 1 + place) if word == "until" else 0
        come = [
            submitted(
                f"{number}-{n}", end_us(number - 1) + 9 + n, nodes=nodes, cores_per_unit=cores
            )
            for n, (nodes, cores) in enumerate(jobs, 9)
        ]
        twins.kill()
        decided = twins.round_of(number, *told(words, number), *come)
        now_us = end_us(number)
        shut = {key for key, until in drains.items() if not until or until > now_us}
        for cluster, indices in placed(decided).values():
            assert not shut & {(cluster, index) for index in indices}


@settings(max_examples=20, deadline=None)
@given(rounds=st.lists(st.tuples(_WORDS, st.booleans()), max_size=6))
def test_a_clock_that_jumped_and_was_mended_leaves_the_drains_that_no_jump_leaves(
    rounds: list[tuple[list[Word], bool]],
) -> None:
    jumping, steady = placement(), placement()
    state: dict[str, bytes] = {}
    for number, (words, jumps) in enumerate(rounds, 1):
        for processor in (jumping, steady):
            feed(processor, told(words, number))
        if jumps:
            round_of(jumping, 1000)
            state = saved(state, jumping.changes())
            state = saved(state, repaired(state, end_us(number - 1)))
            jumping = Placement(state, PolicySettings(), 7.0)
        for processor in (jumping, steady):
            round_of(processor, number)
        for cluster in BOTH:
            assert groups(jumping, cluster) == groups(steady, cluster)
        assert jumping.wake_us() == steady.wake_us()
