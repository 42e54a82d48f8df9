"""Trees of pairs that were chosen say who may share, and those of another version are refused."""

from importlib.metadata import version as version_of

import pytest
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.prediction_pb2 import PairTreesChosen, PairTreesPublished

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event
from shared.catalogue.payloads.regression_trees import packed
from shared.models.forest import Forest, Tree
from shared.models.pair_trees import COLUMNS, PAIRS_ORIGIN
from shared.placement.candidates.candidate import Rules
from shared.placement.model_store import ModelStore
from shared.placement.processor import Placement
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import round_of, submitted


def published(number: int, excess: float, *, origin: bytes = PAIRS_ORIGIN) -> PairTreesPublished:
    """A tree that says the same of every pair whose slowed down job draws above 100 W, alone."""
    power = COLUMNS.index("own power_w")
    tree = Tree([power, -1, -1], [100.0, 0.0, 0.0], [1, 0, 0], [2, 0, 0], [0.0, 0.0, excess])
    leaf = Forest.of([tree], features=len(COLUMNS))
    message = PairTreesPublished(
        version=f"pair-trees@{number}",
        origin=origin,
        trees=packed(leaf),
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
        "trees": sum(each.verdict == VERDICT_START for each in decided)
    }
    shares = [each for each in decided if each.co_runner_job_ids]
    # Beyond the limit of 1.25 nobody shares.
    assert bool(shares) == (excess <= 0.25)
    for each in shares:
        assert each.predicted_slowdown_ratio == 1 + excess * len(each.co_runner_job_ids)


def test_weights_hold_again_where_no_trees_are_in_force() -> None:
    store = ModelStore(Rules())
    for event in region.models():
        store.fold(event)
    before = store.degradation_version
    store.fold(chosen(1, 0.5))
    assert store.degradation_version == "pair-trees@1"
    store.fold(chosen(2, None))
    assert store.degradation_version == before
    for rule in store.neighbours().values():
        assert rule.pairs is None
        assert [rule.told_by(app) for app in (region.APPS[0], "new")] == ["weights", "nothing"]


def test_trees_of_another_origin_are_refused_and_the_former_ones_stay() -> None:
    store = ModelStore(Rules())
    store.fold(chosen(1, 0.5))
    with pytest.raises(RejectedError, match="origin"):
        store.fold(chosen(2, 0.5, origin=b"another"))
    assert store.degradation_version == "pair-trees@1"


def test_a_restart_has_the_same_trees_and_forgets_those_of_another_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lived = ModelStore(Rules())
    lived.fold(chosen(1, 0.5))
    state = {key: value for key, value in lived.changes().items() if value is not None}
    restored, later = ModelStore(Rules()), ModelStore(Rules())
    restored.restore(state)
    assert restored.degradation_version == "pair-trees@1"
    monkeypatch.setattr("shared.placement.model_store.PAIRS_ORIGIN", b"another")
    later.restore(state)
    assert later.degradation_version == ""
    assert [key for key, value in later.changes().items() if value is None]
