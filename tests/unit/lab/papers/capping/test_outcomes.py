"""Outcomes that outlive the run that made them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coplace_client.errors import UnusableError
from lab.papers.capping.outcomes import appended, read_outcomes
from lab.papers.capping.plays import Outcome
from tests.unit.lab.papers.capping.test_tables import OUTCOME

OTHER = replace(OUTCOME, instance="b", cap_pct=30, cpu_s=1 / 3, plans=12, improved=3)


def test_what_was_found_before_a_run_was_ended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.csv"

    def ended_early() -> Iterator[Outcome]:
        yield from (OUTCOME, OTHER)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        [*appended(path, [], ended_early())]
    assert read_outcomes(path) == [OUTCOME, OTHER]


def test_a_torn_last_line_is_left_out_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.csv"
    assert [*appended(path, [], [OUTCOME, OTHER])] == [OUTCOME, OTHER]
    path.write_text(path.read_text()[:-3])
    known = read_outcomes(path)
    assert known == [OUTCOME]
    assert [*appended(path, known, [OTHER])] == [OUTCOME, OTHER] == read_outcomes(path)


def test_a_file_of_other_columns_is_refused_and_without_one_nothing_is_known(
    tmp_path: Path,
) -> None:
    path = tmp_path / "outcomes.csv"
    assert read_outcomes(path) == []
    path.write_text("instance,cap\na,30\n")
    with pytest.raises(UnusableError, match="--resume"):
        read_outcomes(path)


def test_what_is_known_stays_when_a_run_that_goes_on_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.csv"
    [*appended(path, [], [OUTCOME])]
    going_on = appended(path, read_outcomes(path), iter([OTHER]))
    assert next(going_on) == OUTCOME
    assert read_outcomes(path) == [OUTCOME]
