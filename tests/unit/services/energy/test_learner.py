from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coplace.v1.energy_pb2 import CoefficientsDeclared
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from coplace_client.errors import RejectedError
from services.energy.adapters import read_coefficients
from services.energy.adapters.drift_meter import DriftMeter
from services.energy.processor.appdb import AppDB
from services.energy.processor.learner import Learner
from shared.catalogue.digest import require_sha256
from shared.catalogue.event import Event
from shared.catalogue.payloads.coefficients import coefficients_of
from shared.domain import eamc_source
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.services.changelog import fold, interrupted, state_of
from tests.unit.services.energy.files import pairs, write
from tests.unit.services.energy.support import NODE_MODEL, declared, in_round, measured

PSTATES_GHZ = (1.2, 3.1)


def kernel_runs() -> list[Event]:
    shapes = [(0.4, 0.0003), (0.9, 0.007), (1.9, 0.015), (4.2, 0.07), (0.6, 0.0)]
    return [
        measured(
            f"{number}@{freq_ghz}",
            app_id=f"kernel-{number}",
            kernel=True,
            freq_ghz=freq_ghz,
            cpi=cpi * (1 - 0.1 * (3.1 - freq_ghz)),
            tpi=tpi,
            power_w=(400 + 10 * number) * freq_ghz / 3.1,
        )
        for number, (cpi, tpi) in enumerate(shapes)
        for freq_ghz in PSTATES_GHZ
    ]


def test_coefficients_follow_each_round_that_brought_kernels() -> None:
    learner = Learner({})

    [event] = in_round(learner, 0, declared(PSTATES_GHZ), *kernel_runs())

    message: Any = event.payload
    assert message.version == "coefficients-gold-6254@0"
    assert (event.key, message.kernels, message.tpi_scale) == ("gold-6254", 5, "per-instruction")
    assert list(message.pstates_ghz) == list(PSTATES_GHZ)
    assert all(message.available)
    assert list(message.power_sd)[::3] == [0.0, 0.0]
    assert 0 < coefficients_of(message).uncertainty.power_sd[1, 0] < 0.1  # type: ignore[union-attr]
    require_sha256(message)
    assert in_round(learner, 1) == []
    with pytest.raises(AlreadyAppliedError):
        learner.handle(kernel_runs()[0])
    newer = measured("again", 2, app_id="kernel-0", kernel=True, power_w=390.0)
    [event] = in_round(learner, 7, newer)
    assert event.payload.version == "coefficients-gold-6254@7"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("processor", "kernel"), [(Learner({}), True), (AppDB({}), False)])
def test_measured_clocks_are_no_pstates(processor: Learner | AppDB, kernel: bool) -> None:
    for number in range(100):
        event = measured(f"{number}", number, kernel=kernel, freq_ghz=2.0 + number / 1000)
        assert list(processor.handle(event)) == []
    with pytest.raises(RejectedError, match="freq_ghz: must be a P-state"):
        processor.handle(measured("more", 101, kernel=kernel, freq_ghz=1.9))
    assert list(processor.handle(measured("known", 102, kernel=kernel, freq_ghz=2.0))) == []


def test_a_declared_pstate_that_no_kernel_ran_at_is_not_available() -> None:
    [event] = in_round(Learner({}), 0, declared((1.2, 2.0, 3.1)), *kernel_runs())

    message: Any = event.payload
    assert list(message.pstates_ghz) == [1.2, 2.0, 3.1]
    assert [pair for pair, is_known in enumerate(message.available) if not is_known] == [1, 3, 5, 7]


def test_applications_teach_nothing_about_their_node_model() -> None:
    assert in_round(Learner({}), 0, declared(PSTATES_GHZ), measured("a")) == []


@settings(max_examples=50)
@given(st.permutations([declared(PSTATES_GHZ), *kernel_runs()]), st.integers(0, 11))
def test_neither_order_nor_a_restart_within_the_round_changes_the_coefficients(
    order: list[Event], restart: int
) -> None:
    expected = in_round(Learner({}), 0, declared(PSTATES_GHZ), *kernel_runs())
    assert in_round(interrupted(Learner, order, restart), 0) == expected


@given(st.permutations(range(4)))
def test_the_newest_unit_of_tpi_holds_whatever_the_order_within_the_round(
    order: list[int],
) -> None:
    scales = ("old", "old", "new", "new")
    events = [
        measured(
            f"{n}", n + 1, app_id=f"k{n}", kernel=True, tpi_scale=scale, freq_ghz=PSTATES_GHZ[n % 2]
        )
        for n, scale in enumerate(scales)
    ]
    [event] = in_round(Learner({}), 0, *(events[n] for n in order))
    message: Any = event.payload
    assert (message.tpi_scale, message.kernels) == ("new", 2)


def test_each_kernel_is_a_record_of_its_own_so_that_thousands_fit_into_messages() -> None:
    learner = Learner({})
    count = 300
    in_round(
        learner,
        0,
        *(
            measured(f"{n}@{ghz}", app_id=f"k{n}", kernel=True, freq_ghz=ghz, power_w=300.0 + n)
            for n in range(count)
            for ghz in (1.2, 1.6, 2.0, 2.4, 2.8)
        ),
    )
    values = [value for value in learner.changes().values() if value is not None]
    assert len(values) > count
    assert max(map(len, values)) < 2_000


def app_run(event_id: str, time_us: int, app: int, freq_ghz: float, **changes: Any) -> Event:
    """A run of an application that behaves like the kernels, but draws more at 1.2 GHz."""
    cpi, tpi = 0.5 + 0.4 * app, 0.002 * app
    values: dict[str, Any] = {
        "app_id": f"app-{app}",
        "freq_ghz": freq_ghz,
        "cpi": cpi * (1 - 0.1 * (3.1 - freq_ghz)),
        "tpi": tpi,
        "power_w": (400 + 9 * app) * freq_ghz / 3.1 * (1.1 if freq_ghz < 3.1 else 1.0),
        "time_s": 50 * (1 - 0.1 * (3.1 - freq_ghz)) * 3.1 / freq_ghz,
    }
    return measured(event_id, time_us, **(values | changes))


def references(apps: int = 6) -> list[Event]:
    return [app_run(f"reference-{app}", 1, app, 3.1) for app in range(apps)]


def slow_runs(count: int, **changes: Any) -> list[Event]:
    return [app_run(f"slow-{n}", 2 + n, n % 6, 1.2, **changes) for n in range(count)]


def power_w_at_low(message: Any, app: int = 2) -> float:
    reference: Any = app_run("", 1, app, 3.1).payload
    a, b, c = (getattr(message, letter)[2] for letter in "abc")
    return float(a * reference.power_w + b * reference.tpi + c)


def test_applications_at_another_pstate_adapt_the_coefficients() -> None:
    learner, first = taught(adapt_after=100)
    assert in_round(learner, 1, *slow_runs(99)) == []

    [event] = in_round(learner, 2, app_run("last", 999, 2, 1.2))

    message: Any = event.payload
    slow: Any = app_run("", 1, 2, 1.2).payload
    assert message.version == "coefficients-gold-6254@2"
    before, now = (abs(power_w_at_low(m) / slow.power_w - 1) for m in (first.payload, message))
    assert before == pytest.approx(0.09, abs=0.02)
    assert now < 0.2 * before
    assert message.drift.runs == 100
    assert message.drift.needs_learning
    assert 0.08 < message.drift.power_bias < 0.11
    require_sha256(message)


def test_until_enough_runs_were_compared_nothing_is_published() -> None:
    learner, _ = taught(adapt_after=0)
    assert in_round(learner, 1, *slow_runs(200)) == []
    assert learner.drifts["gold-6254"].runs == 200


def test_a_learning_phase_forgets_what_applications_taught() -> None:
    learner, first = taught(adapt_after=10)
    [adapted] = in_round(learner, 1, *slow_runs(30))
    again = [replace(event, id=f"{event.id} again", time_us=10**6) for event in kernel_runs()]
    [anew] = in_round(learner, 2, *again)
    assert power_w_at_low(adapted.payload) > 1.05 * power_w_at_low(first.payload)
    assert power_w_at_low(anew.payload) == pytest.approx(power_w_at_low(first.payload))
    assert not anew.payload.HasField("drift")


def test_another_program_under_the_same_name_drifts_but_is_not_learned_from() -> None:
    learner, first = taught(adapt_after=40)
    [event] = in_round(learner, 1, *slow_runs(40, power_w=900.0))
    before: Any = first.payload
    message: Any = event.payload
    assert list(message.a) == list(before.a)
    assert message.drift.needs_learning


def test_a_run_of_an_application_counts_once() -> None:
    learner, _ = taught(adapt_after=0)
    [run] = slow_runs(1)
    learner.handle(run)
    with pytest.raises(AlreadyAppliedError):
        learner.handle(run)
    in_round(learner, 1)
    with pytest.raises(AlreadyAppliedError):
        learner.handle(run)
    assert learner.drifts["gold-6254"].runs == 1


@settings(max_examples=25)
@given(st.permutations([*references(), *slow_runs(12)]), st.integers(0, 18), st.booleans())
def test_neither_order_nor_restarts_change_what_applications_teach(
    order: list[Event], restart: int, between: bool
) -> None:
    alive, first_of_all = taught(adapt_after=5)
    expected = [first_of_all, *in_round(alive, 1, *slow_runs(12))]

    learner = Learner({}, adapt_after=5)
    state: dict[str, bytes] = {}
    published = []
    first = [declared(PSTATES_GHZ), *kernel_runs(), *(e for e in order if "reference" in e.id)]
    published += in_round(learner, 0, *first)
    slow = [event for event in order if "slow" in event.id]
    for number, event in enumerate(slow):
        if number == restart or (between and number == 3):
            fold(state, learner.changes())
            learner = Learner(state, adapt_after=5)
        learner.handle(event)
    fold(state, learner.changes())
    published += in_round(Learner(state, adapt_after=5), 1)
    assert published == expected


def taught(adapt_after: int) -> tuple[Learner, Event]:
    """What has learned from kernels and knows the applications, and what it published."""
    learner = Learner({}, adapt_after=adapt_after)
    [first] = in_round(learner, 0, declared(PSTATES_GHZ), *kernel_runs(), *references())
    return learner, first


def test_what_is_over_leaves_the_changelog() -> None:
    learner = Learner({})
    for event in [declared(PSTATES_GHZ), *kernel_runs()]:
        learner.handle(event)
    state = state_of(learner)
    assert any(key.startswith("waiting|") for key in state)
    learner.end_round(Round(0, 0))
    fold(state, learner.changes())
    assert not any(key.startswith("waiting|") for key in state)


def test_prometheus_sees_how_good_the_coefficients_turn_out_to_be() -> None:
    telemetry, meter = Telemetry("energy", Settings()), DriftMeter()
    meter.register(telemetry.meter)
    assert b"energy_drift" not in generate_latest(telemetry.registry)
    learner = meter.watch(Learner({}))
    in_round(learner, 0, declared(PSTATES_GHZ), *kernel_runs(), *references(), *slow_runs(40))
    shown = generate_latest(telemetry.registry).decode()
    assert 'coplace_energy_needs_learning{node_model="gold-6254"} 1.0' in shown
    drift = learner.drifts["gold-6254"]
    assert f'coplace_energy_drift_ratio{{node_model="gold-6254"}} {drift.ratio}' in shown
    assert 'coplace_energy_measured_joules_total{node_model="gold-6254"} ' in shown


@pytest.fixture(scope="module")
def published(data_dir: Path) -> Path:
    """The published coefficients."""
    return data_dir / "eamc"


def test_published_coefficients_take_the_place_of_learning(published: Path) -> None:
    learner = Learner({}, read_coefficients(published))

    [event] = in_round(learner, 0, declared((1.2, 3.1)), *kernel_runs())

    message: Any = event.payload
    assert (message.tpi_scale, message.kernels) == (eamc_source.TPI_SCALE, 0)
    assert coefficients_of(message).uncertainty is None
    size = len(message.pstates_ghz)
    assert (size, message.pstates_ghz[0], message.pstates_ghz[-1]) == (20, 1.2, 3.1)
    assert message.a[1] == 1.066968
    assert [message.available[i] for i in (0, 1, 2, 3)] == [True, True, False, True]


def pushed(power: float = 0.5, at_us: int = 20_000_000, **changes: Any) -> Event:
    """An operator's own coefficients of two P-states."""
    values: dict[str, Any] = {
        "node_model": NODE_MODEL,
        "tpi_scale": "mine",
        "pstates_ghz": [1.2, 3.1],
        **dict.fromkeys("bcef", [0.0] * 4),
        "a": [1.0, power, power, 1.0],
        "d": [1.0] * 4,
        "available": [True] * 4,
        "declared_at_us": at_us,
    }
    payload = CoefficientsDeclared(**(values | changes))
    return Event(f"pushed/{at_us}", "operator/ada", at_us, NODE_MODEL, payload)


def test_coefficients_that_a_running_system_is_restarted_with_are_published(
    published: Path,
) -> None:
    first = Learner({}, adapt_after=5)
    [learned] = in_round(first, 0, declared((1.2, 3.1)), *kernel_runs())
    again = Learner(state_of(first), read_coefficients(published))
    [event] = in_round(again, 1)
    assert (event.payload.kernels, learned.payload.kernels > 0) == (0, True)  # type: ignore[attr-defined]
    assert in_round(Learner(state_of(first, again), read_coefficients(published)), 2) == []


def test_coefficients_of_own_node_models_are_read_by_the_names_of_their_files(
    tmp_path: Path,
) -> None:
    write(tmp_path / "epyc-9654_coefficients.csv", pairs())
    found = read_coefficients(tmp_path)
    assert list(found) == ["epyc-9654"]
    with pytest.raises(ValueError, match="holds no file called NODE_MODEL_coefficients"):
        read_coefficients(tmp_path / "nowhere")


def test_declared_coefficients_take_the_place_of_learned_ones_and_stay(published: Path) -> None:
    learner = Learner({}, adapt_after=5)
    in_round(learner, 0, declared((1.2, 3.1)), *kernel_runs())
    [event] = in_round(learner, 1, pushed())
    message: Any = event.payload
    assert (message.tpi_scale, message.kernels, [*message.a]) == ("mine", 0, [1.0, 0.5, 0.5, 1.0])
    assert in_round(learner, 2, *kernel_runs()) == []
    again = Learner(state_of(learner), read_coefficients(published), adapt_after=5)
    assert in_round(again, 3) == []
    [event] = in_round(again, 4, pushed(0.25, 20_000_001))
    assert [*event.payload.a] == [1.0, 0.25, 0.25, 1.0]  # type: ignore[attr-defined]
    for late in (pushed(0.25, 20_000_001), pushed(0.5, 10_000_000)):
        with pytest.raises(AlreadyAppliedError):
            again.handle(late)
    [event] = in_round(again, 5, pushed(node_model="nobody has it yet"))
    assert event.payload.node_model == "nobody has it yet"  # type: ignore[attr-defined]


def test_coefficients_that_a_clock_ahead_declared_give_way_to_those_of_a_later_round() -> None:
    learner = Learner({})
    [event] = in_round(learner, 1, pushed(0.5, 2 * 10**15))
    [event] = in_round(learner, 2, pushed(0.25, 50_000_000))
    message: Any = event.payload
    assert [*message.a] == [1.0, 0.25, 0.25, 1.0]


def test_declared_coefficients_of_another_size_than_their_p_states_are_refused() -> None:
    with pytest.raises(RejectedError) as refused:
        Learner({}).handle(pushed(a=[1.0]))
    assert (refused.value.field, refused.value.problem) == ("a", "must hold 4 values, got 1")


def test_a_file_of_another_form_is_refused_by_name(tmp_path: Path) -> None:
    for module in eamc_source.NODE_MODEL_OF_MODULE:
        (tmp_path / f"{module}_coefficients.csv").write_text("from_ghz,to_ghz,A\n1.2,1.2,1\n")

    with pytest.raises(ValueError, match=r"normal_coefficients\.csv must have"):
        read_coefficients(tmp_path)
