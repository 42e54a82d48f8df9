"""What neighbours cost each other is kept as long as nothing that it follows from is told anew."""

from collections.abc import Mapping
from itertools import combinations, count

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event
from shared.placement.candidates.candidate import Rules
from shared.placement.model_store import ModelStore
from shared.scheduling.sharing import Contention
from tests.unit.shared.placement import region
from tests.unit.shared.placement.test_chosen_pair_trees import chosen

APPS = region.APPS[5:]
PAIRS = [frozenset({pair}) for pair in combinations(sorted(APPS), 2)]

# What may be told, each with values of which the first is known from the beginning, or not at all.
TELL = {
    "bandwidth": lambda at, n: region.signature(7, "p1", at, mem_gbps=(140.0, 90.0, 10.0)[n]),
    "power": lambda at, n: region.signature(6, "p1", at, power_w=(350.0, 300.0, 50.0)[n]),
    "cores": lambda at, n: region.declared("p1", time_us=at, cores_per_node=(48, 24, 96)[n]),
    "node": lambda at, n: region.declared(
        "p1", time_us=at, peak_bandwidth_gbps=(200.0, 100.0, 400.0)[n]
    ),
    "slowdown": lambda at, n: region.policy(at, max_slowdown=(1.25, 1.01, 4.0)[n]),
    "lost": lambda at, n: region.lost("p1", at) if n else region.returned("p1", at),
}


def _told(store: ModelStore) -> dict[tuple[str, str, int], tuple[float, float]]:
    return {
        (name, app, number): (
            rule.cost((app, 6), group := tuple((other, 6) for other in APPS[:number])),
            rule.slowdown((app, 6), group),
        )
        for name, rule in store.neighbours().items()
        for app in APPS
        for number in (1, 2, 3)
    }


def _store(events: list[Event], apart: Mapping[str, frozenset[tuple[str, str]]]) -> ModelStore:
    found = ModelStore(Rules())
    for event in events:
        found.fold(event)
    found.keep_apart(apart)
    return found


@settings(max_examples=40, deadline=None)
@given(
    words=st.lists(
        st.tuples(st.sampled_from([*TELL, "weights", "trees", "apart"]), st.integers(0, 2)),
        max_size=8,
    )
)
@example(words=[("trees", 1), ("trees", 2)])
@example(words=[("trees", 1), ("power", 2)])
@example(words=[("trees", 1), ("apart", 0), ("trees", 0), ("apart", 1)])
def test_what_is_kept_is_what_a_new_process_would_say(words: list[tuple[str, int]]) -> None:
    events, clock = list(region.models()), count(region.T0_US + 1)
    apart: dict[str, frozenset[tuple[str, str]]] = {}
    lived = _store(events, apart)
    for word, n in words:
        at = next(clock)
        _told(lived)
        if word == "apart":
            apart = {region.MODELS["p1"]: PAIRS[n]}
            lived.keep_apart(apart)
        else:
            events.append(_event(word, at, n))
            lived.fold(events[-1])
        assert repr(_told(lived)) == repr(_told(_store(events, apart)))


def _event(word: str, at: int, n: int) -> Event:
    if word == "trees":
        told = chosen(at - region.T0_US, (None, 0.125, 0.5)[n])
        return region.event(told.id, told.payload, at)
    if word == "weights":
        told = region.pair_model(((0.1, 0.2, 0.3, 0.4), (0.0, 1.0, 0.0, 1.0), (0.0,) * 4)[n])
        return region.event(f"weights/{at}", told.payload, at)
    return TELL[word](at, n)


def _rules(store: ModelStore) -> list[Contention]:
    return [store.neighbours()[name] for name in sorted(store.neighbours())]


@pytest.mark.parametrize("trees", [False, True])
def test_costs_stay_where_other_things_are_told(trees: bool) -> None:
    store = _store([*region.models(), *([chosen(1, 0.125)] if trees else [])], {})
    before = _rules(store)
    others = [
        region.lost("p1", region.T0_US + 1),
        region.returned("p1", region.T0_US + 2),
        region.policy(region.T0_US + 4, quantile=0.9),
        region.limits(LIMIT_SUBJECT_USER, "user", region.T0_US + 5, most_running_jobs=1),
        region.declared("p1", nodes=600, time_us=region.T0_US + 6),
    ]
    for event in others:
        store.fold(event)
        assert all(a is b for a, b in zip(_rules(store), before, strict=True)), event.id
    store.keep_apart({})
    assert all(a is b for a, b in zip(_rules(store), before, strict=True))
    store.fold(region.signature(7, "p1", region.T0_US + 7, mem_gbps=90.0))
    assert [a is b for a, b in zip(_rules(store), before, strict=True)] == [False, True]
