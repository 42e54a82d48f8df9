"""The comparison of look-ahead: what is kept of it, and what its table has."""

import csv
from pathlib import Path

import pytest
import typer

from lab.papers.lookahead import __main__ as command
from lab.papers.lookahead.plays import BASE, MEASURES, VARIANTS, Play
from lab.papers.lookahead.workloads import SOURCES


def bench(
    out: Path,
    *,
    plays: bool = True,
    only: list[str] | None = None,
    workload: list[str] | None = None,
) -> str:
    command.bench(Path("nowhere"), 1, 2, 30, only, workload, out, None, plays)
    return (out / "tables.md").read_text(encoding="utf-8")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Play]:
    """Plays take half of what the base takes."""
    plays: list[Play] = []

    def measured(play: Play, _data: Path, _jobs: int) -> dict[str, float]:
        plays.append(play)
        return dict.fromkeys(MEASURES, play.seed * (4.0 if play.variant == BASE else 2.0))

    monkeypatch.setattr(Play, "measured", measured)
    return plays


def test_each_play_is_kept_and_never_made_again(tmp_path: Path, played: list[Play]) -> None:
    text = bench(tmp_path)
    assert len(played) == 2 * len(SOURCES) * (1 + len(VARIANTS))
    assert "| look-ahead, Cirne | 50.0 ± 0.0 | 50.0 ± 0.0 | 50.0 ± 0.0 | 50.0 ± 0.0 |" in text
    played.clear()
    assert bench(tmp_path) == text
    assert not played


def test_it_goes_on_where_it_was_stopped(tmp_path: Path, played: list[Play]) -> None:
    bench(tmp_path)
    path = tmp_path / "plays.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-3]), encoding="utf-8")
    played.clear()
    assert "| easy, order alone, HPC2N" not in bench(tmp_path, plays=False)
    assert not played
    bench(tmp_path)
    assert [(p.workload, str(p.seed), p.variant) for p in played] == [
        tuple(row[:3]) for row in rows[-3:]
    ]


def test_some_variants_are_played_alone_into_a_table_of_their_own(
    tmp_path: Path, played: list[Play]
) -> None:
    text = bench(tmp_path, only=["by age"])
    assert {play.variant for play in played} == {BASE, "by age"}
    assert text.startswith("## look-ahead, some variants\n")
    assert text.count("\n| by age, ") == text.count(" ± 0.0 |") // len(MEASURES) == len(SOURCES)
    with pytest.raises(typer.BadParameter, match="'by luck' is none of look-ahead, by size"):
        bench(tmp_path, only=["by luck"])


def test_a_seed_draws_the_same_window_and_another_one_another() -> None:
    source = SOURCES["Lublin 0.9"]
    one, same, other = (source.jobs(Path("nowhere"), seed, 50).jobs for seed in (1, 1, 2))
    assert (one.submit_s == same.submit_s).all()
    assert not (one.submit_s == other.submit_s).all()


def test_some_workloads_are_played_alone(tmp_path: Path, played: list[Play]) -> None:
    text = bench(tmp_path, only=["look-ahead"], workload=["Cirne"])
    assert {play.workload for play in played} == {"Cirne"}
    assert text.count("| look-ahead, ") == 1


def test_a_workload_that_nobody_knows_is_refused(tmp_path: Path, played: list[Play]) -> None:
    with pytest.raises(typer.BadParameter, match="'Kirne' is none of Cirne"):
        bench(tmp_path, workload=["Kirne"])
    assert not played
