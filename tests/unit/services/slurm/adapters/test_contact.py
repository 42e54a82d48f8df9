"""Coplace speaks where it takes in what happens, goes on, and decides."""

from pathlib import Path

import pytest

from services.slurm.adapters.contact import Contact
from tests.unit.services.slurm.region import PlayedRegion


class Watched:
    """A contact with a clock and a region that are set."""

    def __init__(self, folder: Path) -> None:
        self.region, self.now_s, self.is_silent = PlayedRegion(), 100.0, False
        self.file = folder / "heartbeat"
        self.contact = Contact(
            self.region, self.file, lambda: self.is_silent, 30.0, lambda: self.now_s
        )

    def spoke(self, round_us: int) -> bool:
        """Whether Coplace speaks at a look, as of a round."""
        self.region.last_round_us = round_us
        self.file.unlink(missing_ok=True)
        self.contact.look()
        return self.file.exists()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_it_speaks_once_its_rounds_go_on(watched: Watched) -> None:
    assert not watched.spoke(7)
    assert not watched.contact.is_there
    assert not watched.spoke(7)
    assert watched.spoke(8)
    assert watched.contact.is_there


def test_it_is_asked_again_after_a_while_or_at_each_look_in_silence(watched: Watched) -> None:
    assert [watched.spoke(round_us) for round_us in (1, 2, 3)] == [False, True, False]
    watched.now_s += 30
    assert [watched.spoke(round_us) for round_us in (3, 3, 4)] == [True, False, False]
    watched.now_s += 30
    assert [watched.spoke(round_us) for round_us in (4, 4, 5)] == [True, False, False]


def test_it_is_silent_where_no_decision_would_come(watched: Watched) -> None:
    watched.is_silent = True
    assert not any(watched.spoke(round_us) for round_us in range(3))


def test_it_is_there_until_it_has_been_silent_for_some_time(watched: Watched) -> None:
    assert [watched.spoke(1), watched.spoke(2)] == [False, True]
    watched.now_s += 89
    assert watched.contact.is_there
    watched.now_s += 2
    assert not watched.contact.is_there
