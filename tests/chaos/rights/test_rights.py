"""Who may say what, under users, sites and agents that lie; and the plays under planted bugs.

The seeds are the same in every run: fresh ones are for `python -m tests.chaos.rights`.
"""

from typing import Final

import pytest

from tests.chaos.rights.planted import PLANTED, Planted
from tests.chaos.rights.play import Play

_SEEDS: Final = range(1, 21)
_EVENTS: Final = 600
_AT_EACH_CHANGE: Final = 3
_MOST_SEEDS: Final = 25
_PLAYED: Final = [
    pytest.param(seed, marks=pytest.mark.rest) if seed > _AT_EACH_CHANGE else seed
    for seed in _SEEDS
]


@pytest.mark.parametrize("seed", _PLAYED)
def test_nobody_gets_by_lies_what_is_not_theirs(seed: int) -> None:
    report = Play(seed, _EVENTS).run()
    found = "\n- ".join(report.violations)
    replay = f"python -m tests.chaos.rights --seed {seed} --play {_EVENTS}"
    assert not report.violations, f"seed {seed} violates:\n- {found}\nreplay: {replay}"


def test_a_fifth_of_all_acts_is_rightful_and_taken() -> None:
    acts = Play(1, _EVENTS).run().acts
    rightful = sum(count for (act, is_taken), count in acts.items() if act.is_rightful and is_taken)
    assert rightful >= acts.total() / 5


def test_the_same_seed_plays_the_same() -> None:
    assert Play(2, 200).run() == Play(2, 200).run()


@pytest.mark.rest
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_each_planted_bug_is_found(planted: Planted) -> None:
    for seed in range(1, _MOST_SEEDS + 1):
        with planted():
            found = Play(seed, _EVENTS).run().violations
        assert not any("planted.py" in each for each in found), found
        if found:
            return
    pytest.fail(f"{planted.__name__} was not noticed in {_MOST_SEEDS} plays")
