"""Gangs and other jobs of two clusters never have more licences than there are."""

from random import Random
from typing import Any, Final

import pytest
from coplace.v1.jobs_pb2 import Part
from coplace.v1.placement_service_pb2 import ListLicencesRequest

from shared.catalogue.event import Event
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, end_us, licences, round_of, started_on

# By name and place: none of them is ever lowered.
POOLS: Final = {("matlab", ""): 5, ("matlab", "p1"): 3, ("ansys", "site"): 2}
_ROUNDS: Final = 25


def job(name: str, cluster: str, *parts: Part, **asked: Any) -> Event:
    nodes = sum(part.units for part in parts) or 1
    whole: dict[str, Any] = {"clusters": [cluster], "parts": parts, "nodes": nodes}
    return region.submitted(name, T0_US + 2, **(whole | asked))


def in_use(made: Placement) -> dict[tuple[str, str], int]:
    listed = made.queries.licences(ListLicencesRequest()).licences
    return {(each.licences.name, each.licences.place): each.in_use for each in listed}


def unlike(first: int, second: int) -> tuple[Part, Part]:
    return Part(units=first, memory_gib_per_unit=1.0), Part(units=second)


def test_a_running_gang_keeps_its_licences_from_jobs_of_all_clusters() -> None:
    made = region.placement(nodes=8)
    gang = job("gang", "p1", *unlike(1, 2), licences={"matlab": 2})
    [decided] = round_of(made, 1, licences("matlab", 3), gang)
    others = [job(name, name, licences={"matlab": 2}) for name in ("p1", "p2")]
    others.append(job("gang-2", "p1", *unlike(1, 1), licences={"matlab": 2}))
    assert started_on(round_of(made, 2, region.started(decided), *others)) == {}
    assert in_use(made) == {("matlab", ""): 2}
    fits = job("fits", "p2", licences={"matlab": 1}, walltime_s=60.0)
    assert started_on(round_of(made, 3, fits)) == {"fits": "p2"}
    ended = [region.finished(name, end_us(4) - 1) for name in ("gang", "fits")]
    assert len(started_on(round_of(made, 4, *ended))) == 1


@pytest.mark.parametrize("seed", range(6))
def test_what_is_in_use_is_never_more_than_there_is(seed: int) -> None:
    rng, made = Random(seed), region.placement(nodes=8)
    asked: dict[str, tuple[str, dict[str, int]]] = {}
    waiting, running = set[str](), set[str]()
    events = [licences(name, count, place) for (name, place), count in POOLS.items()]
    for number in range(1, _ROUNDS):
        for _ in range(rng.randint(0, 2)):
            name, cluster = f"j{len(asked)}", rng.choice(["p1", "p2"])
            parts = rng.choice([(), unlike(rng.randint(1, 2), rng.randint(1, 2))])
            needs = {"matlab": rng.randint(1, 3)} | rng.choice([{}, {"ansys": rng.randint(1, 2)}])
            asked[name] = cluster, needs
            waiting.add(name)
            limit_s = rng.choice([60.0, 600.0])
            events.append(job(name, cluster, *parts, licences=needs, walltime_s=limit_s))
        ended = [name for name in sorted(running) if rng.random() < 0.3]
        events += [region.finished(name, end_us(number) - 1) for name in ended]
        running.difference_update(ended)
        decided = [d for d in round_of(made, number, *events) if d.job_id in started_on([d])]
        running.update(d.job_id for d in decided)
        waiting -= running
        events = [region.started(each) for each in decided if rng.random() < 0.7]
        held = dict.fromkeys(POOLS, 0)
        for (name, place), count in POOLS.items():
            there = [n for c, n in map(asked.__getitem__, running) if place in ("", "site", c)]
            held[name, place] = sum(needs.get(name, 0) for needs in there)
            assert held[name, place] <= count
        assert in_use(made) == held
    assert len(asked) - len(waiting) > 5
