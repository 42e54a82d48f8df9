"""What EAR's projection takes, and what published coefficients say."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from shared.domain.coefficients import Coefficients
from shared.models.ear import project, unlearned
from tests.unit.shared.models.test_projection import coefficients, signature


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
    found = project(unlearned("model", "scale", (1.0, 3.0)), [signature()])
    assert found.available.tolist() == [[False, True]]
    assert (found.time_s[0, 1], found.power_w[0, 1]) == (10.0, 400.0)


def test_a_cluster_with_other_pstates_gets_those_that_both_have() -> None:
    found = project(coefficients(), [signature()]).onto((0.5, 1.0, 3.0))
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
    columns = ("time_s", "dc_node_power_w", "cpi", "tpi")
    time_s, power_w, cpi, tpi = (float(row[name]) for name in columns)
    return Signature(number, "normal", 2.7, time_s, power_w, cpi, tpi, 0.0, "eamc")
