"""Means of the samples of nodes, by node."""

from typing import Any

import pytest
from coplace.v1.prediction_pb2 import NodePowerMeasured
from coplace.v1.telemetry_pb2 import NodeSample, NodeSamples
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.prediction.node_statistics import REMEMBERED, NodeStatistics, node_of
from shared.catalogue.event import Event
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.services.changelog import fold, state_of
from tests.unit.services.prediction.support import event


def samples(number: int, name: str, *powers_w: float, **changes: Any) -> Event:
    """A record of a node: one sample a second."""
    times = enumerate(powers_w, 100 * number)
    each = [NodeSample(time_us=second * 1_000_000, power_w=power_w) for second, power_w in times]
    values = {"node": name, "cluster": "p1", "node_model": "m"} | changes
    return event(f"{name}/{number}", number, name, NodeSamples(**values, samples=each))


def told(statistics: NodeStatistics, *events: Event) -> list[NodePowerMeasured]:
    found = [publish for each in events for publish in statistics.handle(each)]
    assert {publish.topic for publish in found} == {"prediction.readings"}
    return [
        each.event.payload for each in found if isinstance(each.event.payload, NodePowerMeasured)
    ]


def test_a_record_results_in_the_mean_of_its_samples_and_when_they_were_taken() -> None:
    [found] = told(NodeStatistics({}), samples(1, "n1", 200.0, 300.0, 340.0))

    assert (found.node, found.cluster, found.node_model) == ("n1", "p1", "m")
    assert (found.power_w, found.samples) == (280.0, 3)
    assert (found.first_at_us, found.last_at_us) == (100_000_000, 102_000_000)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (samples(1, "n1"), "samples: must hold at least one reading"),
        (samples(1, "n1", 200.0, -1.0), "samples.power_w"),
        (samples(1, "n1", 200.0, node="x" * 257), "node"),
        (samples(1, "n1", 200.0, cluster="x" * 257), "cluster"),
        (samples(1, "n1", 200.0, node_model=""), "node_model"),
    ],
)
def test_what_no_meter_shows_is_refused_and_changes_nothing(record: Event, problem: str) -> None:
    statistics = NodeStatistics({})
    with pytest.raises(RejectedError, match=problem):
        list(statistics.handle(record))
    assert not statistics.changes()


def test_a_copy_is_distinguished_from_the_newest_records_of_its_node_and_after_a_restart() -> None:
    statistics = NodeStatistics({})
    records = [samples(number, "n1", 200.0) for number in range(REMEMBERED)]
    told(statistics, *records)
    state = state_of(statistics)

    assert {node_of(key, value) for key, value in state.items()} == {"n1"}
    for restarted in (statistics, NodeStatistics(state)):
        for copy in records:
            with pytest.raises(AlreadyAppliedError):
                restarted.handle(copy)
    told(statistics, samples(REMEMBERED, "n1", 200.0))
    [kept] = statistics.changes().values()
    assert kept is not None
    assert kept.count(b"n1/") == REMEMBERED


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.booleans()), max_size=40))
def test_nodes_is_the_same_in_one_unit_and_in_several_that_are_killed(
    drawn: list[tuple[int, int, bool]],
) -> None:
    """Node n is of unit n % 2; True: the unit is made anew of its state before the record."""
    one, units = NodeStatistics({}), [NodeStatistics({}), NodeStatistics({})]
    states: list[dict[str, bytes]] = [{}, {}]
    for node, number, is_killed in drawn:
        record, unit = samples(number, f"n{node}", 200.0 + number), node % 2
        if is_killed:
            units[unit] = NodeStatistics(states[unit])
        assert tried(one, record) == tried(units[unit], record)
        fold(states[unit], units[unit].changes())


def tried(statistics: NodeStatistics, record: Event) -> list[NodePowerMeasured] | None:
    try:
        return told(statistics, record)
    except AlreadyAppliedError:
        return None
