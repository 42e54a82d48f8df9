from typing import Any

import numpy as np
import pytest
from coplace.v1.jobs_pb2 import JobRequeued
from coplace.v1.prediction_pb2 import PowerHistoryUpdated
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.prediction import processor
from services.prediction.processor import MIN_PAIRS, MIN_RUNS, Prediction
from shared.catalogue.digest import require_sha256
from shared.catalogue.event import Event, Publish
from shared.catalogue.payloads.power_history import update_of
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.models.degradation import PRIOR_WEIGHTS, pair_features, slowdown_ratio
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.similar_jobs import PowerTables
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.support.messaging import TOPICS
from tests.unit.services.changelog import state_of
from tests.unit.services.prediction.support import (
    SECOND_US,
    beside,
    declared,
    event,
    in_round,
    measured,
    read,
    run,
    told,
)

P1 = Cluster("p1", "site", "platinum-8168", 16, 48, (1.2, 2.7), 110.0, 256.0)


def job(app_id: str, number: int = 0) -> Job:
    return Job("x", 1, app_id, "user", "account", 2, 7200.0, "p1", shareable=False, submit_s=number)


def power_w_of(published: list[Publish], app_id: str, freq_ghz: float = 2.7) -> float:
    """What whoever folds what was published says of the next job."""
    tables = PowerTables()
    for each in published:
        if isinstance(each.event.payload, PowerHistoryUpdated):
            tables.fold(update_of(each.event.payload))
    found = tables.predict(KindOfJob.from_job(job(app_id), P1, freq_ghz))
    assert found is not None
    return found.predicted_w


def taught(*events: Event) -> list[Publish]:
    """What a round of events publishes."""
    prediction = Prediction({})
    for one in (declared(), *events):
        assert not list(prediction.handle(one))
    return list(prediction.end_round(Round(0, 7_200 * SECOND_US)))


def many_runs(count: int, start: int = 0) -> list[Event]:
    numbers = range(start, start + count)
    return [e for n in numbers for e in run(n, ("calm", "hungry")[n % 2], 300.0 + 100 * (n % 2))]


def many_pairs(count: int) -> list[Event]:
    return [
        beside(n, "hungry", ("calm", "hungry")[n % 2], 1.0 + 0.3 * (n % 2)) for n in range(count)
    ]


def test_the_first_round_says_honestly_that_only_idle_power_and_a_prior_are_known() -> None:
    models = in_round(Prediction({}), 0, declared())

    power, degradation = models["power"], models["degradation"]
    assert (power.version, degradation.version) == ("power@0", "degradation@0")
    assert dict(power.fallback_power_w) == {"platinum-8168": 110.0}
    assert tuple(degradation.weights) == PRIOR_WEIGHTS
    for model in models.values():
        require_sha256(model)


@pytest.mark.parametrize(
    ("readings", "power_w"),
    [
        ([("a", 900.0, 1), ("a", 300.0, 2), ("b", 400.0, 1), ("a", 800.0, 1)], 350.0),
        ([("a", 0.0, 1), ("b", 400.0, 1)], 400.0),
    ],
    ids=["newer and older ones", "of a node that is off"],
)
def test_the_fallback_is_the_mean_over_the_newest_readings_of_each_node_that_is_on(
    readings: list[tuple[str, float, int]], power_w: float
) -> None:
    power = in_round(Prediction({}), 0, declared(), *(read(*each) for each in readings))["power"]
    assert dict(power.fallback_power_w) == {"platinum-8168": power_w}


def test_a_node_model_that_appears_later_or_is_corrected_is_published_once() -> None:
    prediction = Prediction({})
    in_round(prediction, 0, declared("typo"), read("n1", 200.0, 1, "typo"))
    assert in_round(prediction, 1) == {}
    more = in_round(prediction, 2, declared("gold-6254", "p2"))
    assert dict(more["power"].fallback_power_w) == {"typo": 200.0, "gold-6254": 110.0}
    right = in_round(prediction, 3, declared("right"), read("n1", 200.0, 2, "right"))
    assert dict(right["power"].fallback_power_w) == {"right": 200.0, "gold-6254": 110.0}
    assert in_round(prediction, 4) == {}


def test_what_similar_jobs_drew_distinguishes_applications_and_pstates() -> None:
    slow = [e for n in range(100, 130) for e in run(n, "calm", 180.0, freq_ghz=1.2)]
    published = taught(*slow, *many_runs(40))
    assert power_w_of(published, "calm") == pytest.approx(300)
    assert power_w_of(published, "calm", 1.2) == pytest.approx(180)
    assert power_w_of(published, "hungry") == pytest.approx(400)


@pytest.mark.parametrize(
    ("held", "power_w", "of_a_node_w"),
    [({"cores_per_node": 24}, 150.0, 300.0), ({"cores": 72}, 300.0, 400.0)],
    ids=["half a node", "uneven units: 72 cores on two nodes of 48"],
)
def test_the_power_of_a_part_of_a_node_is_learned_as_that_of_a_whole_one(
    held: dict[str, Any], power_w: float, of_a_node_w: float
) -> None:
    parts = [e for n in range(MIN_RUNS) for e in run(n, "calm", power_w, **held)]
    assert power_w_of(taught(*parts), "calm") == pytest.approx(of_a_node_w)


def test_a_finish_publishes_the_rows_of_its_kind_and_no_others() -> None:
    prediction = Prediction({})
    assert len(told(prediction, 0, SECOND_US, [declared(), *many_runs(20)])) == 4
    for one in run(50, "calm", 300.0):
        list(prediction.handle(one))
    [published] = prediction.end_round(Round(1, 2 * SECOND_US))
    assert isinstance(published.event.payload, PowerHistoryUpdated)
    assert published.event.payload.app_id == "calm"
    assert published.event.payload.job_ids == ["site/p1/0050/0"]
    require_sha256(published.event.payload)
    assert published.event.key == TOPICS.spec(published.topic).key_of(published.event.payload)


@pytest.mark.parametrize(
    "changes",
    [{"energy_j": 0.0}, {"started_at_us": 0}, {"freq_ghz": 0.0}, {"ended_at_us": 1_000_000}],
)
def test_a_job_without_a_meter_or_a_run_teaches_nothing(changes: dict[str, Any]) -> None:
    blind = [e for n in range(MIN_RUNS) for e in run(n, "calm", 300.0, **changes)]

    assert [publish.event.key for publish in taught(*blind)] == ["power", "degradation"]


def test_pairs_teach_what_a_neighbour_costs() -> None:
    signatures = [measured("calm", 1.0), measured("hungry", 130.0), measured("hungry", 9.0, 1.2)]

    degradation = in_round(Prediction({}), 0, declared(), *signatures, *many_pairs(MIN_PAIRS))[
        "degradation"
    ]

    assert degradation.training_pairs == MIN_PAIRS
    assert min(degradation.weights) >= 0
    both = pair_features(np.array([130.0, 130.0]), np.array([1.0, 130.0]), 256.0)
    assert slowdown_ratio(list(degradation.weights), both) == pytest.approx([1.0, 1.3], abs=0.01)
    assert degradation.residual == pytest.approx(0, abs=0.01)


def test_a_job_on_a_quarter_of_a_node_teaches_as_one_of_that_traffic() -> None:
    """Two quarters of a hungry application move what two halves of one half as hungry move."""
    quarters = {"core_share": 0.25, "co_runner_core_share": 0.25}
    measured_on = {
        130.0: [beside(n, "hungry", "hungry", 1.3, **quarters) for n in range(MIN_PAIRS)],
        65.0: [beside(n, "hungry", "hungry", 1.3) for n in range(MIN_PAIRS)],
    }
    one, other = (
        in_round(Prediction({}), 0, declared(), measured("hungry", gbps), *pairs)["degradation"]
        for gbps, pairs in measured_on.items()
    )
    assert one.training_pairs == MIN_PAIRS
    assert list(one.weights) == list(other.weights)


@pytest.mark.parametrize(
    "events",
    [
        many_pairs(MIN_PAIRS),
        [
            measured("hungry", 130.0),
            *(beside(n, "hungry", "hungry", 2.0, co_runners=3) for n in range(MIN_PAIRS)),
        ],
    ],
    ids=["pairs without signatures", "several co-runners together"],
)
def test_what_says_nothing_of_a_pair_leaves_the_prior(events: list[Event]) -> None:
    degradation = in_round(Prediction({}), 0, declared(), *events)["degradation"]
    assert degradation.training_pairs == 0
    assert tuple(degradation.weights) == PRIOR_WEIGHTS


def test_copies_are_recognised() -> None:
    submitted, finished = run(1, "calm", 300.0)
    prediction = Prediction({})
    for fact in (submitted, beside(1, "calm", "hungry", 1.1), finished):
        prediction.handle(fact)
        for copy in (submitted, fact):
            with pytest.raises(AlreadyAppliedError):
                prediction.handle(copy)


def test_a_requeued_job_is_learned_from_its_next_attempt() -> None:
    submitted, finished = run(999, "calm", 300.0, attempt=2)
    requeued = JobRequeued(job_id=submitted.key, attempt=2)
    events = submitted, event("requeued", 5, submitted.key, requeued), finished

    assert power_w_of(taught(*events), "calm") == pytest.approx(300)


def test_older_runs_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "REMEMBERED", 60)
    monkeypatch.setattr(processor, "FORGOTTEN_AT_ONCE", 30)
    prediction = Prediction({})
    in_round(prediction, 0, declared(), *many_runs(95))
    prediction.changes()
    in_round(prediction, 1, *many_runs(4, 95))

    in_round(prediction, 2, *many_runs(91, 99))
    dropped = [key for key, value in prediction.changes().items() if value is None]
    assert len([key for key in dropped if key.startswith("run|")]) == 30


def test_impossible_shutters_are_refused() -> None:
    broken = beside(1, "calm", "hungry", 1.1)
    payload: Any = broken.payload
    payload.shutters[0].ipc_during = 0.0

    with pytest.raises(RejectedError, match="ipc_during"):
        Prediction({}).handle(broken)


FACTS = [
    declared(),
    *(read(f"n{n}", 300.0 + n / 7, n) for n in range(5)),
    measured("calm", 20.0),
    measured("hungry", 130.0),
    *many_pairs(MIN_PAIRS),
]


@settings(max_examples=15)
@given(st.permutations(FACTS), st.integers(0, len(FACTS)), st.integers(0, 1))
def test_neither_order_nor_a_restart_within_the_round_changes_a_model(
    order: list[Event], restart: int, copies: int
) -> None:
    runs = many_runs(MIN_RUNS)
    before = Prediction({})
    for fact in order[:restart]:
        before.handle(fact)
    after = Prediction(state_of(before))
    for fact in order[:restart] * copies:
        if not fact.id.startswith("shutters"):
            after.handle(fact)

    assert in_round(after, 0, *runs, *order[restart:]) == in_round(Prediction({}), 0, *FACTS, *runs)
