"""The whole system under an adversary where jobs say when they may start and must have ended."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from shared.placement.processor.layers import Layers
from tests.chaos.episode import Episode
from tests.eligibility.mutants import (
    begins_are_ignored,
    deadlines_are_of_starts,
    delays_are_ignored,
    singletons_see_only_what_waits,
)

_EVENTS = 400
_SEEDS = [pytest.param(seed, marks=pytest.mark.rest) if seed > 1 else seed for seed in range(1, 9)]
# The rarest of the bugs shows in the first of these.
_MUTANT_SEEDS = range(13, 37)


@contextmanager
def what_a_job_waits_for_is_forgotten_by_a_restart() -> Iterator[None]:
    """Jobs that wait have no dependencies any more where they are restored."""
    right = Layers.__init__

    def forgetful(layers: Layers, *restored: Any) -> None:
        right(layers, *restored)
        for job in layers.state.jobs.all():
            job.life.awaits = ()

    with patch.object(Layers, "__init__", forgetful):
        yield


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_seed_finds_a_violation_where_jobs_say_when_they_may_start(seed: int) -> None:
    report = Episode(seed, _EVENTS, timed=True).play()
    assert report.violations == (), f"replay: python -m tests.chaos --timed --seed {seed}"


@pytest.mark.rest
@pytest.mark.parametrize(
    "mutant",
    [
        begins_are_ignored,
        deadlines_are_of_starts,
        delays_are_ignored,
        singletons_see_only_what_waits,
        what_a_job_waits_for_is_forgotten_by_a_restart,
    ],
)
def test_the_auditor_finds_planted_bugs(
    mutant: Callable[[], AbstractContextManager[None]],
) -> None:
    for seed in _MUTANT_SEEDS:
        with mutant():
            found = Episode(seed, _EVENTS, timed=True).play().violations
        if any("job starts before it may" in each or "of its name" in each for each in found):
            return
    pytest.fail("no episode shows it")
