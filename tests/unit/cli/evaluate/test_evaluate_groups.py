"""`coplace evaluate groups` and `deadlines`, on files of a processor of three cores."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.evaluate import groups as evaluation
from cli.evaluate.group_files import GroupFiles, read_groups, write_groups
from cli.main import app
from tests.benchmarks.colocation import contention

CORES = 3


@pytest.fixture(scope="module")
def learned() -> GroupFiles:
    return contention.group_files(CORES)


@pytest.fixture
def words(learned: GroupFiles, tmp_path: Path) -> list[str]:
    groups, alone = tmp_path / "groups.csv", tmp_path / "alone.csv"
    write_groups(groups, alone, learned)
    return ["--groups", str(groups), "--alone", str(alone)]


def run(words: list[str], expected: int = 0) -> str:
    result = CliRunner().invoke(app, ["evaluate", *words])
    assert result.exit_code == expected, result.output
    return result.output


def test_files_are_read_as_they_were_written(learned: GroupFiles, tmp_path: Path) -> None:
    write_groups(tmp_path / "groups.csv", tmp_path / "alone.csv", learned)
    found = read_groups(tmp_path / "groups.csv", tmp_path / "alone.csv")
    assert found.runs == learned.runs
    assert found.alone == learned.alone
    assert not found.notes


def test_each_feature_set_is_held_to_what_was_held_out(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "PARTITIONS", 1)
    monkeypatch.setattr(evaluation, "unmeasured", lambda *_: [])
    monkeypatch.setattr("services.prediction.group_models._MOST_ROUNDS", 25)
    out = tmp_path / "out.csv"
    text = run(["groups", *words, "--csv", str(out)])
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * 5
    error = {
        (row["target"], row["feature_set"], row["model"]): float(row["mpe_percent"]) for row in rows
    }
    assert error["time", "F", "network"] < error["time", "F", "linear"]
    assert error["time", "F", "network"] < 0.6 * error["time", "A", "network"]
    assert error["energy", "F", "network"] < error["energy", "F", evaluation.POWER]
    assert "| F " in text


def test_an_application_that_nobody_measured_is_told_by_its_class(
    learned: GroupFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.prediction.group_models._MOST_ROUNDS", 25)
    some = {"bodytrack", "canneal"}
    runs = [r for r in learned.runs if r.freq_ghz == 3.2 and r.target in {*some, "cg", "sp", "ep"}]
    files = GroupFiles(learned.alone, runs, [])
    rows = {row[0]: row for row in evaluation.unmeasured_rows(list(evaluation.unmeasured(files)))}
    assert rows["bodytrack"][1] == "IV"
    assert rows["bodytrack"][-1] == "-"  # nobody else is of its class
    assert rows["canneal"][1] == "I"
    assert float(rows["canneal"][-1]) < float(rows["canneal"][2])


def test_figures_that_are_none_and_strangers_are_left_out_and_counted(
    words: list[str], tmp_path: Path
) -> None:
    with (tmp_path / "groups.csv").open("a", encoding="utf-8") as file:
        file.write(
            "cg,nobody,3.2,100,1000\ncg,sp,3.2,inf,1000\ncg,sp,3.2,,1000\ncg,sp,3.2,1e308,1000\n"
        )
    with (tmp_path / "alone.csv").open("a", encoding="utf-8") as file:
        file.write("new,3.2,0,1,1,1,1\n")
    notes = read_groups(tmp_path / "groups.csv", tmp_path / "alone.csv").notes
    assert notes == [
        "1 runs alone have something missing or no measurable number: left out",
        "1 runs of groups have an application not measured alone: left out",
        "3 runs of groups have something missing or no measurable number: left out",
    ]
    (tmp_path / "groups.csv").write_text("target,neighbours,freq_ghz,time_s,energy_j\nx,y,1,1,1\n")
    assert "measured alone" in run(["groups", *words, "--csv", str(tmp_path / "o")], expected=1)


def test_who_knows_of_neighbours_meets_more_deadlines_than_who_does_not(
    words: list[str], learned: GroupFiles, tmp_path: Path
) -> None:
    measured, plot = tmp_path / "measured.csv", tmp_path / "plot.png"
    every = GroupFiles(learned.alone, list(contention.all_groups(CORES, seed=1)), [])
    write_groups(measured, tmp_path / "unused.csv", every)
    text = run(
        [
            *("deadlines", *words, "--measured", str(measured), "--nodes", "20", "--cores", "3"),
            *("--tasks", "250", "--interarrival", "3", "--plot", str(plot)),
        ]
    )
    rows = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("| 3")]
    met = {row[1].strip(): float(row[2]) for row in rows}
    missed = {row[1].strip(): float(row[3]) for row in rows}
    assert missed["perfect prediction"] == 0.0
    assert missed["naive"] > missed["aware"]
    assert met["aware"] > met["naive"]
    assert plot.stat().st_size > 10_000


def test_a_group_that_was_not_measured_is_named(
    words: list[str], learned: GroupFiles, tmp_path: Path
) -> None:
    measured = tmp_path / "measured.csv"
    without = [r for r in contention.all_groups(CORES, 1) if r[:2] != ("sp", ("sp", "sp"))]
    some = GroupFiles(learned.alone, without, [])
    write_groups(measured, tmp_path / "unused.csv", some)
    told = run(["deadlines", *words, "--measured", str(measured), "--cores", "3"], expected=1)
    assert "sp beside sp+sp was not measured" in " ".join(told.split())
