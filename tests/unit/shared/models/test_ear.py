"""EAR's projection, against the equations and against published coefficients."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from shared.domain.coefficients import Coefficients
from shared.models.ear import project, unlearned


def signature(freq_ghz: float = 2.0, **changes: object) -> Signature:
    values = {
        "app_id": "app",
        "node_model": "model",
        "freq_ghz": freq_ghz,
        "time_s": 10.0,
        "power_w": 300.0,
        "cpi": 0.5,
        "tpi": 2.0,
        "mem_gbps": 10.0,
        "tpi_scale": "scale",
    }
    return Signature(**(values | changes))  # type: ignore[arg-type]


def coefficients(**changes: float) -> Coefficients:
    """Two P-states; from 2 GHz to 1 GHz P' = 0.5 P + 10 TPI + 5 and CPI' = 0.8 CPI + 0.1 TPI."""
    down = {"a": 0.5, "b": 10.0, "c": 5.0, "d": 0.8, "e": 0.1, "f": 0.0} | changes
    same = {"a": 1.0, "d": 1.0}
    matrices: dict[str, Any] = {
        name: np.array([[same.get(name, 0.0), 0.0], [value, same.get(name, 0.0)]])
        for name, value in down.items()
    }
    available = np.array([[True, False], [True, True]])
    return Coefficients("model", "v@1", "scale", (1.0, 2.0), **matrices, available=available)


def test_power_and_time_follow_equations_1_to_3() -> None:
    found = project(coefficients(), [signature()])
    assert found.power_w[0].tolist() == pytest.approx([0.5 * 300 + 10 * 2 + 5, 300])
    assert found.time_s[0].tolist() == pytest.approx([10 * (0.8 * 0.5 + 0.1 * 2) / 0.5 * 2, 10])
    assert found.energy_j == pytest.approx(found.power_w * found.time_s)


def test_each_signature_is_projected_from_its_own_pstate() -> None:
    found = project(coefficients(), [signature(), signature(1.0)])
    assert found.available.tolist() == [[True, True], [True, False]]


def test_a_pair_that_was_never_measured_is_left_out() -> None:
    found = project(coefficients(), [signature(1.0)])
    assert np.isnan([found.time_s[0, 1], found.power_w[0, 1], found.energy_j[0, 1]]).all()


@pytest.mark.parametrize("changes", [{"a": -1.0}, {"d": -1.0}])
def test_a_projection_that_is_not_above_0_is_left_out(changes: dict[str, float]) -> None:
    found = project(coefficients(**changes), [signature()])
    assert found.available.tolist() == [[False, True]]


@pytest.mark.parametrize(
    "other", [{"tpi_scale": "cas"}, {"node_model": "another"}, {"freq_ghz": 1.7}]
)
def test_a_signature_that_does_not_belong_to_the_coefficients_is_rejected(
    other: dict[str, object],
) -> None:
    with pytest.raises(RejectedError) as caught:
        project(coefficients(), [signature(**other)])  # type: ignore[arg-type]
    assert [caught.value.field] == [*other]


def test_without_coefficients_a_pstate_projects_to_itself_alone() -> None:
    found = project(unlearned("model", "scale", (1.0, 2.0)), [signature()])
    assert found.available.tolist() == [[False, True]]
    assert (found.time_s[0, 1], found.power_w[0, 1]) == (10.0, 300.0)


def test_a_cluster_with_other_pstates_gets_those_that_both_have() -> None:
    found = project(coefficients(), [signature()]).onto((0.5, 1.0, 2.0))
    assert found.available.tolist() == [[False, True, True]]


def test_published_coefficients_say_that_stream_hardly_slows_down_and_ep_does(
    data_dir: Path,
) -> None:
    eamc = data_dir / "eamc"
    table = _published(eamc, "normal")
    stream, ep = (_published_signature(eamc, number) for number in ("8", "2"))
    found = project(table, [stream, ep])
    slowdown = found.time_s[:, 0] / found.time_s[:, -1]
    assert slowdown.tolist() == pytest.approx([1.01, 2.13], abs=0.005)
    assert np.nanargmin(found.energy_j[0]) == 0


def _published(eamc: Path, module: str) -> Coefficients:
    with (eamc / f"{module}_coefficients.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    pstates = tuple(sorted({float(row["from_ghz"]) for row in rows}))
    shape = (len(pstates), len(pstates))
    columns: dict[str, Any] = {
        name.lower(): np.array([float(row[name]) for row in rows]).reshape(shape)
        for name in "ABCDEF"
    }
    available = np.array([row["available"] == "1" for row in rows]).reshape(shape)
    return Coefficients(module, "v@1", "eamc", pstates, **columns, available=available)


def _published_signature(eamc: Path, number: str) -> Signature:
    with (eamc / "apps.csv").open(newline="") as file:
        row = next(
            r for r in csv.DictReader(file) if (r["app_id"], r["module"]) == (number, "normal")
        )
    return Signature(
        number,
        "normal",
        2.7,
        float(row["time_s"]),
        float(row["dc_node_power_w"]),
        float(row["cpi"]),
        float(row["tpi"]),
        0.0,
        "eamc",
    )
