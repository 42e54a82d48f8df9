"""What jobs drew, held to what was predicted when they started."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from coplace.v1.control_pb2 import ClusterDeclared, NodeClass
from coplace.v1.prediction_pb2 import PowerHistoryUpdated, RunPowerPredicted
from hypothesis import given, settings
from hypothesis import strategies as st

from services.prediction.job_power import recall_outputs
from services.prediction.processor import Prediction
from shared.catalogue.event import Event
from shared.catalogue.payloads.power_history import update_of
from shared.power_prediction.bound import FEW_JOBS
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.similar_jobs import PowerTables
from shared.streams.stages.stage import Processor
from shared.streams.state.rows import rows_of
from tests.unit.services.changelog import fold, state_of
from tests.unit.services.prediction import support
from tests.unit.services.prediction.support import SECOND_US, declared, job, run

HOUR_US = 3_600 * SECOND_US


def told(processor: Processor, number: int, events: Iterable[Event]) -> list[PowerHistoryUpdated]:
    """The rows that a round of events publishes."""
    found = support.told(processor, number, (number + 2) * HOUR_US, events)
    return [each for each in found if isinstance(each, PowerHistoryUpdated)]


def test_a_prediction_is_made_when_a_job_starts_and_judged_when_it_ends() -> None:
    prediction = Prediction({})
    [first] = told(prediction, 0, [declared(), *job(0, 300.0)])
    assert not first.similar[0].losses
    submitted, started, finished = job(1, 330.0)
    assert told(prediction, 1, [submitted, started]) == []
    [second] = told(prediction, 2, [finished])
    assert second.recent_error == pytest.approx(1 - 300 / 330)
    assert second.recent_above_share == 0
    assert len(second.similar[0].losses) > 0
    assert (second.learned_jobs, second.highest_power_w) == (2, 330.0)


def test_rows_that_are_learned_anew_follow_on_those_that_a_clock_ahead_numbered() -> None:
    ahead, lesson = 10_000, [declared(), *job(0, 300.0)]
    [first] = told(Prediction({}), ahead, lesson)
    assert first.number > (0 + 2) * HOUR_US
    events = [Event("row", "prediction", 1, "row", first), Event("lie", "nobody", 1, "row", first)]
    state = dict[str, bytes]()
    fold(state, recall_outputs({}, events, 0))
    assert recall_outputs({}, events[1:], 0) == {}
    assert recall_outputs(state, events, 0) == {}
    [again] = told(Prediction(state), 0, lesson)
    assert again.number == first.number + 1


def test_a_job_that_started_elsewhere_or_at_another_pstate_judges_nothing() -> None:
    prediction = Prediction({})
    told(prediction, 0, [declared(), *job(0, 300.0)])
    submitted, started, finished = job(1, 330.0, of_start={"freq_ghz": 1.2})
    told(prediction, 1, [submitted, started])
    [second] = told(prediction, 2, [finished])
    assert (second.learned_jobs, second.recent_error) == (2, 0)


@pytest.mark.parametrize(
    ("energy_w", "is_believed"),
    [(0.0, False), (1.0, False), (54.0, False), (56.0, True), (600.0, True), (601.0, False)],
)
def test_of_a_run_whose_energy_is_not_believed_it_is_published_what_was_predicted(
    energy_w: float, is_believed: bool
) -> None:
    """Nodes idle at 110 W and draw 600 W at most; 300 W were predicted."""
    rated = declared()
    assert isinstance(rated.payload, ClusterDeclared)
    rated.payload.nameplate_power_w = 600.0
    prediction = Prediction({})
    support.told(prediction, 0, 2 * HOUR_US, [rated, *job(0, 300.0)])
    submitted, started, finished = job(1, energy_w)
    support.told(prediction, 1, 3 * HOUR_US, [submitted, started])
    found = support.told(prediction, 2, 4 * HOUR_US, [finished])
    predicted = [each for each in found if isinstance(each, RunPowerPredicted)]
    if is_believed:
        assert predicted == []
    else:
        [one] = predicted
        assert (one.job_id, one.attempt, one.cluster) == ("site/p1/0001/0", 1, "p1")
        assert one.node_power_w == pytest.approx(300.0)


def test_where_nobody_has_a_meter_0_joules_say_so_and_no_run_is_charged_as_predicted() -> None:
    prediction = Prediction({})
    runs = [job(number, 0.0) for number in range(3)]
    read = support.read("n1", 300.0)
    support.told(prediction, 0, 2 * HOUR_US, [declared(), read, *(e for r in runs for e in r[:2])])
    found = support.told(prediction, 1, 3 * HOUR_US, [each[2] for each in runs])
    assert not [each for each in found if isinstance(each, RunPowerPredicted)]


def test_a_part_of_a_node_is_charged_that_part_of_what_was_predicted() -> None:
    prediction = Prediction({})
    half: dict[str, Any] = {"of_submission": {"cores_per_unit": 24}, "cores_per_node": 24}
    support.told(prediction, 0, 2 * HOUR_US, [declared(), *job(0, 150.0, **half)])
    submitted, started, finished = job(1, 1e9, **half)
    support.told(prediction, 1, 3 * HOUR_US, [submitted, started])
    found = support.told(prediction, 2, 4 * HOUR_US, [finished])
    [one] = [each for each in found if isinstance(each, RunPowerPredicted)]
    assert one.node_power_w == pytest.approx(150.0)


def test_nothing_is_kept_of_a_job_that_ended() -> None:
    prediction = Prediction({})
    told(prediction, 0, [declared(), *job(0, 300.0)])
    told(prediction, 1, [*job(1, 300.0)[:2], *job(2, 300.0)[:2]])
    blind = run(2, "calm", 300.0, energy_j=0.0)[1]
    state = state_of(prediction)
    told(prediction, 2, [job(1, 300.0)[2], blind])
    fold(state, prediction.changes())
    kept = {key.split("|")[0] for key in state}
    assert not kept & {"power-started", "power-expected", "power-ended", "job"}


def test_rows_of_another_version_are_forgotten() -> None:
    prediction = Prediction({})
    told(prediction, 0, [declared(), *job(0, 300.0)])
    state = state_of(prediction)
    [key] = [key for key in state if key.startswith("power-history|")]
    foreign = PowerHistoryUpdated(origin=b"another")
    state[key] = rows_of(PowerHistoryUpdated).encode(foreign)
    [again] = told(Prediction(state), 1, job(1, 330.0))
    assert [row.count for row in again.similar] == [1] * 6


def read(number: int, node: str, power_w: float, *at_s: int) -> Event:
    first_us, last_us = min(at_s) * SECOND_US, max(at_s) * SECOND_US
    found = support.read(node, power_w, last_us, samples=len(at_s), first_at_us=first_us)
    return replace(found, id=f"read {number} {node} {at_s}", time_us=at_s[0] * SECOND_US)


def learned_w(*readings: Event, has_energy: bool = True) -> list[float]:
    """What is learned of a job of two nodes that ran for an hour, by its energy at 300 W a node."""
    prediction = Prediction({})
    energy_j = 300.0 * 2 * 3600 if has_energy else 0.0
    submitted, started, finished = job(0, 300.0, energy_j=energy_j)
    told(prediction, 0, [declared(), submitted, started])
    rows = told(prediction, 1, [*readings, finished])
    found = [power_w for row in rows for power_w in row.powers_w]
    assert not [key for key in state_of(prediction) if key.startswith("meter")]
    return found


def test_meters_that_cover_a_job_count_before_its_resource_manager() -> None:
    both = [read(0, "n1", 250.0, 100, 3_000), read(1, "n2", 270.0, 100, 1_000, 2_000, 3_000)]
    assert learned_w(*both) == [260.0]
    assert learned_w(*both, has_energy=False) == [260.0]
    assert learned_w(*both, read(2, "n1", 550.0, 3_500)) == [310.0]


def test_meters_that_saw_half_of_a_job_leave_it_to_its_resource_manager() -> None:
    one_node = [read(0, "n1", 250.0, 100, 3_000)]
    short = [read(0, "n1", 250.0, 100, 3_000), read(1, "n2", 250.0, 100, 500)]
    before = [read(0, "n1", 250.0, 0, 3_000), read(1, "n2", 250.0, 100, 3_000)]
    for readings in (one_node, short, before):
        assert learned_w(*readings) == [300.0]
        assert learned_w(*readings, has_energy=False) == []


def sharer(
    number: int, app_id: str, power_w: float, ended_s: int = 3601, started_s: int = 1
) -> tuple[Event, Event, Event]:
    """A job on half of the node n1 whose resource manager has no meter; a whole node like it would
    draw so much."""
    began: dict[str, Any] = {"started_at_us": started_s * SECOND_US}
    return job(
        number,
        power_w,
        app_id,
        of_submission={"nodes": 1, "cores_per_unit": 24},
        of_start=began | {"nodes": ["n1"]},
        **(began | {"nodes": 1, "cores": 24, "energy_j": 0.0, "ended_at_us": ended_s * SECOND_US}),
    )


ROUNDS = [
    [declared(), *job(0, 300.0), *job(1, 250.0, "hungry")],
    [*job(2, 310.0)[:2], *job(3, 240.0, "hungry")[:2], *job(4, 290.0)[:2]],
    [job(2, 310.0)[2], job(3, 240.0, "hungry")[2], *job(5, 305.0)],
    [read(4, "n1", 280.0, 10, 3_000), read(4, "n2", 281.0, 10, 3_000)],
    [job(4, 290.0)[2], *job(6, 260.0, "hungry")],
    [each for n, app in ((7, "calm"), (8, "hungry")) for each in sharer(n, app, 300.0)[:2]],
    [read(5, "n1", 320.0, 10, 3_000), *(sharer(n, "calm", 300.0)[2] for n in (7, 8))],
]


def shuffled(events: list[Event], data: st.DataObject) -> list[Event]:
    """In an order in which Kafka may hand them over: each job's own one stays."""
    keys = data.draw(st.permutations([one.key for one in events]))
    by_key = {key: [one for one in events if one.key == key] for key in keys}
    return [by_key[key].pop(0) for key in keys]


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_neither_restarts_nor_the_order_within_a_round_change_what_is_published(
    data: st.DataObject,
) -> None:
    lived, killed, state = Prediction({}), Prediction({}), dict[str, bytes]()
    for number, events in enumerate(ROUNDS):
        expected = told(lived, number, events)
        order = shuffled(events, data)
        dies_at = data.draw(st.integers(0, len(order)))
        for one in order[:dies_at]:
            list(killed.handle(one))
        fold(state, killed.changes())
        killed = Prediction(state)
        assert told(killed, number, order[dies_at:]) == expected
        fold(state, killed.changes())


def powers_w(rows: Iterable[PowerHistoryUpdated]) -> dict[str, list[float]]:
    return {row.app_id: list(row.powers_w) for row in rows}


def test_what_a_shared_nodes_meter_shows_teaches_what_each_of_its_jobs_drew() -> None:
    prediction = Prediction({})
    calm, hungry = sharer(0, "calm", 300.0), sharer(1, "hungry", 300.0)
    told(prediction, 0, [declared(), *calm[:2], *hungry[:2]])
    found = powers_w(told(prediction, 1, [read(0, "n1", 310.0, 10, 3_000), calm[2], hungry[2]]))
    assert found == {"calm": [310.0], "hungry": [310.0]}
    assert not [key for key in state_of(prediction) if key.startswith("meter")]


def test_jobs_that_meet_others_are_distinguished_by_the_meters_of_nodes_that_they_share() -> None:
    """Two calm jobs show 200 W, two hungry ones 400 W, one of each 300 W: 110 W of it idle."""
    prediction, said = Prediction({}), dict[str, list[float]]()
    shown_w = {("calm", "calm"): 200.0, ("hungry", "hungry"): 400.0, ("calm", "hungry"): 300.0}
    number = 0
    for _ in range(8):
        for apps, power_w in shown_w.items():
            began_s = 2_000 * number
            during_s = began_s + 3_600, began_s + 1
            pair = [sharer(number + n, app, 300.0, *during_s) for n, app in enumerate(apps)]
            starts = [each for submitted, started, _ in pair for each in (submitted, started)]
            told(prediction, 2 * number, [declared(), *starts])
            ends = [finished for *_, finished in pair]
            reading = read(number, "n1", power_w, began_s + 10, began_s + 3_000)
            said = powers_w(told(prediction, 2 * number + 1, [reading, *ends]))
            number += 2
    assert said["calm"][0] == pytest.approx(200.0, abs=10)
    assert said["hungry"][0] == pytest.approx(400.0, abs=10)


def test_readings_of_when_another_job_came_or_went_teach_nothing_of_those_that_stayed() -> None:
    for late in (False, True):
        prediction = Prediction({})
        stays, goes = sharer(0, "calm", 300.0), sharer(1, "hungry", 300.0, ended_s=1_000)
        told(prediction, 0, [declared(), *stays[:2], *goes[:2]])
        readings = [read(0, "n1", 390.0, 10, 900), read(1, "n1", 390.0, 500, 1_500)]
        if late:
            told(prediction, 1, [goes[2]])
            events = [*readings, read(2, "n1", 200.0, 1_100, 3_500), stays[2]]
            assert powers_w(told(prediction, 2, events)) == {"calm": [(200 - 55) * 2]}
        else:
            assert powers_w(told(prediction, 1, [*readings, goes[2]])) == {"hungry": [390.0]}


def test_energy_that_makes_no_power_of_a_node_does_not_hide_what_meters_showed() -> None:
    prediction = Prediction({})
    submitted, started, finished = job(0, 300.0, energy_j=1e-3)
    told(prediction, 0, [declared(), submitted, started])
    readings = [read(n, name, 250.0, 100, 3_000) for n, name in enumerate(("n1", "n2"))]
    [row] = told(prediction, 1, [*readings, finished])
    assert row.powers_w == [250.0]


def test_who_folds_what_was_published_predicts_jobs_with_accelerators_the_same() -> None:
    """Through restarts, and beside jobs without any."""
    cluster, state, tables = declared(), dict[str, bytes](), PowerTables()
    assert isinstance(cluster.payload, ClusterDeclared)
    gpus = NodeClass(nodes=16, resources={"gpu": 4}, tdp_w={"gpu": 250.0})
    cluster.payload.node_classes.append(gpus)
    for number in range(2 * FEW_JOBS + 6):
        prediction = Prediction(state)
        asked = {"resources_per_unit": {"gpu": 4}} if number % 2 else {}
        power_w = 700.0 if number % 2 else 300.0
        events = job(number, power_w, of_submission=asked)
        for row in told(prediction, number, [cluster, *events]):
            tables.fold(update_of(row))
        fold(state, prediction.changes())
        bare = KindOfJob("platinum-8168", 2.7, "user", "calm", "2 units", 7_200.0)
        with_gpus = bare._replace(size="2 units, 4 gpu", accelerators_w=1_000.0)
        for kind in (bare, with_gpus):
            assert tables.predict(kind) == prediction.power_learner.tables.predict(kind)
        power = tables.predict(with_gpus)
        assert power is not None
        expected_w = 1_300.0 if (number + 1) // 2 < FEW_JOBS else 700.0
        assert power.predicted_w == pytest.approx(expected_w)
