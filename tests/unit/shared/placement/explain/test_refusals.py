"""Explanations say what refused an entry when its turn came, and stop no decision."""

from typing import Any

import pytest
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_UNEXPLAINED

from shared.catalogue.policy_settings import PolicySettings
from shared.placement.decide.refusals import Refusals
from shared.placement.processor.placement import Placement
from shared.scheduling.backfill import Dispatch
from tests.unit.shared.placement.region import (
    T0_US,
    declared,
    feed,
    on,
    placement,
    round_of,
    submitted,
    verdict,
)


def three_clusters() -> Placement:
    """Of which nothing is known: large has 64 nodes, small 4, tiny 2, and tiny any memory."""
    processor = Placement({}, PolicySettings(), 7.0)
    one_clock, three = [2.4], [1.2, 2.0, 3.1]
    for name, nodes, memory_gib, pstates_ghz in (
        ("large", 64, 192.0, one_clock),
        ("small", 4, 192.0, one_clock),
        ("tiny", 2, 0.0, three),
    ):
        changes: dict[str, Any] = {
            "cluster": name,
            "node_model": name,
            "memory_gib_per_node": memory_gib,
        }
        feed(processor, [declared("p1", nodes, **changes, pstates_ghz=pstates_ghz)])
    return processor


def test_a_promise_that_is_given_up_later_in_the_round_is_still_told() -> None:
    """`two` is promised tiny, which keeps `one` out of it; then `two` starts elsewhere."""
    processor = three_clusters()
    round_of(processor, 0, submitted("four", nodes=4, app_id="", reference_cluster="small"))
    jobs = [
        submitted("first", T0_US + 1, app_id="", reference_cluster="tiny"),
        submitted(
            "two",
            T0_US + 2,
            app_id="",
            reference_cluster="tiny",
            nodes=2,
            walltime_s=86_400.0,
            memory_gib=400.0,
        ),
        submitted("one", T0_US + 3, app_id="", reference_cluster="small", walltime_s=86_400.0),
    ]
    decided = {d.job_id: d for d in round_of(processor, 1, *jobs)}
    assert {job: d.cluster for job, d in decided.items()} == {
        "first": "tiny",
        "one": "large",
        "two": "large",
    }
    assert "after the reservation of two" in on(decided["one"], "tiny").constraint
    assert on(decided["two"], "tiny").constraint == "needs 2 nodes, 1 free"


def test_a_defect_of_an_explanation_is_told_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_schedulers(plan: Dispatch) -> Refusals:
        return Refusals(Dispatch(plan.now_s, plan.starts, {}))

    processor = placement(4)
    round_of(processor, 0, submitted("a", nodes=4), submitted("b", T0_US + 1, nodes=3))
    monkeypatch.setattr("shared.placement.processor.phases.Refusals", without_schedulers)
    waiting, start = round_of(
        processor, 1, submitted("c", T0_US + 2, nodes=2), submitted("d", T0_US + 3, nodes=1)
    )[::-1]
    assert (waiting.job_id, verdict(waiting)) == ("c", "queued")
    assert (start.job_id, verdict(start)) == ("d", "start")
    defect = "no explanation, please report KeyError in why of refusals.py"
    assert {c.cluster: c.constraint for c in waiting.candidates} == {
        name: f"{defect}: '{name}'" for name in ("p1", "p2")
    }
    kinds = {one.kind for candidate in waiting.candidates for one in candidate.constraints}
    assert kinds == {CONSTRAINT_KIND_UNEXPLAINED}
