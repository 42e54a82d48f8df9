"""Jobs of parts of nodes, of named resources and with neighbours, as placement decides on them."""

from random import Random
from typing import Any

import pytest
from coplace.v1.control_pb2 import NodeClass
from coplace.v1.placement_pb2 import (
    PlacementDecided,
)

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    answered,
    finished,
    on,
    round_of,
    started,
    submitted,
    verdict,
)

PERIOD_US = 30_000_000
GPU_NODES = [
    NodeClass(nodes=1, memory_gib=192, resources={"gpu": 2}),
    NodeClass(nodes=3, memory_gib=192),
]


def one_cluster(**changes: Any) -> Placement:
    """p2 alone: 4 nodes of 36 cores."""
    found = Placement({}, PolicySettings(policy=Policy.BASE), 7.0)
    region.feed(found, [*region.models(4)])
    region.feed(found, [region.declared("p2", nodes=4, time_us=T0_US + 1, **changes)])
    region.feed(found, [region.lost("p1", T0_US + 1)])
    return found


def asked(job_id: str, cores: int, units: int = 1, **changes: Any) -> Event:
    """A job of parts of nodes of p2 that accepts neighbours."""
    fields: dict[str, Any] = {"cores_per_unit": cores, "nodes": units, "shareable": True}
    fields |= {"reference_cluster": "p2", "app_id": region.APPS[0]}
    return submitted(job_id, **{**fields, **changes})


def where(decided: PlacementDecided) -> dict[int, int]:
    """Units by node."""
    units = decided.node_units or [1] * len(decided.node_indices)
    return dict(zip(decided.node_indices, units, strict=True))


def test_quarters_of_a_node_have_up_to_three_neighbours() -> None:
    processor = one_cluster()
    jobs = [asked(f"job-{number}", 9, time_us=T0_US + number) for number in range(5)]
    found = round_of(processor, 0, *jobs)
    assert [where(each) for each in found] == [{0: 1}] * 4 + [{1: 1}]
    assert [list(each.co_runner_job_ids) for each in found[:4]] == [
        [f"job-{before}" for before in range(number)] for number in range(4)
    ]
    assert [each.cores_per_node for each in found] == [9] * 5
    assert found[3].predicted_slowdown_ratio >= found[1].predicted_slowdown_ratio >= 1


def test_several_units_of_a_job_go_onto_a_node_as_far_as_it_allows() -> None:
    processor = one_cluster()
    [packed] = round_of(processor, 0, asked("packed", 10, 5))
    assert where(packed) == {0: 3, 1: 2}
    [spread] = round_of(processor, 1, asked("spread", 6, 3, units_per_node=1))
    assert set(where(spread).values()) == {1}


def test_who_needs_gpus_finds_them_free_since_others_go_elsewhere() -> None:
    processor = one_cluster(node_classes=GPU_NODES)
    alone = {"shareable": False, "cores_per_unit": 0}
    whole = [asked(f"whole-{n}", 0, time_us=T0_US + n, **alone) for n in range(3)]
    gpu = asked("gpu", 4, 2, resources_per_unit={"gpu": 1}, time_us=T0_US + 9)
    found = {each.job_id: each for each in round_of(processor, 0, *whole, gpu)}
    assert where(found["gpu"]) == {0: 2}
    assert sorted(n for j, d in found.items() if j != "gpu" for n in where(d)) == [1, 2, 3]


def test_a_resource_manager_may_start_units_where_it_likes() -> None:
    processor = one_cluster()
    [decided] = round_of(processor, 0, asked("job", 9, 4))
    nodes = ["p2-0003", "p2-0001"]
    round_of(processor, 1, started(decided, nodes=nodes, node_units=[1, 3]))
    [beside] = round_of(processor, 2, asked("wide", 9, 1, shareable=False))
    assert where(beside) == {0: 1}
    full = round_of(processor, 3, *[asked(f"f{n}", 36, shareable=False) for n in range(3)])
    assert [verdict(each) for each in full] == ["start", "queued", "queued"]


class Watch:
    """What the decisions gave out of the 4 nodes of p2, counted without the scheduler."""

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[Event, dict[int, int]]] = {}

    def take(self, by_id: dict[str, Event], decided: list[PlacementDecided]) -> None:
        for each in decided:
            if verdict(each) == "start":
                self.jobs[each.job_id] = by_id[each.job_id], where(each)
        for node in range(4):
            self.check(node)

    def check(self, node: int) -> None:
        on = [(e.payload, at[node]) for e, at in self.jobs.values() if node in at]
        assert sum(p.cores_per_unit * n for p, n in on) <= 36  # type: ignore[attr-defined]
        gpus = sum(p.resources_per_unit["gpu"] * n for p, n in on)  # type: ignore[attr-defined]
        assert gpus <= (2 if node == 0 else 0)
        if len(on) > 1:
            assert all(p.shareable for p, _ in on)  # type: ignore[attr-defined]


def drawn(rng: Random, number: int, now_us: int) -> Event:
    """Some job of units."""
    gpus = rng.choice([0, 0, 0, 0, 1, 2])
    changes: dict[str, Any] = {
        "app_id": rng.choice(region.APPS),
        "time_us": now_us + number,
        "resources_per_unit": {"gpu": gpus} if gpus else {},
        "units_per_node": 0 if gpus else rng.choice([0, 0, 1, 2]),
        "walltime_s": rng.choice([40.0, 200.0, 900.0]),
        "shareable": rng.random() < 0.7,
    }
    cores, units = rng.choice([1, 4, 9, 12, 18, 36]), rng.randint(1, 4)
    return asked(f"job-{number}", cores, 1 if gpus else units, **changes)


@pytest.mark.parametrize("seed", range(25))
def test_random_jobs_never_get_more_than_there_is_and_a_restart_changes_nothing(seed: int) -> None:
    rng, watch = Random(seed), Watch()
    twins = Twins(lambda: one_cluster(node_classes=GPU_NODES))
    by_id: dict[str, Event] = {}
    for number in range(14):
        now_us = T0_US + number * PERIOD_US
        gone = [job for job in sorted(watch.jobs) if rng.random() < 0.3]
        for job in gone:
            del watch.jobs[job]
        new = [drawn(rng, 100 * number + n, now_us) for n in range(rng.randint(0, 4))]
        by_id |= {event.payload.job_id: event for event in new}  # type: ignore[attr-defined]
        if rng.random() < 0.5:
            twins.kill()
        watch.take(by_id, twins.round_of(number, *(finished(job, now_us) for job in gone), *new))


def test_a_job_waits_in_its_units_and_says_so_where_its_cluster_lost_what_it_needs() -> None:
    processor = one_cluster(node_classes=GPU_NODES)
    gpus: dict[str, Any] = {"resources_per_unit": {"gpu": 2}}
    round_of(processor, 0, asked("first", 4, **gpus))
    [waits] = round_of(processor, 1, asked("second", 4, **gpus))
    assert verdict(waits) == "queued"
    assert waits.reason == "p2: needs 1 unit of 4 cores, 2 gpu, 0 free"
    round_of(processor, 2, region.declared("p2", nodes=4, time_us=T0_US + 3))
    lost = on(answered(processor, "second"), "p2").constraint
    assert lost == "no node of the cluster has the 2 gpu that a unit needs"
    again = region.declared("p2", nodes=4, time_us=T0_US + 4, node_classes=GPU_NODES)
    [start] = round_of(processor, 3, again, finished("first", T0_US + PERIOD_US))
    assert (verdict(start), start.cluster, where(start)) == ("start", "p2", {0: 1})
