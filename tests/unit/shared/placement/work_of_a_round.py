"""What a round costs where jobs say where they may be, in calls: it follows the wishes that differ,
and not the jobs that have them. Played as plain Python, by `test_work_of_a_round.py`."""

from collections import Counter
from typing import Any

import pytest
from coplace.v1.control_pb2 import Partition
from coplace.v1.jobs_pb2 import Part

from lab.benchmarks import placement_rounds
from lab.benchmarks.placement_rounds import Rounds
from shared.placement.explain.start_estimates import StartEstimates
from tests.support.calls import counted_calls
from tests.unit.shared.placement import region

FEW, MANY = 1_000, 4_000


def calls_of_a_round(
    monkeypatch: pytest.MonkeyPatch, queued: int, partitions: int, reserved: int
) -> Counter[str]:
    """Calls of the third round behind so many jobs."""
    monkeypatch.setattr(placement_rounds, "QUEUED", queued)
    rounds = Rounds(2, is_capped=False, partitions=partitions, reserved=reserved)
    rounds.play(1)
    rounds.play(2)
    with counted_calls() as found:
        rounds.play(3)
    return found


@pytest.mark.parametrize(("partitions", "reserved"), [(20, 0), (0, 20), (20, 20)])
def test_four_times_as_many_jobs_of_the_same_wishes_cost_a_round_a_third_more(
    monkeypatch: pytest.MonkeyPatch, partitions: int, reserved: int
) -> None:
    few = calls_of_a_round(monkeypatch, FEW, partitions, reserved)
    many = calls_of_a_round(monkeypatch, MANY, partitions, reserved)
    assert many.total() < 1.33 * few.total()


def test_a_round_does_not_work_out_again_what_the_last_one_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = calls_of_a_round(monkeypatch, MANY, 20, 20)
    # Places of new jobs, what fits on nodes in states that were not seen, and entries for which
    # nothing cheaper shows that they do not start.
    assert found["ways_of"] < 150
    assert found["units_of"] < 1_000
    assert found["_starting"] < 400


def test_a_forecast_matches_no_gang_while_fewer_nodes_are_idle_than_it_needs() -> None:
    nodes, at_us = 64, region.T0_US + 1
    processor = region.placement(nodes)
    parts = [
        Partition(name=f"half-{number}", nodes=[f"p1-[{8 * number:04d}-{8 * number + 31:04d}]"])
        for number in range(4)
    ]
    region.feed(processor, [region.declared("p1", nodes, at_us, partitions=parts)])
    names = [part.name for part in parts]
    asked: dict[str, Any] = {"clusters": ["p1"], "app_id": ""}
    alone = [
        region.submitted(f"n{n}", at_us, nodes=1, walltime_s=600.0 + 60 * n, **asked)
        for n in range(nodes)
    ]
    region.round_of(processor, 0, *alone)
    in_any = [Part(units=14, partitions=names) for _ in range(3)]
    gang = region.submitted("g", at_us, nodes=42, parts=in_any, walltime_s=600.0, **asked)
    region.round_of(processor, 1, gang)
    arrival = processor.queries.arrival("g")
    assert arrival is not None
    with counted_calls() as found:
        estimate = StartEstimates(processor.queries.snapshot(), 1_000).of(arrival)
    assert estimate is not None
    assert estimate.expected is not None
    # It has 64 choices of partitions, and is looked at after each of some fifty ends.
    assert found["match_parts"] < 400
