"""Trees of power that were chosen predict, and those of another version are refused."""

import pytest
from coplace.v1.prediction_pb2 import PowerTreesChosen

from coplace_client.errors import RejectedError
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.state.model_store import ModelStore
from shared.streams.state.state import State
from tests.unit.shared.catalogue.payloads.test_power_trees import published
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import round_of, saved, submitted
from tests.unit.shared.placement.test_power_history import history, on_p1, placement


def chosen(number: int, *, origin: bytes = b"", has_trees: bool = True) -> Event:
    message = PowerTreesChosen(who="prediction", reason="better")
    if has_trees:
        message.trees.CopyFrom(published(number))
        message.trees.origin = origin or message.trees.origin
        message.trees.sha256 = model_sha256(message.trees)
        message.version = message.trees.version
    message.sha256 = model_sha256(message)
    return region.event(f"chosen/{number}", message, region.T0_US + 500 + number)


def test_a_decision_names_the_trees_and_goes_without_where_none_are_in_force() -> None:
    """Those of another origin are refused, and the former ones stay."""
    processor = placement()
    region.feed(processor, [*history(9), chosen(1)])
    with pytest.raises(RejectedError, match="origin"):
        processor.handle(chosen(2, origin=b"another"))
    [with_trees] = round_of(processor, 0, submitted("a", app_id="new"))
    assert on_p1(with_trees).power_model_version == "power-history@9, power-trees@80"
    region.feed(processor, [chosen(2, has_trees=False)])
    [without] = round_of(processor, 1, submitted("b", app_id="new"))
    assert on_p1(without).power_model_version == "power-history@9"
    assert on_p1(with_trees).power_w != on_p1(without).power_w


def test_a_restart_has_the_same_trees_in_force_and_forgets_those_of_another_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life = State({})
    lived = ModelStore(life, PolicySettings())
    for event in (*history(9), chosen(1)):
        lived.fold(event)
    state = saved(life.changes())
    restored = ModelStore(State(state), PolicySettings())
    assert restored.power_model.version == "power-history@9, power-trees@80"
    of_lived, of_restored = lived.power_model.tables, restored.power_model.tables
    kinds = list(of_lived._kinds)
    assert of_lived.predict_all(kinds) == of_restored.predict_all(kinds)
    monkeypatch.setattr("shared.placement.state.model_store.TREES_ORIGIN", b"another")
    later = State(state)
    assert ModelStore(later, PolicySettings()).power_model.tables.trees is None
    assert [key for key, value in later.changes().items() if value is None]
