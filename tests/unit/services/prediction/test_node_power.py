"""What each node draws against the mean node, from readings of jobs that had it alone."""

from typing import Any

import numpy as np
import pytest
from coplace.v1.jobs_pb2 import JobRequeued
from coplace.v1.prediction_pb2 import RunningPowerMeasured
from hypothesis import given, settings
from hypothesis import strategies as st

from services.prediction.node_factors import NodeDraw, node_factors
from services.prediction.node_power import MIN_DRAWS
from services.prediction.processor import Prediction
from shared.catalogue.digest import require_sha256
from shared.catalogue.event import Event
from tests.unit.services.changelog import fold, interrupted
from tests.unit.services.prediction import support
from tests.unit.services.prediction.support import (
    SECOND_US,
    declared,
    event,
    in_round,
    job,
    read,
)

DURING_US = 1800 * SECOND_US


def drawn(node: int, group: str, power_w: float, number: int = 0) -> NodeDraw:
    return NodeDraw(number, f"{number}", "p1", f"p1-{node:04d}", group, power_w)


def test_factors_are_found_among_applications_that_draw_differently() -> None:
    rng = np.random.default_rng(1)
    true = rng.normal(0, 0.03, 40)
    usual_w = {"calm": 200.0, "hungry": 400.0, "dgemm": 490.0}
    draws = [
        drawn(n, group, usual_w[group] * float(np.exp(true[n] + rng.normal(0, 0.01))))
        for n in range(40)
        for group in rng.choice(list(usual_w), 8).tolist()
    ]
    found = np.log([node_factors(draws)["p1", f"p1-{n:04d}"] for n in range(40)])
    assert np.corrcoef(found, true)[0, 1] > 0.95
    assert np.std(found) < np.std(true)


def test_a_node_with_few_readings_stays_near_the_mean_node() -> None:
    usual = [drawn(n, "app", 300.0) for n in range(20)]
    once = node_factors([*usual, drawn(99, "app", 330.0)])["p1", "p1-0099"]
    often = node_factors([*usual, *[drawn(99, "app", 330.0)] * 9])["p1", "p1-0099"]
    assert 1.0 < once < 1.055 < often < 1.1


def test_an_application_that_ran_on_one_node_alone_says_nothing_of_it() -> None:
    assert node_factors([drawn(1, "app", 300.0), drawn(1, "app", 300.0)]) == {
        ("p1", "p1-0001"): pytest.approx(1.0)
    }
    assert node_factors([]) == {}


def alone(
    number: int, node: int, power_w: float, nodes: int = 1, **changes: Any
) -> tuple[Event, Event, Event, Event]:
    """A job on one node, or on more, and what the meter of the first showed meanwhile."""
    names = [f"p1-{node + n:04d}" for n in range(nodes)]
    on = {"nodes": names}
    submitted, started, finished = job(number, power_w, of_submission=changes, of_start=on)
    return submitted, started, read(names[0], power_w, DURING_US + number), finished


def jobs(count: int, **changes: Any) -> list[Event]:
    """Node 1 draws a tenth more than the other nine."""
    powers = [330.0 if n % 10 == 1 else 300.0 for n in range(count)]
    return [e for n, power_w in enumerate(powers) for e in alone(n, n % 10, power_w, **changes)]


def factors(message: Any) -> dict[str, float]:
    return dict(zip(message.nodes, message.factors, strict=True))


def test_readings_of_jobs_that_were_alone_become_factors_of_nodes() -> None:
    message = in_round(Prediction({}), 0, declared(), *jobs(MIN_DRAWS))["node-power"]
    assert (message.version, message.training_readings) == ("node-power@0", MIN_DRAWS)
    assert set(message.clusters) == {"p1"}
    assert factors(message)["p1-0001"] > 1.05
    assert all(
        0.97 < factor < 1 for node, factor in factors(message).items() if "1" not in node[3:]
    )
    require_sha256(message)


def test_what_neighbours_draw_is_not_taken_for_the_node() -> None:
    for part in ({"shareable": True}, {"cores_per_unit": 12}):
        models = in_round(Prediction({}), 0, declared(), *jobs(2 * MIN_DRAWS, **part))
        assert "node-power" not in models


def test_readings_before_a_start_or_after_an_end_belong_to_nobody() -> None:
    events = [one for one in jobs(2 * MIN_DRAWS) if "samples" not in one.id]
    late = [read(f"p1-{n % 10:04d}", 300.0, 3700 * SECOND_US + n) for n in range(2 * MIN_DRAWS)]
    assert "node-power" not in in_round(Prediction({}), 0, declared(), *events, *late)


def test_readings_of_a_job_that_still_runs_count_once() -> None:
    prediction = Prediction({})
    unfinished = [e for e in jobs(MIN_DRAWS) if "finished" not in e.id]
    assert "node-power" in in_round(prediction, 0, declared(), *unfinished)
    again = [e for e in unfinished if "samples" in e.id]
    assert "node-power" not in in_round(prediction, 1, *again, *again)


def test_an_attempt_that_was_requeued_has_left_its_node() -> None:
    prediction = Prediction({})
    events = [e for e in jobs(MIN_DRAWS) if "submitted" in e.id or "started" in e.id]
    ids = (f"site/p1/{n:04d}/0" for n in range(MIN_DRAWS))
    gone = [event(f"requeued {one}", 2, one, JobRequeued(job_id=one, attempt=2)) for one in ids]
    in_round(prediction, 0, declared(), *events, *gone)
    readings = [e for e in jobs(MIN_DRAWS) if "samples" in e.id]
    assert "node-power" not in in_round(prediction, 1, *readings)


@settings(max_examples=20)
@given(st.randoms(use_true_random=False), st.integers(0, 200))
def test_neither_order_nor_a_restart_changes_factors(random: Any, restart: int) -> None:
    """Topics arrive one beside the other; within a job the order holds."""
    events = jobs(MIN_DRAWS)
    expected = in_round(Prediction({}), 0, declared(), *events)["node-power"]
    of_jobs = [e for e in events if "samples" not in e.id]
    order = [e for e in events if "samples" in e.id]
    random.shuffle(order)
    events = [declared(), *order, *of_jobs]
    assert in_round(interrupted(Prediction, events, restart), 0)["node-power"] == expected


MINUTE_US = 60 * SECOND_US


def shows(minute: int, power_w: float, node: str = "p1-0000") -> Event:
    """A meter's sample of a minute of the hour in which the job runs."""
    return read(node, power_w, SECOND_US + minute * MINUTE_US)


def told(prediction: Prediction, number: int, *events: Event) -> list[RunningPowerMeasured]:
    payloads = support.told(prediction, number, (number + 1) * MINUTE_US, events)
    return [each for each in payloads if isinstance(each, RunningPowerMeasured)]


def test_what_a_job_draws_that_runs_is_published_once_its_meters_covered_ten_minutes() -> None:
    prediction = Prediction({})
    submitted, started, *_ = alone(0, 0, 300.0)
    assert told(prediction, 0, declared(), submitted, started, shows(1, 310.0)) == []
    assert told(prediction, 1, shows(10, 310.0)) == []
    [first] = told(prediction, 2, shows(11, 340.0))
    assert (first.job_id, first.attempt, first.cluster) == (submitted.key, 1, "p1")
    assert first.node_power_w == pytest.approx(320.0)
    assert first.measured_at_us == SECOND_US + 11 * MINUTE_US


def test_it_is_published_again_only_where_it_is_off_and_not_too_soon() -> None:
    prediction, restored = Prediction({}), dict[str, bytes]()
    submitted, started, *_ = alone(0, 0, 300.0)
    told(prediction, 0, declared(), submitted, started, shows(1, 300.0))
    said = []
    for minute in range(11, 60):
        power_w = 300.0 if minute < 20 else 600.0
        said += told(prediction, minute, shows(minute, power_w))
        fold(restored, prediction.changes())
        prediction = Prediction(restored)
    assert [each.measured_at_us // MINUTE_US for each in said] == [11, 41]
    assert said[1].node_power_w > 1.1 * said[0].node_power_w


def test_nothing_is_published_of_jobs_that_ended_share_or_lack_a_meter() -> None:
    for changes, nodes, ends in (({"shareable": True}, 1, 0), ({}, 2, 0), ({}, 1, 1)):
        submitted, started, _, finished = alone(0, 0, 300.0, nodes, **changes)
        prediction = Prediction({})
        told(prediction, 0, declared(), submitted, started, shows(1, 300.0))
        assert told(prediction, 1, shows(30, 300.0), *[finished] * ends) == []
