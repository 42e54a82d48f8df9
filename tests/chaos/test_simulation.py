"""The whole system under an adversary, and the adversary itself under planted bugs."""

import time
from typing import Final

import pytest

from tests.chaos.episode import Episode, Report
from tests.chaos.mutants import MUTANTS, Mutant

# Seconds of one core, whatever else runs on it: a fixed part of what CI takes.
_HUNT_S: Final = 60.0
_EVENTS: Final = 600
_MUTANT_EVENTS: Final = 400
_MOST_SEEDS: Final = 12


def complaint(report: Report) -> str:
    """What to do about a violation."""
    found = "\n- ".join(report.violations)
    return (
        f"seed {report.seed} violates:\n- {found}\nreplay: .venv/bin/python -m tests.chaos "
        f"--seed {report.seed} --episodes 1 --events {_EVENTS} --trace"
    )


def test_the_same_seed_gives_the_same_bytes_in_every_topic() -> None:
    once, again = Episode(7, 200).play(), Episode(7, 200).play()
    assert once == again


def test_another_seed_gives_another_run() -> None:
    assert Episode(8, 50).play().digest != Episode(9, 50).play().digest


def test_no_seed_finds_a_violation() -> None:
    fresh, began_s, played = time.time_ns() // 1_000_000_000, time.process_time(), 0
    print(f"fresh seed {fresh}")
    while time.process_time() - began_s < _HUNT_S:
        # The first seeds are the same in every run, the rest in none.
        report = Episode(1 + played if played < 10 else fresh + played, _EVENTS).play()
        assert not report.violations, complaint(report)
        played += 1
    assert played


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_planted_bug_is_found(mutant: Mutant) -> None:
    for seed in range(1, _MOST_SEEDS):
        with mutant():
            if Episode(seed, _MUTANT_EVENTS).play().violations:
                return
    pytest.fail(f"{mutant.__name__} was not found in {_MOST_SEEDS} episodes")
