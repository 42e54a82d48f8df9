"""No task starts beyond the licences that there are, none that gets its own waits as the first in
line, and none is lost; and the plays that say so find planted bugs."""

import pytest

from tests.eligibility.licence_mutants import LICENCE_MUTANTS
from tests.eligibility.licence_plays import LicencePlay, started
from tests.eligibility.mutants import Mutant

_SEEDS = [
    *range(1, 6),
    *(pytest.param(seed, marks=pytest.mark.rest) for seed in range(6, 41)),
]
_ROUNDS = 60
_MUTANT_SEEDS = range(1, 21)


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_seed_finds_a_violation(seed: int) -> None:
    played = LicencePlay(seed)
    played.play(_ROUNDS)
    assert played.violations == [], f"replay: python -m tests.eligibility --licences --seed {seed}"
    assert started(played)


@pytest.mark.parametrize("mutant", LICENCE_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_planted_bug_is_found(mutant: Mutant) -> None:
    with mutant():
        assert any(_breaks(seed) for seed in _MUTANT_SEEDS)


def _breaks(seed: int) -> bool:
    """A bug may break what the core itself relies on."""
    try:
        return bool(LicencePlay(seed).play(_ROUNDS).violations)
    except (KeyError, AssertionError, RuntimeError):
        return True
