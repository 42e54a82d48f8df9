"""Which meters are read, published about once a minute."""

from typing import Any

from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    ClusterDeclared,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.prediction_pb2 import NodeMetersRead

from services.prediction.processor import Prediction
from shared.catalogue.event import Event
from tests.unit.services.changelog import fold, state_of
from tests.unit.services.prediction import support
from tests.unit.services.prediction.support import SECOND_US, declared, read


def of_nameplate(**changes: Any) -> Event:
    """The cluster p1, of which somebody says what its nodes draw at most."""
    event = declared()
    assert isinstance(event.payload, ClusterDeclared)
    event.payload.MergeFrom(ClusterDeclared(nameplate_power_w=600.0, **changes))
    return event


def told(prediction: Prediction, at_s: float, *events: Event) -> list[NodeMetersRead]:
    found = support.told(prediction, round(at_s), round(at_s * SECOND_US), events)
    return [each for each in found if isinstance(each, NodeMetersRead)]


def whose(prediction: Prediction, at_s: float, *events: Event) -> list[list[str]]:
    """Whose meters were read, as published at the end of a round."""
    return [list(each.nodes) for each in told(prediction, at_s, *events)]


def sample(node: int, at_s: float) -> Event:
    return read(f"p1-{node:04d}", 300.0, round(at_s * SECOND_US))


def test_it_is_published_once_a_minute_whose_meters_were_read() -> None:
    prediction = Prediction({})
    assert whose(prediction, 100, of_nameplate(), sample(0, 90), sample(1, 91)) == [
        ["p1-[0000-0001]"]
    ]
    assert whose(prediction, 130, sample(0, 120)) == []
    assert whose(prediction, 160, sample(2, 150)) == [["p1-[0000,0002]"]]
    assert whose(prediction, 220) == []


def test_a_collector_that_sends_its_last_reading_again_and_again_is_silent() -> None:
    prediction = Prediction({})
    whose(prediction, 100, of_nameplate(), sample(0, 90))
    for at_s in range(160, 1_000, 60):
        assert whose(prediction, at_s, sample(0, 90)) == []


def test_clocks_of_nodes_that_jump_are_no_silence() -> None:
    prediction = Prediction({})
    whose(prediction, 100, of_nameplate(), sample(0, 90))
    for number, clock_s in enumerate((86_400, 150, 149, 1)):
        assert whose(prediction, 160 + 60 * number, sample(0, clock_s)) == [["p1-0000"]]


def test_what_was_read_long_before_a_round_ends_that_could_show_it_is_not_reported() -> None:
    prediction = Prediction({})
    whose(prediction, 100, of_nameplate(), sample(0, 90))
    assert whose(prediction, 130, sample(0, 120)) == []
    assert whose(prediction, 1_000) == []
    assert whose(prediction, 1_060, sample(0, 1_050)) == [["p1-0000"]]


def test_nothing_is_published_without_a_nameplate_or_declared_nodes() -> None:
    assert whose(Prediction({}), 100, declared(), sample(0, 90)) == []
    stranger = read("login-1", 300.0, 90 * SECOND_US)
    assert whose(Prediction({}), 100, of_nameplate(), stranger) == []


def test_a_restart_changes_nothing_of_what_is_reported() -> None:
    """Before a round ends, and after."""
    prediction, state = Prediction({}), dict[str, bytes]()

    def restarted() -> Prediction:
        fold(state, prediction.changes())
        return Prediction(state)

    whose(prediction, 100, of_nameplate(), sample(0, 90))
    prediction = restarted()
    list(prediction.handle(sample(1, 110)))
    prediction = restarted()
    assert whose(prediction, 130) == []
    prediction = restarted()
    assert whose(prediction, 160) == [["p1-0001"]]
    assert restarted().changes() == {}


def capped(at_us: int, *watts: float | None, name: str = "p1") -> Event:
    payload = PowerCapDeclared(scope=POWER_SCOPE_CLUSTER, name=name, declared_at_us=at_us)
    for number, each in enumerate(watts):
        payload.steps.append(PowerCapStep(from_us=at_us + number, watts=each))
    return Event(f"cap/{name}/{at_us}", "test", at_us, name, payload)


def test_of_a_cluster_under_a_cap_it_is_reported_though_it_declares_no_nameplate() -> None:
    prediction = Prediction({})
    assert whose(prediction, 100, declared(), sample(0, 90)) == []
    assert whose(prediction, 160, capped(1, 900.0), sample(0, 150)) == [["p1-0000"]]
    again = Prediction(state_of(prediction))
    assert whose(again, 220, sample(0, 210)) == [["p1-0000"]]
    assert whose(again, 280, capped(3, None), capped(2, 900.0), sample(0, 270)) == []


def test_caps_of_what_nobody_declared_are_not_kept() -> None:
    prediction = Prediction({})
    whose(prediction, 100, declared(), capped(1, 900.0, name="elsewhere"))
    assert not [key for key in prediction.changes() if "elsewhere" in key]


def test_what_each_meter_showed_is_reported_in_the_order_of_the_names() -> None:
    first = read("p1-0000", 250.5, 90 * SECOND_US)
    [message] = told(Prediction({}), 100, of_nameplate(), sample(2, 92), first)
    assert list(message.nodes) == ["p1-[0000,0002]"]
    assert list(message.node_power_mw) == [250_500, 300_000]
