"""No job starts before it may, and none waits that may start and is the first in line; and the
oracle that says so finds planted bugs."""

import pytest

from tests.eligibility.mutants import MUTANTS, Mutant
from tests.eligibility.plays import Play

# The last four showed defects: circles of before a start, a grant that was settled, and a circle
# that one free dependency leads out of.
_SEEDS = [
    *range(1, 13),
    *(
        pytest.param(seed, marks=pytest.mark.rest)
        for seed in (*range(13, 61), 1008, 1010, 1014, 8006)
    ),
]
_ROUNDS = 80
_MUTANT_SEEDS = range(1, 61)
# Which seed finds a planted bug first, where that is not one of the first few.
_SOONEST = {"a_start_frees_nobody_behind_it": 49, "singletons_see_only_what_waits": 8}


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_seed_finds_a_violation(seed: int) -> None:
    played = Play(seed).play(_ROUNDS)
    assert played.violations == [], f"replay: python -m tests.eligibility --seed {seed}"
    assert played.starts


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_planted_bug_is_found(mutant: Mutant) -> None:
    seeds = dict.fromkeys([_SOONEST.get(mutant.__name__, 1), *_MUTANT_SEEDS])
    with mutant():
        assert any(Play(seed).play(_ROUNDS).violations for seed in seeds)
