"""What similar jobs drew decides what placement expects of a first run."""

from random import Random
from typing import Any

import pytest
from coplace.v1.placement_pb2 import PREDICTION_BASIS_FIRST_RUN, Candidate, PlacementDecided
from coplace.v1.prediction_pb2 import PowerHistoryUpdated

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.payloads.power_history import updated
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement
from shared.placement.state.model_store import ModelStore
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.online import EndedJob, OnlineLearner, RecentScores
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.state import State
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import round_of, saved, submitted

KIND = KindOfJob("platinum-8168", 2.7, "ada", "new", "1 units", 3600.0)


def history(runs: int, kind: KindOfJob = KIND) -> list[Event]:
    """What runs of one kind taught: by chance three in four draw 200 W, the others 260 W."""
    learner, events, rng = OnlineLearner(0.1), [], Random(1)
    for number in range(1, runs + 1):
        power_w = 260.0 if rng.random() < 0.25 else 200.0
        ended = EndedJob(f"j{number}", kind, power_w, learner.tables.predict(kind))
        [taught] = learner.learn([ended], number).taught
        message = updated(taught, number, RecentScores(0, 0))
        name = f"history/{'|'.join(map(str, kind))}/{number}"
        events.append(region.event(name, message, region.T0_US + number))
    return events


def placement(quantile: float = 0.5) -> Placement:
    processor = Placement({}, PolicySettings(quantile=quantile), 7.0)
    region.feed(processor, region.models())
    return processor


def on_p1(decided: PlacementDecided) -> Candidate:
    return region.on(decided, "p1")


def test_a_first_run_is_expected_to_draw_what_similar_jobs_did() -> None:
    processor = placement()
    region.feed(processor, history(100))
    [decided] = round_of(processor, 0, submitted("a", app_id="new"))
    found = on_p1(decided)
    assert found.basis == PREDICTION_BASIS_FIRST_RUN
    assert found.power_w == pytest.approx(200, rel=0.1)
    assert found.power_model_version == "power-history@100"
    assert found.HasField("power_sd")
    elsewhere = region.on(decided, "p2")
    assert (elsewhere.power_w, elsewhere.HasField("power_sd")) == (333.0, False)


def test_energy_is_planned_with_the_bound_where_the_rules_name_its_quantile() -> None:
    planned = []
    for quantile in (0.5, 0.9):
        processor = placement(quantile)
        region.feed(processor, history(100))
        [decided] = round_of(processor, 0, submitted("a", app_id="new"))
        planned.append(on_p1(decided).planned_energy_j / on_p1(decided).time_s)
    assert planned[0] == pytest.approx(200, rel=0.01)
    assert 230 < planned[1] <= 260


@pytest.mark.parametrize(
    ("field", "changes", "is_sealed"),
    [("origin", {"origin": b"another"}, True), ("sha256", {"highest_power_w": 7.0}, False)],
)
def test_rows_of_another_origin_or_digest_are_refused_and_the_former_ones_stay(
    field: str, changes: dict[str, Any], is_sealed: bool
) -> None:
    processor = placement()
    [*earlier, last] = history(9)
    region.feed(processor, earlier)
    assert isinstance(last.payload, PowerHistoryUpdated)
    last.payload.MergeFrom(PowerHistoryUpdated(**changes))
    if is_sealed:
        region.sealed(last.payload)
    with pytest.raises(RejectedError, match=field):
        processor.handle(last)
    [decided] = round_of(processor, 0, submitted("a", app_id="new"))
    assert on_p1(decided).power_model_version == "power-history@8"


def test_rows_of_a_clock_that_was_ahead_make_room_for_those_that_follow_on_them() -> None:
    store = ModelStore(State({}), PolicySettings())
    first, second = history(2)
    ahead = region.event(first.id, first.payload, first.time_us + 3_600_000_000)
    for row in (ahead, second):
        store.fold(row)
    assert store.power_model.version == "power-history@2"
    with pytest.raises(AlreadyAppliedError):
        store.fold(ahead)


def test_a_restart_knows_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    life, state = State({}), dict[str, bytes | None]()
    lived = ModelStore(life, PolicySettings())
    kinds = [KIND._replace(user=f"u{n % 5}", app_id=f"a{n % 3}") for n in range(40)]
    lived.power_model.tables._most_kinds = 10
    learner = OnlineLearner(0.1)
    for number, kind in enumerate(kinds, 1):
        predicted = learner.tables.predict(kind)
        ended = EndedJob("job", kind, 200.0 + number, predicted)
        [taught] = learner.learn([ended], number).taught
        message = updated(taught, number, RecentScores(0, 0))
        lived.fold(region.event(f"h{number}", message, region.T0_US + number))
        state |= life.changes()
    restored = ModelStore(State(saved(state)), PolicySettings())
    assert len(restored.power_model.tables) <= 10
    for kind in kinds:
        expected = lived.power_model.tables.predict(kind)
        assert restored.power_model.tables.predict(kind) == expected
    assert restored.power_model.version == lived.power_model.version


def test_a_restart_by_another_version_forgets_rows_of_the_one_before() -> None:
    life = State({})
    lived = ModelStore(life, PolicySettings())
    for event in history(3):
        lived.fold(event)
    [(key, value)] = life.changes().items()
    assert value is not None
    origin = history(1)[0].payload.origin  # type: ignore[attr-defined]
    state = State({key: value.replace(origin, b"x" * len(origin))})
    restored = ModelStore(state, PolicySettings())
    assert len(restored.power_model.tables) == 0
    assert state.changes() == {key: None}
