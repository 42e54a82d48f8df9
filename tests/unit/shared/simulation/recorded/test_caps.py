"""Caps that take the place of recorded ones."""

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER, POWER_SCOPE_REGION, PowerCapDeclared

from shared.domain.errors import UnusableError
from shared.messaging.events.event import Event
from shared.messaging.payloads.domain_types import cluster_of
from shared.placement.power.caps import Covered
from shared.scheduling.power import Scope
from shared.simulation.recorded.caps import AS_RECORDED, CapChanges, NewCap
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US


def changed(changes: CapChanges, *events: Event) -> list[Event]:
    of = changes.changed()
    return [after for event in events for after in of(event)]


def caps(events: list[Event]) -> list[tuple[int, str, float]]:
    found = [e.payload for e in events if isinstance(e.payload, PowerCapDeclared)]
    return [(cap.scope, cap.name, cap.steps[0].watts) for cap in found]


@pytest.mark.parametrize(
    ("text", "covered", "watts"),
    [
        ("cluster:p1=180000", Covered(Scope.CLUSTER, "p1"), 180_000.0),
        ("site:north=1e6", Covered(Scope.SITE, "north"), 1e6),
        ("region=5", Covered(Scope.REGION), 5.0),
        ("cluster:a:b=5", Covered(Scope.CLUSTER, "a:b"), 5.0),
    ],
)
def test_a_cap_is_written_as_scope_name_and_watts(
    text: str, covered: Covered, watts: float
) -> None:
    found = NewCap.parse(text)
    assert found == NewCap(covered, watts)
    assert NewCap.parse(found.text) == found


@pytest.mark.parametrize("text", ["", "=", "p1=5", "cluster=5", "cluster:=5", "region:x=5", "a=b"])
def test_what_is_no_cap_is_told_how_one_is_written(text: str) -> None:
    with pytest.raises(UnusableError, match="write cluster:NAME=WATTS"):
        NewCap.parse(text)


def test_a_cap_is_declared_behind_the_first_cluster_that_it_covers_and_once() -> None:
    of_p2 = CapChanges(instead=(NewCap.parse("cluster:p2=9000"), NewCap.parse("region=9999")))
    first, second, again = (
        region.declared("p1"),
        region.declared("p2", time_us=T0_US + 5),
        region.declared("p2", time_us=T0_US + 9),
    )
    found = changed(of_p2, first, second, again)
    assert caps(found) == [(POWER_SCOPE_REGION, "", 9999), (POWER_SCOPE_CLUSTER, "p2", 9000)]
    assert [found.index(event) for event in (first, second, again)] == [0, 2, 4]
    assert found[3].time_us == second.time_us


def test_only_the_recorded_cap_of_the_same_is_replaced_and_all_are_dropped_on_demand() -> None:
    recorded = (
        region.capped(POWER_SCOPE_REGION, "", (0, 5000.0)),
        region.capped(POWER_SCOPE_CLUSTER, "p1", (0, 4000.0)),
    )
    assert changed(AS_RECORDED, *recorded) == list(recorded)
    assert changed(CapChanges(instead=(NewCap.parse("region=1"),)), *recorded) == [recorded[1]]
    assert changed(CapChanges(dropped=True), *recorded) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster:p9=1e4", "'p9' is no cluster: known are p1"),
        ("site:p1=1e4", "'p1' is no site: known are site"),
        ("region=300", "300 W is below the idle power of its nodes, 400 W"),
        ("region=inf", "region=inf"),
    ],
)
def test_a_cap_that_cannot_be_is_refused_before_anything_is_played(text: str, problem: str) -> None:
    payload = region.declared("p1", nodes=4).payload
    known = {"p1": cluster_of(payload)}  # type: ignore[arg-type]
    changes = CapChanges(instead=(NewCap.parse(text),))
    with pytest.raises(UnusableError, match=problem):
        changes.require_possible(known, T0_US, counts_idle=True)
