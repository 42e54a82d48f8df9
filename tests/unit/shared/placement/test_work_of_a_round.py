"""The work of a round is counted as plain Python: compiled functions call each other unseen."""

from pathlib import Path

from tests.support.plain_python import run_as_plain_python

_COUNTED = "tests/unit/shared/placement/work_of_a_round.py"


def test_a_round_costs_what_differs_and_not_what_waits(tmp_path: Path) -> None:
    done = run_as_plain_python(tmp_path, _COUNTED)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
