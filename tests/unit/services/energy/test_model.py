from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.energy.model import Fit, KernelRun, fit

PSTATES_GHZ = (1.2, 2.0, 2.7)
KERNELS = [(0.4, 0.0003, 430.0), (0.9, 0.007, 390.0), (1.9, 0.015, 370.0), (4.2, 0.07, 380.0)]


def runs_that_obey_the_equations(
    kernels: list[tuple[float, float, float]] = KERNELS,
) -> dict[str, dict[float, KernelRun]]:
    """Power and CPI at each P-state are linear in those at the nominal one and in TPI."""
    return {
        f"kernel-{number}": {
            freq_ghz: KernelRun(
                time_s=_cpi(cpi, tpi, freq_ghz) / freq_ghz,
                power_w=(0.2 + 0.8 * freq_ghz / 2.7) * power_w + 100 * tpi * (2.7 - freq_ghz),
                cpi=_cpi(cpi, tpi, freq_ghz),
                tpi=tpi,
            )
            for freq_ghz in PSTATES_GHZ
        }
        for number, (cpi, tpi, power_w) in enumerate(kernels)
    }


def _cpi(cpi: float, tpi: float, freq_ghz: float) -> float:
    return cpi - 20 * tpi * (2.7 - freq_ghz) + 0.01 * (2.7 - freq_ghz)


def projected_power_w(found: Fit, from_to: tuple[int, int], run: KernelRun) -> float:
    return float(found.power[from_to] @ (run.power_w, run.tpi, 1.0))


def test_what_obeys_the_equations_is_projected_exactly() -> None:
    kernels = runs_that_obey_the_equations()

    found = fit(PSTATES_GHZ, kernels)

    assert found.available.all()
    assert found.power_residual == pytest.approx(0, abs=1e-9)
    assert found.time_residual == pytest.approx(0, abs=1e-9)
    for runs in kernels.values():
        projected = projected_power_w(found, (2, 0), runs[2.7])
        assert projected == pytest.approx(runs[1.2].power_w)


def test_a_pstate_projects_to_itself_as_it_is() -> None:
    found = fit(PSTATES_GHZ, runs_that_obey_the_equations())

    for same in range(len(PSTATES_GHZ)):
        assert found.power[same, same].tolist() == [1, 0, 0]
        assert found.cpi[same, same].tolist() == [1, 0, 0]


def test_fewer_than_four_kernels_give_no_projection() -> None:
    found = fit(PSTATES_GHZ, runs_that_obey_the_equations(KERNELS[:3]))

    assert (found.available == np.eye(3, dtype=bool)).all()
    assert not found.power[~found.available].any()


def test_kernels_that_are_all_alike_give_no_projection() -> None:
    found = fit(PSTATES_GHZ, runs_that_obey_the_equations([KERNELS[0]] * 6))

    assert (found.available == np.eye(3, dtype=bool)).all()


def test_a_pair_counts_only_the_kernels_that_ran_at_both_pstates() -> None:
    kernels = runs_that_obey_the_equations()
    del kernels["kernel-0"][2.0]

    found = fit(PSTATES_GHZ, kernels)

    assert found.available.tolist() == [
        [True, False, True],
        [False, True, False],
        [True, False, True],
    ]


def test_without_kernels_only_the_identity_is_known() -> None:
    found = fit(PSTATES_GHZ, {})

    assert (found.available == np.eye(3, dtype=bool)).all()
    assert (found.power_residual, found.time_residual, found.kernels) == (0.0, 0.0, 0)


@given(st.permutations(list(runs_that_obey_the_equations().items())))
def test_the_order_in_which_kernels_arrive_does_not_matter(
    order: list[tuple[str, Mapping[float, KernelRun]]],
) -> None:
    found = fit(PSTATES_GHZ, dict(order))
    expected = fit(PSTATES_GHZ, runs_that_obey_the_equations())

    assert found.power.tobytes() == expected.power.tobytes()
    assert found.cpi.tobytes() == expected.cpi.tobytes()


def test_the_residual_is_the_error_of_noisy_kernels() -> None:
    kernels = runs_that_obey_the_equations([*KERNELS, *[(c + 0.3, t, p) for c, t, p in KERNELS]])
    kernels["kernel-0"][1.2] = kernels["kernel-0"][1.2]._replace(power_w=300.0)

    found = fit(PSTATES_GHZ, kernels)

    assert 0.001 < found.power_residual < 0.2
    assert found.time_residual == pytest.approx(0, abs=1e-9)
