"""`coplace evaluate groups` and `deadlines`, on files of a processor of three cores."""

from itertools import islice
from pathlib import Path

import pytest

from lab.evaluate import groups as evaluation
from lab.evaluate.group_files import _ALONE, _GROUPS, GroupFiles, read_groups
from lab.papers.colocation import contention
from shared.process.folders import write_csv
from tests.unit.cli.command_line import refusal, said
from tests.unit.services.energy.files import read

CORES = 3


def _write_groups(groups: Path, alone: Path, files: GroupFiles) -> None:
    """The two files of such runs."""
    write_csv(alone, _ALONE, ((*key, *each) for key, each in files.alone.items()))
    write_csv(groups, _GROUPS, ((r[0], "+".join(r.neighbours), *r[2:]) for r in files.runs))


@pytest.fixture(autouse=True)
def _soon_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks stop after a few rounds of training."""
    monkeypatch.setattr("services.prediction.group_models._MOST_ROUNDS", 25)


@pytest.fixture(scope="module")
def learned() -> GroupFiles:
    return contention.group_files(CORES)


@pytest.fixture
def words(learned: GroupFiles, tmp_path: Path) -> list[Path | str]:
    groups, alone = tmp_path / "groups.csv", tmp_path / "alone.csv"
    _write_groups(groups, alone, learned)
    return ["--groups", groups, "--alone", alone]


@pytest.mark.usefixtures("words")
def test_files_are_read_as_they_were_written(learned: GroupFiles, tmp_path: Path) -> None:
    found = read_groups(tmp_path / "groups.csv", tmp_path / "alone.csv")
    assert found.runs == learned.runs
    assert found.alone == learned.alone
    assert not found.notes


def test_each_feature_set_is_held_to_what_was_held_out(
    words: list[Path | str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "PARTITIONS", 1)
    monkeypatch.setattr(evaluation, "unmeasured", lambda *_: [])
    text = said("evaluate", "groups", *words, "--csv", tmp_path / "out.csv")
    rows = read(tmp_path / "out.csv")
    assert len(rows) == 6 * 5
    error = {
        (row["target"], row["feature_set"], row["model"]): float(row["mpe_percent"]) for row in rows
    }
    assert error["time", "F", "network"] < error["time", "F", "linear"]
    assert error["time", "F", "network"] < 0.6 * error["time", "A", "network"]
    assert error["energy", "F", "network"] < error["energy", "F", evaluation.POWER]
    assert "| F " in text


def test_an_application_that_nobody_measured_is_reported_by_its_class(learned: GroupFiles) -> None:
    some = {"bodytrack", "canneal"}
    runs = [r for r in learned.runs if r.freq_ghz == 3.2 and r.target in {*some, "cg", "sp", "ep"}]
    files = GroupFiles(learned.alone, runs, [])
    # By name: those whose neighbours the others are come behind.
    first_two = list(islice(evaluation.unmeasured(files), 2))
    rows = {row[0]: row for row in evaluation.unmeasured_rows(first_two)}
    assert rows["bodytrack"][1] == "IV"
    assert rows["bodytrack"][-1] == "-"  # nobody else is of its class
    assert rows["canneal"][1] == "I"
    assert float(rows["canneal"][-1]) < float(rows["canneal"][2])


def test_figures_that_are_none_and_strangers_are_left_out_and_counted(
    words: list[Path | str], tmp_path: Path
) -> None:
    with (tmp_path / "groups.csv").open("a", encoding="utf-8") as file:
        file.write("cg,nobody,3.2,100,1000\ncg,sp,3.2,inf,1000\n")
        file.write("cg,sp,3.2,,1000\ncg,sp,3.2,1e308,1000\n")
    with (tmp_path / "alone.csv").open("a", encoding="utf-8") as file:
        file.write("new,3.2,0,1,1,1,1\n")
    notes = read_groups(tmp_path / "groups.csv", tmp_path / "alone.csv").notes
    assert notes == [
        "1 runs alone have something missing or no measurable number: left out",
        "1 runs of groups have an application not measured alone: left out",
        "3 runs of groups have something missing or no measurable number: left out",
    ]
    (tmp_path / "groups.csv").write_text("target,neighbours,freq_ghz,time_s,energy_j\nx,y,1,1,1\n")
    given = ("evaluate", "groups", *words, "--csv", tmp_path / "o")
    assert "measured alone" in refusal(*given)


def test_who_knows_of_neighbours_meets_more_deadlines_than_who_does_not(
    words: list[Path | str], learned: GroupFiles, tmp_path: Path
) -> None:
    every = GroupFiles(learned.alone, list(contention.all_groups(CORES, seed=1)), [])
    _write_groups(tmp_path / "measured.csv", tmp_path / "unused.csv", every)
    given = [*words, "--measured", tmp_path / "measured.csv", "--cores", CORES]
    wanted = ["--nodes", 20, "--tasks", 250, "--interarrival", 3, "--plot", tmp_path / "plot.png"]
    text = said("evaluate", "deadlines", *given, *wanted)
    rows = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("| 3")]
    met = {row[1].strip(): float(row[2]) for row in rows}
    missed = {row[1].strip(): float(row[3]) for row in rows}
    assert missed["perfect prediction"] == 0.0
    assert missed["naive"] > missed["aware"]
    assert met["aware"] > met["naive"]
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    without = [run for run in every.runs if run[:2] != ("sp", ("sp", "sp"))]
    some = GroupFiles(learned.alone, without, [])
    _write_groups(tmp_path / "measured.csv", tmp_path / "unused.csv", some)
    told = refusal("evaluate", "deadlines", *given)
    assert "sp beside sp+sp was not measured" in told
