"""The training set of Zacarias et al.: counters of both alone, and what the target suffered."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import UnusableError
from lab.papers.colocation import pair_rows
from lab.papers.colocation.run import KERNELS, read
from shared.colocation.model import Cells
from tests.unit.shared.colocation.machines import made


def _alone(folder: Path, *rows: str) -> Path:
    path = folder / "alone.csv"
    path.write_text("\n".join(["config,app,run_s_mean,user_s_mean", *rows]) + "\n")
    return path


def test_the_kernels_have_four_statistics_of_ten_counters() -> None:
    found = pair_rows.counter_sets(KERNELS / "alone.csv", read(KERNELS).profiles)
    assert [each.shape[2] for each in found.values()] == [40, 10, 28, 7]
    assert all(np.isfinite(each).all() for each in found.values())


def test_a_row_is_the_target_then_its_neighbour_and_degradation_is_never_negative() -> None:
    profiles, degradation = made(1, machines=2, apps=4)
    degradation[1, 2, 3] = -0.1
    cells = Cells(np.array([1]), np.array([2]), np.array([3]))
    columns = np.arange(2 * 4 * 3, dtype=np.float64).reshape(2, 4, 3)
    row = pair_rows.rows_of_cells(columns, cells)
    assert row.tolist() == [[*columns[1, 2], *columns[1, 3]]]
    assert pair_rows.of_cells(degradation, cells).tolist() == [0.0]
    assert len(profiles.apps) == 4


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), apps=st.integers(5, 12))
def test_no_direction_and_no_machine_of_a_pair_held_out_is_learned_from(
    seed: int, apps: int
) -> None:
    _, degradation = made(seed, machines=2, apps=apps)
    rank = pair_rows.ranks(degradation, seed)
    out = pair_rows.held_out(degradation, rank)
    assert (out == out.swapaxes(1, 2)).all()
    assert (out[0] == out[1]).all()
    pairs = apps * (apps - 1) // 2
    measured = out[0] & ~np.isnan(degradation[0])
    assert measured.sum() == 2 * round(0.3 * pairs)


@pytest.mark.parametrize("count", ["", "inf", "nan", "-1", "many"])
def test_a_count_that_is_none_is_named(tmp_path: Path, count: str) -> None:
    profiles, _ = made(1, machines=1, apps=2)
    path = _alone(tmp_path, f"m0,a0,1.0,{count}", "m0,a1,1.0,0")
    with pytest.raises(UnusableError, match="user_s_mean of a0 in m0 is not a number of 0 or more"):
        pair_rows.counted(path, profiles, ["run_s_mean", "user_s_mean"])


def test_an_application_or_a_counter_that_was_not_measured_is_named(tmp_path: Path) -> None:
    profiles, _ = made(1, machines=1, apps=2)
    path = _alone(tmp_path, "m0,a0,1.0,2.0")
    with pytest.raises(UnusableError, match="no row of a1 in m0"):
        pair_rows.counted(path, profiles, ["run_s_mean"])
    with pytest.raises(UnusableError, match="no column cycles_mean"):
        pair_rows.counted(path, profiles, ["cycles_mean"])
