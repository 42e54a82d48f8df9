"""`coplace evaluate degradation`: on files as they should be, and as they come."""

from pathlib import Path

import numpy as np
import pytest

from lab.evaluate.degradation import score
from lab.evaluate.pair_files import LEAST, MOST, MOST_TIMES, PairFiles, read_pairs
from tests.unit.cli.command_line import coplace, refusal, said
from tests.unit.services.energy.files import read as rows_of
from tests.unit.shared.colocation.machines import made

APPS = 6


@pytest.fixture(autouse=True)
def _small_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forest is grown for each pair and application that is held out."""
    monkeypatch.setattr("services.prediction.degradation_trees.TREES", 5)
    monkeypatch.setattr("lab.evaluate.degradation.FOLDS", 3)


class Files:
    """Three files that a test may change before they are read."""

    def __init__(self) -> None:
        profiles, degradation = made(11, machines=2, apps=APPS)
        self.pairs, self.sensitivity, self.contentiousness = [], [], []
        for machine in range(2):
            for i in range(APPS):
                name = f"60{i}_app_s"
                score = profiles.contentiousness[machine, i]
                self.contentiousness.append([f"m{machine}", name, score])
                for size, point in enumerate(profiles.curves[machine, i]):
                    time_s = 50 * (1 + point)
                    self.sensitivity.append([f"m{machine}", name, 4 * size, time_s])
                for j in range(i):
                    a, b = (1 / (1 + degradation[machine, x, y]) for x, y in ((i, j), (j, i)))
                    self.pairs.append(
                        [f"m{machine}", f"60{i}.app_s", f"60{j}.app_s", 0.9, 0.9, a, b]
                    )

    def write(self, folder: Path) -> list[str]:
        said = "pred_rel_perf1,pred_rel_perf2,meas_rel_perf1,meas_rel_perf2"
        headers = {
            "pairs": f"config,app1,app2,{said}",
            "sensitivity": "config,app,bubble_mb,solo_or_bubble_time_s",
            "contentiousness": "config,app,reporter_score",
        }
        words = []
        for name, header in headers.items():
            path = folder / f"{name}.csv"
            lines = [header, *(",".join(map(str, row)) for row in getattr(self, name))]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            words += [f"--{name}", str(path)]
        return words


def words(files: Files, folder: Path) -> list[str]:
    return ["evaluate", "degradation", *files.write(folder), "--csv", str(folder / "out.csv")]


def read(files: Files, folder: Path) -> PairFiles:
    _, pairs, _, sensitivity, _, contentiousness = files.write(folder)
    return read_pairs(Path(pairs), Path(sensitivity), Path(contentiousness))


def test_each_side_of_each_pair_is_predicted_and_the_same_seed_gives_the_same_bytes(
    tmp_path: Path,
) -> None:
    told = said(*words(Files(), tmp_path))
    for name in ("unseen pairs", "unseen applications, as targets", "bubble-up", "Coplace"):
        assert name in told
    first = (tmp_path / "out.csv").read_bytes()
    rows = rows_of(tmp_path / "out.csv")
    assert len(rows) == 2 * APPS * (APPS - 1)
    assert {row["bubble_up"] for row in rows} == {"0.9"}
    actual, found = (
        np.array([float(row[name]) for row in rows])
        for name in ("meas_rel_perf", "coplace_unseen_pair")
    )
    assert np.abs(actual - found).mean() < 0.08
    said(*words(Files(), tmp_path))
    assert (tmp_path / "out.csv").read_bytes() == first


def test_duplicates_and_what_was_broken_off_are_left_out_and_reported(tmp_path: Path) -> None:
    files = Files()
    copies = [["copy", *row[1:]] for row in files.pairs if row[0] == "m0"]
    files.pairs += [*copies, *(["short", *row[1:]] for row in files.pairs[:3])]
    found = read(files, tmp_path)
    assert found.profiles.machines == ("m0", "m1")
    assert "configuration copy holds what m0 holds: left out" in found.notes
    assert "configuration short has 6 sides of pairs: left out" in found.notes


@pytest.mark.parametrize("value", ["", "inf", "nan", "0", "-1", "x", "1e308", "1e-320"])
def test_what_is_no_measurement_is_left_out_and_counted(tmp_path: Path, value: str) -> None:
    files = Files()
    files.pairs[0][5] = value
    files.sensitivity[3][3] = value
    files.contentiousness[2][2] = value
    found = read(files, tmp_path)
    assert np.isnan(found.degradation[0]).sum() == APPS + 1
    assert np.isnan(found.profiles.contentiousness[0]).sum() == 1
    assert np.isfinite(found.profiles.columns()).all()
    assert "1 sides of pairs have no usable measurement: left out" in found.notes
    assert "1 points of sensitivity curves are not usable: left out" in found.notes
    assert "1 scores of contentiousness are not usable: left out" in found.notes
    assert "1 applications have no contentiousness: the median one" in found.notes


def test_the_least_and_the_most_that_count_as_measured_are_learned_from(tmp_path: Path) -> None:
    """Beside an application that only the pairs name, which counts as the median one."""
    files = Files()
    for row, value in (0, LEAST), (-1, MOST):  # of one machine and of the other
        files.pairs[row][5] = 1 / MOST_TIMES if value == LEAST else MOST_TIMES
        files.sensitivity[row][3] = files.contentiousness[row][2] = value
    files.sensitivity[3][2] = MOST
    files.sensitivity = [row for row in files.sensitivity if row[1] != "602_app_s"]
    files.contentiousness = [row for row in files.contentiousness if row[1] != "602_app_s"]
    done = coplace(*words(files, tmp_path))
    assert done.exit_code == 0, done.output
    told = done.output
    assert "left out" not in told
    assert "2 applications have no sensitivity curve from 0 on: the median one" in told
    known = [list(row.values())[4:] for row in rows_of(tmp_path / "out.csv")]
    assert np.isfinite(np.array(known).astype(np.float64)).all()


def test_a_machine_on_which_nothing_ran_alone_has_applications_that_are_all_alike(
    tmp_path: Path,
) -> None:
    files = Files()
    for row in (*files.sensitivity, *files.contentiousness):
        row[0] = "elsewhere" if row[0] == "m1" else row[0]
    found = read(files, tmp_path)
    assert found.profiles.machines == ("m0", "m1")  # strangers in profiles are nobody's
    columns = found.profiles.columns()[1]
    assert (columns == columns[0]).all()
    assert f"{APPS} applications have no contentiousness: the median one" in found.notes


def test_where_all_pairs_have_one_application_it_is_not_predicted_without_them(
    tmp_path: Path,
) -> None:
    """Constant columns do no harm."""
    files = Files()
    files.pairs = [["m0", "600.app_s", f"b{n}", 1, 1, 1 - n / 50, 0.9] for n in range(12)]
    for row in files.sensitivity:
        row[3] = 50.0
    for row in files.contentiousness:
        row[2] = 1.0
    said(*words(files, tmp_path))
    rows = rows_of(tmp_path / "out.csv")
    assert all(row["coplace_unseen_pair"] for row in rows)
    assert [bool(row["coplace_unseen_target"]) for row in rows] == [False] * 12 + [True] * 12


def test_one_pair_and_a_file_without_its_columns_are_refused_in_a_line(tmp_path: Path) -> None:
    files = Files()
    files.pairs = files.pairs[:1]
    told = refusal(*words(files, tmp_path))
    assert "has no configuration with at least 10 usable pairs" in told
    given = words(files, tmp_path)
    (tmp_path / "pairs.csv").write_text("config,app1\nm0,a\n", encoding="utf-8")
    assert "has no column app2" in refusal(*given)


def test_a_perfect_prediction_scores_one_and_no_error() -> None:
    actual = np.array([0.0, 0.5, 1.0])
    assert score(actual, actual) == (3, 1.0, 0.0)
    assert score(actual, np.array([0.0, np.nan, 1.0])).rows == 2
    assert np.isnan(score(actual[:1], actual[:1]).r2)
