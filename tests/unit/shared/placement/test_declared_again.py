"""A cluster that is undeclared and declared again begins anew: copies of what was said of it before
say nothing of it."""

import pytest

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError, OvertakenError
from tests.unit.shared.placement.region import (
    T0_US,
    declared,
    drained,
    end_us,
    placement,
    requeued,
    reserved,
    resumed,
    round_of,
    saved,
    started,
    started_on,
    submitted,
    undeclared,
    unreserved,
)

KEPT = reserved("upgrade", 0.0, 86_400.0, T0_US + 3)


def declared_again(*before: Event) -> Placement:
    """p1 was sold, bought again, and placement killed since."""
    processor = placement()
    round_of(processor, 0, *before)
    round_of(processor, 1, undeclared("p1", end_us(0)))
    round_of(processor, 2, declared("p1", 4, time_us=end_us(1)))
    return Placement(saved(processor.changes()), PolicySettings(), 7.0)


@pytest.mark.parametrize(
    "said",
    [
        drained("p1", T0_US + 3),
        drained("p1", T0_US + 3, "p1-0000"),
        resumed("p1", T0_US + 3),
        KEPT,
    ],
    ids=["all drained", "a node drained", "resumed", "reserved"],
)
def test_a_copy_of_what_was_said_of_its_nodes_before_is_overtaken(said: Event) -> None:
    processor = declared_again(said)
    with pytest.raises(OvertakenError, match=r"undeclared/p1"):
        processor.handle(said)
    decided = round_of(processor, 3, submitted("a", end_us(2), nodes=4, clusters=["p1"]))
    assert started_on(decided) == {"a": "p1"}


def test_a_copy_of_a_removal_of_before_removes_no_reservation_of_now() -> None:
    removed = unreserved("upgrade", T0_US + 4)
    processor = declared_again(KEPT, removed)
    round_of(processor, 3, reserved("upgrade", 0.0, 86_400.0, end_us(2)))
    with pytest.raises(OvertakenError):
        processor.handle(removed)
    decided = round_of(processor, 4, submitted("a", end_us(3), clusters=["p1"]))
    assert started_on(decided) == {}


def test_a_copy_of_an_end_of_before_counts_no_failure_of_a_node_of_now() -> None:
    processor = placement()
    [start] = round_of(processor, 0, submitted("a", clusters=["p1"]))
    failed = requeued("a", end_us(0) + 1, 2, cluster="p1", failed_nodes=["p1-0000"])
    round_of(processor, 1, started(start), failed)
    assert processor.layers.state.nodes.failing("p1") == {0}
    round_of(processor, 2, undeclared("p1", end_us(1)))
    round_of(processor, 3, declared("p1", 4, time_us=end_us(2)))
    with pytest.raises(AlreadyAppliedError):
        list(processor.handle(failed))
    assert processor.layers.state.nodes.failing("p1") == set()
