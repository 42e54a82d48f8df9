"""What neighbours cost: by trees of pairs that were chosen, and until there is an update."""

from collections.abc import Mapping
from importlib.metadata import version as version_of
from itertools import combinations, count

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.prediction_pb2 import PairTreesChosen, PairTreesPublished
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event
from shared.catalogue.payloads.regression_trees import pack
from shared.catalogue.policy_settings import PolicySettings
from shared.models.forest import Forest, Tree
from shared.models.pair_trees import COLUMNS, PAIRS_ORIGIN
from shared.placement.evaluate.neighbour_rules import NeighbourRules
from shared.placement.processor.placement import Placement
from shared.placement.state.model_store import ModelStore
from shared.scheduling.sharing import Contention
from shared.streams.state.state import State
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import round_of, saved, submitted, verdict


def published(number: int, excess: float, *, origin: bytes = PAIRS_ORIGIN) -> PairTreesPublished:
    """A tree that says the same of every pair whose slowed down job draws above 100 W, alone."""
    power = COLUMNS.index("own power_w")
    tree = Tree([power, -1, -1], [100.0, 0.0, 0.0], [1, 0, 0], [2, 0, 0], [0.0, 0.0, excess])
    leaf = Forest.from_trees([tree], features=len(COLUMNS))
    message = PairTreesPublished(
        version=f"pair-trees@{number}",
        origin=origin,
        trees=pack(leaf),
        code_version=version_of("coplace"),
    )
    message.sha256 = model_sha256(message)
    return message


def chosen(number: int, excess: float | None, *, origin: bytes = PAIRS_ORIGIN) -> Event:
    message = PairTreesChosen(who="prediction", reason="better")
    if excess is not None:
        message.trees.CopyFrom(published(number, excess, origin=origin))
        message.version = message.trees.version
    message.sha256 = model_sha256(message)
    check_contents(message)
    return region.event(f"chosen/{number}", message, region.T0_US + 500 + number)


def three_on_two_nodes(processor: Placement) -> list[PlacementDecided]:
    """Three jobs of parts of a node, for whom there are two nodes."""
    jobs = [
        submitted(name, app_id=region.APPS[0], nodes=1, shareable=True, cores_per_unit=12)
        for name in ("a", "b", "c")
    ]
    return round_of(processor, 0, *jobs)


@pytest.mark.parametrize("excess", [0.0, 0.125, 0.5])
def test_neighbours_cost_what_the_trees_in_force_say(excess: float) -> None:
    processor = region.placement(nodes=1)
    region.feed(processor, [chosen(1, excess)])
    decided = three_on_two_nodes(processor)
    assert {each.degradation_model_version for each in decided} == {"pair-trees@1"}
    assert processor.queries.guarantees.told_by == {
        "trees": sum(verdict(each) == "start" for each in decided)
    }
    shares = [each for each in decided if each.co_runner_job_ids]
    # Beyond the limit of 1.25 nobody shares.
    assert bool(shares) == (excess <= 0.25)
    for each in shares:
        assert each.predicted_slowdown_ratio == 1 + excess * len(each.co_runner_job_ids)


def test_weights_hold_again_where_no_trees_are_in_force() -> None:
    """Those of another origin are refused, and the former ones stay."""
    store = ModelStore(State({}), PolicySettings())
    for event in region.models():
        store.fold(event)
    before = store.degradation_version
    store.fold(chosen(1, 0.5))
    with pytest.raises(RejectedError, match="origin"):
        store.fold(chosen(2, 0.5, origin=b"another"))
    assert store.degradation_version == "pair-trees@1"
    store.fold(chosen(2, None))
    assert store.degradation_version == before
    for rule in NeighbourRules(store)().values():
        assert rule.pairs is None
        assert [rule.predictor(app) for app in (region.APPS[0], "new")] == ["weights", "nothing"]


def test_a_restart_has_the_same_trees_and_forgets_those_of_another_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lived = State({})
    ModelStore(lived, PolicySettings()).fold(chosen(1, 0.5))
    state = saved(lived.changes())
    restored = ModelStore(State(state), PolicySettings())
    assert restored.degradation_version == "pair-trees@1"
    monkeypatch.setattr("shared.placement.state.model_store.PAIRS_ORIGIN", b"another")
    later = State(state)
    assert ModelStore(later, PolicySettings()).degradation_version == ""
    assert [key for key, value in later.changes().items() if value is None]


APPS = region.APPS[5:]
PAIRS = [frozenset({pair}) for pair in combinations(sorted(APPS), 2)]

# What may be published, each with values of which the first is known from the beginning, or never.
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


def _told(rules: NeighbourRules) -> dict[tuple[str, str, int], tuple[float, float]]:
    return {
        (name, app, number): (
            rule.cost((app, 6), group := tuple((other, 6) for other in APPS[:number])),
            rule.slowdown((app, 6), group),
        )
        for name, rule in rules().items()
        for app in APPS
        for number in (1, 2, 3)
    }


def _known(
    events: list[Event], isolated: Mapping[str, frozenset[tuple[str, str]]]
) -> tuple[ModelStore, NeighbourRules]:
    store = ModelStore(State({}), PolicySettings())
    for event in events:
        store.fold(event)
    return store, NeighbourRules(store, isolated)


@settings(max_examples=12, deadline=None)
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
    store, lived = _known(events, apart)
    for word, n in words:
        at = next(clock)
        _told(lived)
        if word == "apart":
            apart = {region.MODELS["p1"]: PAIRS[n]}
            lived.isolate(apart)
        else:
            events.append(_event(word, at, n))
            store.fold(events[-1])
        assert repr(_told(lived)) == repr(_told(_known(events, apart)[1]))


def _event(word: str, at: int, n: int) -> Event:
    if word == "trees":
        told = chosen(at - region.T0_US, (None, 0.125, 0.5)[n])
        return region.event(told.id, told.payload, at)
    if word == "weights":
        told = region.pair_model(((0.1, 0.2, 0.3, 0.4), (0.0, 1.0, 0.0, 1.0), (0.0,) * 4)[n])
        return region.event(f"weights/{at}", told.payload, at)
    return TELL[word](at, n)


def _rules(rules: NeighbourRules) -> list[Contention]:
    return [rule for _, rule in sorted(rules().items())]


@pytest.mark.parametrize("trees", [False, True])
def test_costs_stay_where_other_things_are_told(trees: bool) -> None:
    store, known = _known([*region.models(), *([chosen(1, 0.125)] if trees else [])], {})
    before = _rules(known)
    others = [
        region.lost("p1", region.T0_US + 1),
        region.returned("p1", region.T0_US + 2),
        region.policy(region.T0_US + 4, quantile=0.9),
        region.limits(LIMIT_SUBJECT_USER, "user", region.T0_US + 5, most_running_jobs=1),
        region.declared("p1", nodes=600, time_us=region.T0_US + 6),
    ]
    for event in others:
        store.fold(event)
        assert all(a is b for a, b in zip(_rules(known), before, strict=True)), event.id
    known.isolate({})
    assert all(a is b for a, b in zip(_rules(known), before, strict=True))
    store.fold(region.signature(7, "p1", region.T0_US + 7, mem_gbps=90.0))
    assert [a is b for a, b in zip(_rules(known), before, strict=True)] == [False, True]
