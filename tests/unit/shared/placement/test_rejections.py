"""A job that no declared cluster can hold is rejected with what is lacking where; one that a lost
cluster might yet hold waits."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_OK,
    JOB_OUTCOME_CANCELLED,
)
from coplace.v1.placement_pb2 import (
    MISFIT_KIND_ARCHITECTURE,
    MISFIT_KIND_CORES,
    MISFIT_KIND_MEMORY,
    MISFIT_KIND_NODES,
    MISFIT_KIND_NOT_DECLARED,
    MISFIT_KIND_RESOURCE,
    MISFIT_KIND_UNITS,
    VERDICT_CANCELLED,
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    PlacementDecided,
)
from coplace.v1.placement_service_pb2 import JOB_STANDING_HELD, JOB_STANDING_REJECTED
from hypothesis import given
from hypothesis import strategies as st

from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    T0_US,
    after,
    cancelled,
    declared,
    end_us,
    feed,
    finished,
    held,
    lost,
    placement,
    released,
    requeued,
    returned,
    round_of,
    started,
    submitted,
)

TOO_LARGE = "fits on no cluster: p1: needs 5 nodes, the cluster has 4; p2: needs 5 nodes, the " + (
    "cluster has 4"
)


def verdicts(decided: list[PlacementDecided]) -> list[tuple[str, int]]:
    return [(d.job_id, d.verdict) for d in decided]


def lacking(decided: PlacementDecided) -> list[tuple[str, int, str, float, float]]:
    return [(m.cluster, m.kind, m.resource, m.needed, m.available) for m in decided.misfits]


def test_a_job_of_too_many_nodes_is_rejected_at_once_with_what_each_cluster_has() -> None:
    [decided] = round_of(placement(), 0, submitted("a", nodes=5))
    assert (decided.verdict, decided.reason, decided.cluster) == (VERDICT_REJECTED, TOO_LARGE, "")
    assert lacking(decided) == [
        ("p1", MISFIT_KIND_NODES, "", 5, 4),
        ("p2", MISFIT_KIND_NODES, "", 5, 4),
    ]


def test_a_job_whose_reference_cluster_nobody_declared_is_rejected() -> None:
    [decided] = round_of(placement(), 0, submitted("a", reference_cluster="nowhere"))
    assert decided.verdict == VERDICT_REJECTED
    assert decided.reason == "its reference cluster nowhere is not declared: declared are p1, p2"
    assert lacking(decided) == [("nowhere", MISFIT_KIND_NOT_DECLARED, "", 0, 0)]


@pytest.mark.parametrize(
    ("asked", "lacks"),
    [
        ({"architectures": ["riscv64"]}, (MISFIT_KIND_ARCHITECTURE, "", 0, 0)),
        ({"cores_per_unit": 64}, (MISFIT_KIND_CORES, "", 64, 48)),
        ({"nodes": 9, "cores_per_unit": 24}, (MISFIT_KIND_UNITS, "", 9, 8)),
        ({"resources_per_unit": {"gpu": 4}}, (MISFIT_KIND_RESOURCE, "gpu", 4, 2)),
        ({"memory_gib_per_unit": 500.0}, (MISFIT_KIND_MEMORY, "", 500, 384)),
        (
            {"resources_per_unit": {"gpu": 1}, "memory_gib_per_unit": 300.0},
            (MISFIT_KIND_UNITS, "", 1, 0),
        ),
    ],
)
def test_what_is_lacking_is_told_in_figures(
    asked: dict[str, Any], lacks: tuple[int, str, float, float]
) -> None:
    classes = [
        {"nodes": 2, "memory_gib": 384},
        {"nodes": 2, "memory_gib": 192, "resources": {"gpu": 2}},
    ]
    processor = placement()
    feed(
        processor,
        [declared(name, 4, T0_US + 1, node_classes=classes) for name in ("p1", "p2")],
    )
    [decided] = round_of(processor, 0, submitted("a", T0_US + 2, **asked))
    assert decided.verdict == VERDICT_REJECTED
    assert lacking(decided)[0] == ("p1", *lacks)


def test_why_says_that_it_was_rejected_and_a_restart_says_the_same_once() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    again = Placement({k: v for k, v in processor.changes().items() if v}, Rules(), 7.0)
    assert round_of(again, 1) == []
    for one in (processor, again):
        answer = one.queries.answer("a")
        assert answer is not None
        assert (answer.standing, answer.reason) == (JOB_STANDING_REJECTED, TOO_LARGE)
        assert [m.cluster for m in answer.misfits] == ["p1", "p2"]


def test_a_job_that_a_lost_cluster_could_hold_waits_for_it() -> None:
    processor = placement()
    feed(processor, [declared("p1", 8, T0_US + 1), lost("p1", T0_US + 2)])
    [decided] = round_of(processor, 0, submitted("a", T0_US + 3, nodes=5))
    assert decided.verdict == VERDICT_QUEUED


def test_while_a_cluster_is_lost_nothing_is_rejected_for_its_size_and_its_return_decides() -> None:
    processor = placement()
    feed(processor, [lost("p1", T0_US + 2)])
    [waiting] = round_of(processor, 0, submitted("a", T0_US + 3, nodes=5))
    assert waiting.verdict == VERDICT_QUEUED
    assert waiting.reason == f"{TOO_LARGE}: rejected unless p1, which is lost, returns with more"
    assert round_of(processor, 1) == []
    [final] = round_of(processor, 2, returned("p1", end_us(1)))
    assert (final.verdict, final.reason) == (VERDICT_REJECTED, TOO_LARGE)


def test_a_lost_cluster_that_is_declared_with_more_holds_what_waited() -> None:
    processor = placement()
    feed(processor, [lost("p1", T0_US + 2)])
    round_of(processor, 0, submitted("a", T0_US + 3, nodes=5))
    back = [declared("p1", 8, end_us(0)), returned("p1", end_us(0) + 1)]
    assert verdicts(round_of(processor, 1, *back)) == [("a", VERDICT_START)]


def test_before_any_cluster_is_declared_jobs_wait() -> None:
    processor = Placement({}, Rules(), 7.0)
    [waiting] = round_of(processor, 0, submitted("a"))
    assert (waiting.verdict, waiting.reason) == (VERDICT_QUEUED, "no cluster is declared")
    decided = round_of(processor, 1, declared("p1", 4, end_us(0)))
    assert verdicts(decided) == [("a", VERDICT_START)]


def test_a_copy_of_a_rejected_submission_is_nothing_new() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    with pytest.raises(AlreadyAppliedError):
        list(processor.handle(submitted("a", nodes=5)))


def test_a_cluster_that_is_declared_later_does_not_revive_what_was_rejected() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    assert round_of(processor, 1, declared("p1", 8, end_us(0))) == []
    assert round_of(processor, 2) == []


def test_a_requeue_asks_again_whether_it_fits() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    [again] = round_of(processor, 1, requeued("a", end_us(0)))
    assert (again.attempt, again.verdict) == (2, VERDICT_REJECTED)
    larger = declared("p1", 8, end_us(1))
    [start] = round_of(processor, 2, larger, requeued("a", end_us(1) + 1, attempt=3))
    assert (start.attempt, start.verdict) == (3, VERDICT_START)


def test_a_job_that_was_accepted_is_never_rejected_for_a_cluster_that_shrank() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=4), submitted("b", T0_US + 1, nodes=4))
    decided = round_of(processor, 1, submitted("c", end_us(0), nodes=4))
    assert verdicts(decided) == [("c", VERDICT_QUEUED)]
    smaller = [declared(name, 2, end_us(1)) for name in ("p1", "p2")]
    assert VERDICT_REJECTED not in {d.verdict for d in round_of(processor, 2, *smaller)}


def test_what_waits_for_a_rejected_job_learns_of_it_in_the_same_round() -> None:
    processor = placement()
    decided = round_of(
        processor,
        0,
        submitted("a", nodes=5),
        submitted("b", T0_US + 1, depends_on=after(DEPENDENCY_CONDITION_AFTER_OK, "a")),
        submitted("c", T0_US + 2, depends_on=after(DEPENDENCY_CONDITION_AFTER_ANY, "a")),
    )
    found = {d.job_id: (d.verdict, d.reason) for d in decided}
    assert found["a"] == (VERDICT_REJECTED, TOO_LARGE)
    assert found["b"] == (VERDICT_HELD, "after_ok a: it was rejected")
    assert found["c"][0] == VERDICT_START


def test_a_rejected_job_that_is_cancelled_is_cancelled_for_its_next_attempts_too() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    assert verdicts(round_of(processor, 1, cancelled("a", end_us(0)))) == [("a", VERDICT_CANCELLED)]
    larger = declared("p1", 8, end_us(1))
    decided = round_of(processor, 2, larger, requeued("a", end_us(1) + 1))
    assert verdicts(decided) == [("a", VERDICT_CANCELLED)]


def test_a_hold_or_release_of_a_rejected_job_changes_nothing_until_it_is_requeued() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    assert round_of(processor, 1, released("a", end_us(0)), held("a", end_us(0) + 1)) == []
    larger = declared("p1", 8, end_us(1))
    decided = round_of(processor, 2, larger, requeued("a", end_us(1) + 1))
    assert verdicts(decided) == [("a", VERDICT_HELD)]


def test_a_job_that_is_held_when_it_comes_is_rejected_all_the_same() -> None:
    decided = round_of(placement(), 0, submitted("a", nodes=5), held("a", T0_US + 1))
    assert verdicts(decided) == [("a", VERDICT_REJECTED)]


def test_a_resource_manager_that_runs_a_rejected_job_is_right() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5, reference_cluster="nowhere"))
    run = PlacementDecided(
        job_id="a", attempt=1, cluster="p1", node_indices=[0, 1, 2, 3], decided_at_us=end_us(0)
    )
    round_of(processor, 1, started(run), submitted("b", end_us(0), nodes=4))
    answer = processor.queries.answer("a")
    assert answer is not None
    assert (answer.allocation.cluster, answer.allocation.nodes) == ("p1", 4)
    assert round_of(processor, 2, finished("a", end_us(1))) == []


def test_a_finish_of_a_rejected_job_ends_it() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    gone = finished("a", end_us(0), outcome=JOB_OUTCOME_CANCELLED)
    assert round_of(processor, 1, gone) == []


def test_what_waits_unjudged_is_held_where_its_user_holds_it() -> None:
    processor = placement()
    feed(processor, [lost("p1", T0_US + 2)])
    round_of(processor, 0, submitted("a", T0_US + 3, nodes=5), held("a", T0_US + 4))
    answer = processor.queries.answer("a")
    assert answer is not None
    assert answer.standing == JOB_STANDING_HELD


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    have=st.tuples(st.integers(1, 8), st.integers(1, 8)),
)
def test_a_job_is_rejected_exactly_where_no_cluster_has_its_nodes(
    sizes: list[int], have: tuple[int, int]
) -> None:
    processor = placement()
    shapes = zip(("p1", "p2"), have, strict=True)
    feed(processor, [declared(name, nodes, T0_US + 1) for name, nodes in shapes])
    jobs = [submitted(f"j{n}", T0_US + 2 + n, nodes=size) for n, size in enumerate(sizes)]
    rejected = {d.job_id for d in round_of(processor, 0, *jobs) if d.verdict == VERDICT_REJECTED}
    assert rejected == {f"j{n}" for n, size in enumerate(sizes) if size > max(have)}
