import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.energy.adapters import read_coefficients
from services.energy.processor.appdb import AppDB
from services.energy.processor.learner import Learner
from shared.domain import eamc_source
from shared.domain.errors import RejectedError
from shared.messaging.digest import require_sha256
from shared.messaging.domain_types import coefficients_of
from shared.messaging.event import Event
from shared.messaging.stage import AlreadyAppliedError, Round
from tests.unit.services.energy.support import declared, in_round, measured

ROOT = Path(__file__).resolve().parents[4]
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


def test_coefficients_follow_the_round_that_brought_kernels() -> None:
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


@pytest.mark.parametrize(("processor", "kernel"), [(Learner({}), True), (AppDB({}), False)])
def test_measured_clocks_are_no_pstates(processor: Learner | AppDB, kernel: bool) -> None:
    for number in range(100):
        event = measured(f"{number}", number, kernel=kernel, freq_ghz=2.0 + number / 1000)
        assert list(processor.handle(event)) == []
    with pytest.raises(RejectedError, match="freq_ghz: must be a P-state"):
        processor.handle(measured("more", 101, kernel=kernel, freq_ghz=1.9))
    assert list(processor.handle(measured("known", 102, kernel=kernel, freq_ghz=2.0))) == []


def test_a_new_run_of_a_kernel_makes_a_new_version() -> None:
    learner = Learner({})
    in_round(learner, 0, *kernel_runs())

    newer = measured("again", 2, app_id="kernel-0", kernel=True, power_w=390.0)
    [event] = in_round(learner, 7, newer)

    message: Any = event.payload
    assert message.version == "coefficients-gold-6254@7"


def test_a_declared_pstate_that_no_kernel_ran_at_is_not_available() -> None:
    [event] = in_round(Learner({}), 0, declared((1.2, 2.0, 3.1)), *kernel_runs())

    message: Any = event.payload
    assert list(message.pstates_ghz) == [1.2, 2.0, 3.1]
    assert list(message.available) == [
        True,
        False,
        True,
        False,
        True,
        False,
        True,
        False,
        True,
    ]


def test_applications_teach_nothing_about_their_node_model() -> None:
    assert in_round(Learner({}), 0, declared(PSTATES_GHZ), measured("a")) == []


def test_a_copy_is_recognised() -> None:
    learner = Learner({})
    [first, *_] = kernel_runs()
    learner.handle(first)

    with pytest.raises(AlreadyAppliedError):
        learner.handle(first)


@given(st.permutations([declared(PSTATES_GHZ), *kernel_runs()]), st.integers(0, 11))
def test_neither_order_nor_a_restart_within_the_round_changes_the_coefficients(
    order: list[Event], restart: int
) -> None:
    before = Learner({})
    for event in order[:restart]:
        before.handle(event)
    after = Learner({k: v for k, v in before.changes().items() if v is not None})
    for event in order[restart:]:
        after.handle(event)

    expected = in_round(Learner({}), 0, declared(PSTATES_GHZ), *kernel_runs())
    assert [p.event for p in after.end_round(Round(0, 0))] == expected


@pytest.fixture(scope="module")
def published() -> Path:
    """The published coefficients; where CI runs they are always there."""
    folder = ROOT / os.environ.get("COPLACE_DATA", "../shared/data") / "eamc"
    if not folder.is_dir() and os.environ.get("CI") != "true":
        pytest.skip(f"no published coefficients at {folder}: set COPLACE_DATA to its parent")
    return folder


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


def test_a_file_of_another_form_is_refused_by_name(tmp_path: Path) -> None:
    for module in eamc_source.NODE_MODEL_OF_MODULE:
        (tmp_path / f"{module}_coefficients.csv").write_text("from_ghz,to_ghz,A\n1.2,1.2,1\n")

    with pytest.raises(ValueError, match=r"normal_coefficients\.csv must have"):
        read_coefficients(tmp_path)
