"""Caps that take the place of recorded ones."""

from dataclasses import replace
from pathlib import Path

import pytest
from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    PowerCapDeclared,
    PowerCapStep,
)

from coplace_client.errors import UnusableError
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import cluster_of
from shared.domain.cluster import Cluster
from shared.placement.state.caps import Covered
from shared.replay.caps import AS_RECORDED, CapChanges, GivenCap, NewCap
from shared.scheduling.power import Scope
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US


def changed(changes: CapChanges, *events: Event) -> list[Event]:
    of = changes.changed()
    return [after for event in events for after in of(event)]


def caps(events: list[Event]) -> list[tuple[int, str, float]]:
    found = [e.payload for e in events if isinstance(e.payload, PowerCapDeclared)]
    return [(cap.scope, cap.name, cap.steps[0].watts) for cap in found]


def unread(path: Path) -> list[PowerCapStep]:
    raise AssertionError(path)


def cluster(name: str) -> Cluster:
    return replace(cluster_of(region.declared("p1").payload), name=name)  # type: ignore[arg-type]


def new(text: str, *names: str) -> NewCap:
    """A cap among clusters of one site."""
    return GivenCap.parse(text, unread).among(map(cluster, names or ("p1", "p2")))


@pytest.mark.parametrize(
    ("text", "covered", "watts"),
    [
        ("p1=180000", Covered(Scope.CLUSTER, "p1"), 180_000.0),
        ("cluster p1=180000", Covered(Scope.CLUSTER, "p1"), 180_000.0),
        ("cluster:p1=180000", Covered(Scope.CLUSTER, "p1"), 180_000.0),
        ("site=1e6", Covered(Scope.SITE, "site"), 1e6),
        ("site site=1e6", Covered(Scope.SITE, "site"), 1e6),
        ("site:site=1e6", Covered(Scope.SITE, "site"), 1e6),
        ("region=5", Covered(Scope.REGION), 5.0),
    ],
)
def test_a_cap_is_written_in_the_words_of_cap_set_or_as_scope_and_name(
    text: str, covered: Covered, watts: float
) -> None:
    found = new(text)
    assert found == NewCap(covered, watts)
    assert new(found.text) == found


@pytest.mark.parametrize("text", ["", "=", "=5", "cluster:=5", "region:x=5", "a=b", "p1=nan.yaml"])
def test_what_is_no_cap_is_reported_how_one_is_written(text: str) -> None:
    with pytest.raises(UnusableError, match="is not a cap: write CLUSTER=WATTS"):
        GivenCap.parse(text, unread)


def test_a_cap_of_what_is_not_known_or_of_two_is_refused_with_what_is() -> None:
    with pytest.raises(
        UnusableError, match=r"'p9' is neither a cluster .* cluster:p1, cluster:p2, site:"
    ):
        new("p9=5")
    with pytest.raises(UnusableError, match="ambiguous: give one of cluster:site, site:site"):
        new("site=5", "site")
    assert new("site:site=5", "site").covered.scope is Scope.SITE


def test_a_cap_may_follow_a_schedule(tmp_path: Path) -> None:
    path = tmp_path / "nights.yaml"
    path.touch()
    steps = [PowerCapStep(from_us=T0_US + 7, watts=5e5), PowerCapStep(from_us=T0_US + 9)]
    cap = GivenCap.parse(f"p1={path}", lambda file: steps if file == path else []).among(
        [cluster("p1")]
    )
    assert cap.text == "cluster:p1=nights.yaml"
    _, declared = changed(CapChanges(instead=(cap,)), region.declared("p1"))
    assert isinstance(declared.payload, PowerCapDeclared)
    assert [*declared.payload.steps] == steps


def test_a_cap_is_declared_behind_the_first_cluster_that_it_covers_and_once() -> None:
    of_p2 = CapChanges(instead=(new("cluster:p2=9000"), new("region=9999")))
    first = region.declared("p1")
    second, again = (region.declared("p2", time_us=T0_US + later) for later in (5, 9))
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
    assert changed(CapChanges(instead=(new("region=1"),)), *recorded) == [recorded[1]]
    assert changed(CapChanges(dropped=True), *recorded) == []


@pytest.mark.parametrize("second", ["p1=190000", "cluster:p1=190000", "cluster p1=60000"])
def test_two_caps_of_the_same_are_refused_however_it_is_called(second: str) -> None:
    with pytest.raises(UnusableError, match=r"cluster:p1=60000 and cluster:p1=.* are of the same"):
        CapChanges(instead=(new("p1=60000"), new("region=9999"), new(second)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("region=300", "300 W is below the idle power of its nodes, 400 W"),
        ("region=inf", "region=inf"),
    ],
)
def test_a_cap_that_cannot_be_is_refused_before_anything_is_played(text: str, problem: str) -> None:
    payload = region.declared("p1", nodes=4).payload
    known = {"p1": cluster_of(payload)}  # type: ignore[arg-type]
    changes = CapChanges(instead=(new(text),))
    with pytest.raises(UnusableError, match=problem):
        changes.require_possible(known, T0_US, counts_idle=True)
