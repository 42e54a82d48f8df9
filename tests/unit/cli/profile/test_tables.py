"""A campaign's tables: by hand on a small one, and read by the command that learns from them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cli.profile.campaign import ALONE, Campaign, ProfiledRun, runs
from cli.profile.running import TimedRun
from cli.profile.tables import Results, write
from lab.evaluate.pair_files import read_pairs
from tests.unit.services.energy.files import read as rows

_APPS = ("a", "b", "c", "d", "e")
_ALONE_S: Mapping[str, float] = dict(zip((*_APPS, "reporter"), (1, 2, 4, 8, 16, 3), strict=True))


def campaign() -> Campaign:
    return Campaign.model_validate(
        {
            "applications": dict.fromkeys(_APPS, "x"),
            "bubbles": {4: "x", 16: "x"},
            "reporter": "x",
            "placements": {"here": {"primary": [0], "beside": [0]}},
            "repetitions": 3,
        }
    )


def slowdown(run: ProfiledRun) -> float:
    """More beside later letters, and in later repetitions; the machine is twice as slow in the
    second, which both sides of a ratio have."""
    by = {ALONE: 0, "bubble of 4 MiB": 1, "bubble of 16 MiB": 3}.get(run.beside)
    return 1 + (_APPS.index(run.beside) + 1 if by is None else by) / 10


def measured() -> Iterator[TimedRun]:
    for run in runs(campaign()):
        machine = 2 if run.repetition == 1 else 1
        counted = {"user_s": 0.25 * (run.repetition + 1)} if run.beside == ALONE else {}
        yield TimedRun(run, _ALONE_S[run.primary] * slowdown(run) * machine, 0, counted)


def test_ratios_are_of_the_same_repetition_and_features_have_four_statistics(
    tmp_path: Path,
) -> None:
    write(tmp_path, Results(campaign(), measured()))
    pairs = {(r["app1"], r["app2"]): r for r in rows(tmp_path / "pairs.csv")}
    assert len(pairs) == 15
    pair = pairs["a", "c"]
    assert float(pair["meas_rel_perf1"]) == pytest.approx(1 / 1.3, rel=1e-5)
    assert float(pair["meas_rel_perf2"]) == pytest.approx(1 / 1.1, rel=1e-5)
    assert float(pair["noise1"]) == pytest.approx(0, abs=1e-9)
    [score] = [r for r in rows(tmp_path / "contentiousness.csv") if r["app"] == "e"]
    assert float(score["reporter_score"]) == pytest.approx(1.5)
    curve = [r for r in rows(tmp_path / "sensitivity.csv") if r["app"] == "b"]
    assert [float(r["bubble_mb"]) for r in curve] == [0, 4, 16]
    assert [float(r["solo_or_bubble_time_s"]) for r in curve] == pytest.approx([2, 2.2, 2.6])
    [alone] = [r for r in rows(tmp_path / "alone.csv") if r["app"] == "a"]
    assert [float(alone[f"user_s_{each}"]) for each in ("mean", "min", "max")] == [0.5, 0.25, 0.75]
    assert float(alone["run_s_max"]) == 2


def test_the_tables_are_what_models_of_degradation_are_held_to(tmp_path: Path) -> None:
    paths = write(tmp_path, Results(campaign(), measured()))
    found = read_pairs(*paths[:3])
    assert not found.notes
    assert found.degradation.shape == (1, 5, 5)
    assert found.degradation[0, 0, 4] == pytest.approx(0.5, rel=1e-5)
    assert found.degradation[0, 2, 2] == pytest.approx(0.3, rel=1e-5)


def test_a_campaign_that_is_not_over_has_the_pairs_that_are(tmp_path: Path) -> None:
    write(tmp_path, Results(campaign(), list(measured())[:9]))
    [pair] = rows(tmp_path / "pairs.csv")
    assert (pair["app1"], pair["app2"], pair["noise1"]) == ("a", "a", "")
    assert len(rows(tmp_path / "alone.csv")) == 1
