"""Each task of an array is decided once, at most so many have nodes at once, and none is lost; and
the plays that say so find planted bugs."""

import pytest

from tests.eligibility.array_mutants import ARRAY_MUTANTS
from tests.eligibility.array_plays import ArrayPlay
from tests.eligibility.mutants import Mutant

_SEEDS = [
    *range(1, 9),
    *(pytest.param(seed, marks=pytest.mark.rest) for seed in range(9, 61)),
]
_ROUNDS = 60
_MUTANT_SEEDS = range(1, 41)


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_seed_finds_a_violation(seed: int) -> None:
    played = ArrayPlay(seed).play(_ROUNDS)
    assert played.violations == [], f"replay: python -m tests.eligibility --arrays --seed {seed}"
    assert played.starts


@pytest.mark.parametrize("mutant", ARRAY_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_planted_bug_is_found(mutant: Mutant) -> None:
    with mutant():
        assert any(_breaks(seed) for seed in _MUTANT_SEEDS)


def _breaks(seed: int) -> bool:
    """A bug may break what the core itself relies on."""
    try:
        return bool(ArrayPlay(seed).play(_ROUNDS).violations)
    except (KeyError, AssertionError, RuntimeError):
        return True
