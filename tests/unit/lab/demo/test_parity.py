"""Two runs are compared line by line."""

from pathlib import Path

from lab.demo.parity import COMPARED, first_difference


def test_the_first_difference_of_two_runs_is_shown_with_its_line(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for name in COMPARED:
            (tmp_path / folder / name).write_text("same\n")
    assert first_difference(tmp_path / "one", tmp_path / "two") is None
    (tmp_path / "two" / "charges.jsonl").write_text("same\nmore\n")
    difference = first_difference(tmp_path / "one", tmp_path / "two")
    assert difference is not None
    assert "charges.jsonl, line 2" in difference
    assert "no such line" in difference
