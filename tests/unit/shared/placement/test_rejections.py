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
    PlacementDecided,
)
from coplace.v1.placement_service_pb2 import JOB_STANDING_REJECTED
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    T0_US,
    after,
    answered,
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
    saved,
    started,
    submitted,
    verdict,
    verdicts,
)

TOO_LARGE = "fits on no cluster: p1: needs 5 nodes, the cluster has 4; p2: needs 5 nodes, the " + (
    "cluster has 4"
)


def lacking(decided: PlacementDecided) -> list[tuple[str, int, str, float, float]]:
    return [(m.cluster, m.kind, m.resource, m.needed, m.available) for m in decided.misfits]


def test_a_job_whose_reference_cluster_nobody_declared_is_rejected() -> None:
    [decided] = round_of(placement(), 0, submitted("a", reference_cluster="nowhere"))
    assert verdict(decided) == "rejected"
    assert decided.reason == "its reference cluster nowhere is not declared: declared are p1, p2"
    assert lacking(decided) == [("nowhere", MISFIT_KIND_NOT_DECLARED, "", 0, 0)]


GPU_AND_MUCH_MEMORY = {"resources_per_unit": {"gpu": 1}, "memory_gib_per_unit": 300.0}


@pytest.mark.parametrize(
    ("asked", "kind", "resource", "needed", "available", "words"),
    [
        ({"nodes": 5}, MISFIT_KIND_NODES, "", 5, 4, "needs 5 nodes, the cluster has 4"),
        ({"memory_gib": 2e3}, MISFIT_KIND_NODES, "", 6, 2, "needs 6 nodes for its 2000 GiB"),
        ({"architectures": ["riscv64"]}, MISFIT_KIND_ARCHITECTURE, "", 0, 0, "has binaries for"),
        ({"cores_per_unit": 64}, MISFIT_KIND_CORES, "", 64, 48, "needs 64 cores on a node"),
        ({"nodes": 9, "cores_per_unit": 24}, MISFIT_KIND_UNITS, "", 9, 8, "needs 9 units"),
        ({"resources_per_unit": {"gpu": 4}}, MISFIT_KIND_RESOURCE, "gpu", 4, 2, "4 gpu"),
        ({"resources_per_unit": {"mic": 1}}, MISFIT_KIND_RESOURCE, "mic", 1, 0, "1 mic"),
        ({"memory_gib_per_unit": 500.0}, MISFIT_KIND_MEMORY, "", 500, 384, "500 GiB"),
        (GPU_AND_MUCH_MEMORY, MISFIT_KIND_UNITS, "", 1, 0, "1 gpu and 300 GiB"),
    ],
)
def test_what_is_lacking_is_told_in_figures_and_words(
    asked: dict[str, Any], kind: int, resource: str, needed: float, available: float, words: str
) -> None:
    classes = [
        {"nodes": 2, "memory_gib": 384},
        {"nodes": 2, "memory_gib": 192, "resources": {"gpu": 2}},
    ]
    how: dict[str, Any] = {"node_classes": classes, "architecture": "x86_64"}
    processor = placement()
    feed(processor, [declared(name, 4, T0_US + 1, **how) for name in ("p1", "p2")])
    [decided] = round_of(processor, 0, submitted("a", T0_US + 2, **asked))
    assert verdict(decided) == "rejected"
    assert lacking(decided)[0] == ("p1", kind, resource, needed, available)
    assert words in decided.reason.removeprefix("fits on no cluster: p1: ").partition("; p2: ")[0]


def test_a_job_of_too_many_nodes_is_rejected_once_and_for_all_with_what_each_cluster_has() -> None:
    processor = placement()
    [decided] = round_of(processor, 0, submitted("a", nodes=5), held("a", T0_US + 1))
    assert (verdict(decided), decided.reason, decided.cluster) == ("rejected", TOO_LARGE, "")
    assert lacking(decided) == [
        ("p1", MISFIT_KIND_NODES, "", 5, 4),
        ("p2", MISFIT_KIND_NODES, "", 5, 4),
    ]
    again = Placement(saved(processor.changes()), PolicySettings(), 7.0)
    for one in (processor, again):
        answer = answered(one, "a")
        assert (answer.standing, answer.reason) == (JOB_STANDING_REJECTED, TOO_LARGE)
        assert [m.cluster for m in answer.misfits] == ["p1", "p2"]
        with pytest.raises(AlreadyAppliedError):
            list(one.handle(submitted("a", nodes=5)))
        assert round_of(one, 1, declared("p1", 8, end_us(0))) == []
        assert round_of(one, 2, finished("a", end_us(1), outcome=JOB_OUTCOME_CANCELLED)) == []


def test_while_a_cluster_is_lost_nothing_is_rejected_for_its_size_and_its_return_decides() -> None:
    processor = placement()
    feed(processor, [lost("p1", T0_US + 2)])
    [waiting] = round_of(processor, 0, submitted("a", T0_US + 3, nodes=5))
    assert verdict(waiting) == "queued"
    assert waiting.reason == f"{TOO_LARGE}: rejected unless p1, which is lost, returns with more"
    assert round_of(processor, 1) == []
    [final] = round_of(processor, 2, returned("p1", end_us(1)))
    assert (verdict(final), final.reason) == ("rejected", TOO_LARGE)


def test_a_lost_cluster_that_is_declared_with_more_holds_what_waited() -> None:
    processor = placement()
    feed(processor, [lost("p1", T0_US + 2)])
    round_of(processor, 0, submitted("a", T0_US + 3, nodes=5))
    back = [declared("p1", 8, end_us(0)), returned("p1", end_us(0) + 1)]
    assert verdicts(round_of(processor, 1, *back)) == [("a", "start")]


def test_before_any_cluster_is_declared_jobs_wait() -> None:
    processor = Placement({}, PolicySettings(), 7.0)
    [waiting] = round_of(processor, 0, submitted("a"))
    assert (verdict(waiting), waiting.reason) == ("queued", "no cluster is declared")
    decided = round_of(processor, 1, declared("p1", 4, end_us(0)))
    assert verdicts(decided) == [("a", "start")]


def test_a_requeue_asks_again_whether_it_fits() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    [again] = round_of(processor, 1, requeued("a", end_us(0)))
    assert (again.attempt, verdict(again)) == (2, "rejected")
    larger = declared("p1", 8, end_us(1))
    [start] = round_of(processor, 2, larger, requeued("a", end_us(1) + 1, attempt=3))
    assert (start.attempt, verdict(start)) == (3, "start")


def test_a_job_that_was_accepted_is_never_rejected_for_a_cluster_that_shrank() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=4), submitted("b", T0_US + 1, nodes=4))
    decided = round_of(processor, 1, submitted("c", end_us(0), nodes=4))
    assert verdicts(decided) == [("c", "queued")]
    smaller = [declared(name, 2, end_us(1)) for name in ("p1", "p2")]
    assert "rejected" not in {verdict(d) for d in round_of(processor, 2, *smaller)}


def test_what_waits_for_a_rejected_job_learns_of_it_in_the_same_round() -> None:
    processor = placement()
    decided = round_of(
        processor,
        0,
        submitted("a", nodes=5),
        submitted("b", T0_US + 1, depends_on=after(DEPENDENCY_CONDITION_AFTER_OK, "a")),
        submitted("c", T0_US + 2, depends_on=after(DEPENDENCY_CONDITION_AFTER_ANY, "a")),
    )
    found = {d.job_id: (verdict(d), d.reason) for d in decided}
    assert found["a"] == ("rejected", TOO_LARGE)
    assert found["b"] == ("held", "after_ok a: it was rejected")
    assert found["c"][0] == "start"


def test_a_rejected_job_that_is_cancelled_is_cancelled_for_its_next_attempts_too() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    assert verdicts(round_of(processor, 1, cancelled("a", end_us(0)))) == [("a", "cancelled")]
    larger = declared("p1", 8, end_us(1))
    decided = round_of(processor, 2, larger, requeued("a", end_us(1) + 1))
    assert verdicts(decided) == [("a", "cancelled")]


def test_a_cancellation_takes_the_reason_of_a_rejection_not_away() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5), submitted("b"))
    round_of(processor, 1, *(cancelled(name, end_us(0)) for name in "ab"))
    again = Placement(saved(processor.changes()), PolicySettings(), 7.0)
    for one in (processor, again):
        answer = answered(one, "a")
        assert answer.reason == f"{answered(one, 'b').reason}; it had been rejected: {TOO_LARGE}"
        assert [m.cluster for m in answer.misfits] == ["p1", "p2"]
        assert not answered(one, "b").misfits


def test_a_hold_or_release_of_a_rejected_job_changes_nothing_until_it_is_requeued() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5))
    assert round_of(processor, 1, released("a", end_us(0)), held("a", end_us(0) + 1)) == []
    larger = declared("p1", 8, end_us(1))
    decided = round_of(processor, 2, larger, requeued("a", end_us(1) + 1))
    assert verdicts(decided) == [("a", "held")]


def test_a_resource_manager_that_runs_a_rejected_job_is_right() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", nodes=5, reference_cluster="nowhere"))
    run = PlacementDecided(
        job_id="a", attempt=1, cluster="p1", node_indices=[0, 1, 2, 3], decided_at_us=end_us(0)
    )
    round_of(processor, 1, started(run), submitted("b", end_us(0), nodes=4))
    answer = answered(processor, "a")
    assert (answer.allocation.cluster, answer.allocation.nodes) == ("p1", 4)
    assert round_of(processor, 2, finished("a", end_us(1))) == []


@settings(max_examples=40)
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
    rejected = {d.job_id for d in round_of(processor, 0, *jobs) if verdict(d) == "rejected"}
    assert rejected == {f"j{n}" for n, size in enumerate(sizes) if size > max(have)}
