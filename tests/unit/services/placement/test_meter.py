"""What Prometheus reads of placement."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER, NodeClass, Partition
from coplace.v1.jobs_pb2 import REFUSED_KIND_RESERVATION
from prometheus_client import generate_latest

from services.placement.meter import watch
from services.placement.service import Duty
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    declared,
    declined,
    feed,
    power,
    round_of,
    submitted,
)


def exposition(duty: Duty) -> set[str]:
    telemetry = Telemetry("placement", Settings())
    watch(telemetry.meter, duty)
    return set(generate_latest(telemetry.registry).decode().splitlines())


def on_duty() -> Duty:
    """Of four nodes of p1 job a has three; b wants two. The cluster may draw 2 kW."""
    processor = Placement({}, PolicySettings(), 7.0)
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, 2000.0))
    feed(processor, [declared("p1", 4, site="north"), power(), cap])
    round_of(processor, 0, submitted("a", nodes=3), submitted("b", T0_US + 1, nodes=2))
    duty = Duty()
    duty.begin(processor.queries)
    return duty


def test_jobs_nodes_and_watts_are_shown_as_they_are_now() -> None:
    shown = exposition(on_duty())
    assert "coplace_jobs_waiting 1.0" in shown
    assert 'coplace_jobs_running{cluster="p1"} 1.0' in shown
    assert 'coplace_nodes_free{cluster="p1"} 1.0' in shown
    assert 'coplace_power_cap_watts{name="p1",scope="cluster"} 2000.0' in shown
    assert 'coplace_power_idle_watts{name="p1",scope="cluster"} 400.0' in shown
    assert 'coplace_power_committed_watts{name="p1",scope="cluster"} 699.0' in shown
    assert 'coplace_power_committed_watts{name="",scope="region"} 699.0' in shown
    assert not any(line.startswith('coplace_power_cap_watts{name=""') for line in shown)
    assert "coplace_late_starts_total 0.0" in shown
    assert 'coplace_promises{outcome="kept"} 0.0' in shown
    assert 'coplace_promises{outcome="broken"} 0.0' in shown
    assert "coplace_pairs_apart 0.0" in shown


def test_starts_of_jobs_that_accept_neighbours_are_counted_by_what_said_who_may_be_one() -> None:
    processor = Placement({}, PolicySettings(), 7.0)
    feed(processor, [declared("p1", 4), power()])
    round_of(processor, 0, submitted("a", nodes=1, shareable=True, app_id="new"))
    duty = Duty()
    duty.begin(processor.queries)
    assert 'coplace_shareable_starts_total{by="nothing"} 1.0' in exposition(duty)


def test_a_standby_shows_nothing_of_what_another_process_decides() -> None:
    duty = on_duty()
    duty.end()
    assert not any(line.startswith("coplace_jobs_waiting ") for line in exposition(duty))


@pytest.mark.parametrize(
    ("asked", "refused", "named"),
    [
        ({"partitions": ["debug"]}, {}, ("partition", "debug")),
        ({"features": "gpu"}, {}, ("feature", "gpu")),
        ({}, {"refused_kind": REFUSED_KIND_RESERVATION, "refused_name": "x"}, ("reservation", "x")),
        ({}, {"refused_nodes": ["p1-0000"]}, ("nodes", "")),
        ({}, {}, ("unknown", "")),
    ],
)
def test_declined_starts_are_counted_by_what_was_refused(
    asked: dict[str, Any], refused: dict[str, Any], named: tuple[str, str]
) -> None:
    processor = Placement({}, PolicySettings(), 7.0)
    debug = Partition(name="debug", nodes=["p1-0000"])
    classes = [NodeClass(nodes=1, features=["gpu"]), NodeClass(nodes=3)]
    feed(processor, [declared("p1", 4, partitions=[debug], node_classes=classes), power()])
    [start] = round_of(processor, 0, submitted("a", **asked))
    round_of(processor, 1, declined(start, T0_US, **refused))
    duty = Duty()
    duty.begin(processor.queries)
    kind, name = named
    labels = f'cluster="p1",kind="{kind}",name="{name}"'
    assert f"coplace_starts_declined_total{{{labels}}} 1.0" in exposition(duty)
