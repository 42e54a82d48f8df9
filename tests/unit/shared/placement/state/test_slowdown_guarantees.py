"""Jobs that share nodes are promised a slowdown; pairs that break one are isolated."""

from collections.abc import Sequence
from random import Random

import pytest
from coplace.v1.control_pb2 import PairsAllowed
from coplace.v1.placement_pb2 import PlacementDecided, SlowdownPromiseBroken
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.placement.processor.placement import Placement
from shared.placement.state import slowdown_guarantees
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, Twins, finished, policy, round_of
from tests.unit.shared.placement.test_units import PERIOD_US, asked, one_cluster

APP, MODEL = region.APPS[0], region.MODELS["p2"]
PROMISED = 1.25


def seen(
    job_id: str,
    beside: str,
    slowdown: float,
    *,
    shutters: int = 16,
    attempt: int = 1,
    co_runners: int = 1,
    number: int = 0,
    noise: float = 0.002,
    node_model: str = MODEL,
    at_us: int = T0_US + PERIOD_US,
) -> Event:
    """An interval beside a neighbour that slowed the job down by so much."""
    draw = Random(f"{job_id}|{beside}|{number}")
    found = [
        Shutter(
            ipc_before=1 / slowdown * draw.gauss(1, noise),
            ipc_during=draw.gauss(1, noise),
            ipc_after=1 / slowdown * draw.gauss(1, noise),
        )
        for _ in range(shutters)
    ]
    message = ShuttersMeasured(
        job_id=job_id,
        attempt=attempt,
        co_runner_job_id=beside,
        app_id=APP,
        co_runner_app_id=APP,
        node_model=node_model,
        began_at_us=T0_US,
        ended_at_us=T0_US + PERIOD_US,
        shutters=found,
        co_runners=co_runners,
    )
    return Event(f"shutters/{job_id}/{beside}/{number}", "agent", at_us, job_id, message)


def allowed(**which: str) -> Event:
    payload = PairsAllowed(allowed_at_us=T0_US, **which)
    return Event("allowed", "operator/ada", T0_US + 2 * PERIOD_US, "region", payload)


def told(processor: Placement, number: int, *events: Event) -> list[SlowdownPromiseBroken]:
    """What a round publishes of broken promises."""
    region.feed(processor, events)
    ended = Round(number, T0_US + (number + 1) * PERIOD_US)
    found = [each.event.payload for each in processor.end_round(ended)]
    return [each for each in found if isinstance(each, SlowdownPromiseBroken)]


def sharing() -> Placement:
    """Two jobs on one node, each promised 1.25."""
    processor = one_cluster()
    found = round_of(processor, 0, asked("one", 18), asked("two", 18, time_us=T0_US + 1))
    assert [list(each.co_runner_job_ids) for each in found] == [[], ["one"]]
    assert [each.promised_slowdown_ratio for each in found] == [PROMISED] * 2
    return processor


def third(processor: Placement, number: int) -> PlacementDecided:
    """Another job of the application arrives while one runs alone on its node."""
    events = finished("two", T0_US + PERIOD_US), asked("three", 18, time_us=T0_US + PERIOD_US)
    [decided] = round_of(processor, number, *events)
    return decided


def test_a_job_that_takes_whole_nodes_is_promised_nothing() -> None:
    alone = asked("alone", 0, shareable=False)
    [decided] = round_of(one_cluster(), 0, alone)
    assert decided.promised_slowdown_ratio == 0


def test_a_promise_is_that_of_the_start_whatever_is_declared_later() -> None:
    processor = sharing()
    round_of(processor, 1, policy(max_slowdown=2.0))
    assert told(processor, 2, seen("one", "two", 1.6))


def test_a_slowdown_above_the_promise_is_told_with_who_and_by_how_much() -> None:
    [broken] = told(sharing(), 1, seen("two", "one", 1.4))
    assert (broken.job_id, broken.co_runner_job_id) == ("two", "one")
    assert (broken.app_id, broken.co_runner_app_id, broken.node_model) == (APP, APP, MODEL)
    assert broken.promised_slowdown_ratio == PROMISED < broken.least_slowdown_ratio
    assert broken.measured_slowdown_ratio == pytest.approx(1.4, abs=0.01)
    assert (broken.shutters, broken.co_runners, broken.round) == (16, 1, 1)


def test_shutters_that_come_after_the_end_of_a_job_count() -> None:
    processor = sharing()
    round_of(processor, 1, finished("one", T0_US + PERIOD_US))
    assert told(processor, 2, seen("one", "two", 1.4))


def test_a_copy_is_told_once_and_counts_once() -> None:
    processor, event = sharing(), seen("one", "two", 1.4)
    assert len(told(processor, 1, event, event)) == 1
    assert not told(processor, 2, event)
    assert processor.queries.policy().promises_broken == 1


@pytest.mark.parametrize("shutters", range(1, slowdown_guarantees.LEAST_SHUTTERS))
def test_too_few_shutters_break_nothing_and_count_for_nothing(shutters: int) -> None:
    processor = sharing()
    assert not told(processor, 1, seen("one", "two", 1.6, shutters=shutters))
    assert processor.queries.policy().promises_kept == 0


def test_what_may_be_noise_breaks_no_promise() -> None:
    processor = sharing()
    assert not told(processor, 1, seen("one", "two", PROMISED, noise=0.05))
    assert processor.queries.policy().promises_broken == 0


def test_measurements_of_who_was_promised_nothing_are_of_no_consequence() -> None:
    processor = one_cluster()
    round_of(processor, 0, asked("alone", 0, shareable=False))
    for event in (seen("alone", "two", 1.6), seen("nobody", "two", 1.6)):
        with pytest.raises(AlreadyAppliedError):
            processor.handle(event)
    with pytest.raises(AlreadyAppliedError):
        sharing().handle(seen("one", "two", 1.6, attempt=2))


def test_a_shutter_that_cannot_be_is_refused_and_nothing_changes() -> None:
    processor = sharing()
    bad = seen("one", "two", 1.4)
    assert isinstance(bad.payload, ShuttersMeasured)
    bad.payload.shutters[0].ipc_during = float("nan")
    with pytest.raises(RejectedError):
        processor.handle(bad)
    assert processor.queries.policy().pairs_kept_apart == 0


@pytest.mark.parametrize(
    "which", [{}, {"app_id": APP}, {"co_runner_app_id": APP, "node_model": MODEL}]
)
def test_an_operator_lets_them_share_again(which: dict[str, str]) -> None:
    processor = sharing()
    told(processor, 1, seen("one", "two", 1.4))
    round_of(processor, 2, allowed(**which))
    assert third(processor, 3).co_runner_job_ids == ["one"]


@pytest.mark.parametrize("which", [{"app_id": "other"}, {"node_model": "other"}])
def test_an_order_about_nobody_is_refused(which: dict[str, str]) -> None:
    processor = sharing()
    told(processor, 1, seen("one", "two", 1.4))
    with pytest.raises(RejectedError, match="coplace policy show"):
        processor.handle(allowed(**which))


def test_who_broke_a_promise_starts_on_a_node_of_its_own_and_a_restart_knows_it() -> None:
    twins = Twins(sharing)
    twins.tell(seen("one", "two", 1.1), seen("two", "one", 1.1))
    twins.kill()
    twins.tell(seen("two", "one", 1.4, number=1))
    twins.kill()
    twins.tell(seen("two", "one", 1.1, number=2))
    for processor in (twins.lived, twins.killed):
        shown = processor.queries.policy()
        assert (shown.promises_kept, shown.promises_broken, shown.pairs_kept_apart) == (1, 1, 1)
        [pair] = shown.pairs_apart
        assert (pair.node_model, pair.app_id, pair.co_runner_app_id) == (MODEL, APP, APP)
        assert third(processor, 2).co_runner_job_ids == []


def test_the_oldest_pairs_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slowdown_guarantees, "MOST_APART", 2)
    processor, found = sharing(), []
    for number in range(4):
        event = seen("one", f"gone-{number}", 1.4, number=number)
        assert isinstance(event.payload, ShuttersMeasured)
        event.payload.co_runner_app_id = f"app-{number}"
        found += told(
            processor, 1 + number, Event(event.id, "agent", T0_US + number, "", event.payload)
        )
    assert len(found) == 4
    names = {each.co_runner_app_id for each in processor.queries.policy().pairs_apart}
    names |= {each.app_id for each in processor.queries.policy().pairs_apart}
    assert names == {APP, "app-2", "app-3"}


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(st.sampled_from([("one", "two"), ("two", "one")]), st.sampled_from([1.05, 1.5])),
        max_size=8,
    )
)
def test_counts_and_pairs_are_what_was_measured_in_whatever_order(
    measured: Sequence[tuple[tuple[str, str], float]],
) -> None:
    """Against a plain reckoning: a job is broken once anything above its promise was seen."""
    processor = sharing()
    for number, (pair, slowdown) in enumerate(measured):
        told(processor, 1 + number, seen(*pair, slowdown, number=number))
    worst = {job: max(s for (j, _), s in measured if j == job) for (job, _), _ in measured}
    shown = processor.queries.policy()
    assert shown.promises_broken == sum(each > PROMISED for each in worst.values())
    assert shown.promises_kept == sum(each <= PROMISED for each in worst.values())
    assert shown.pairs_kept_apart == any(each > PROMISED for each in worst.values())
