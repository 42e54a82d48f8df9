"""The whole system under an adversary where jobs ask for all that a job can, and the audits of that
under planted bugs. More of it is in `make simulate-asking`."""

from pathlib import Path
from typing import Final

import pytest

from tests.chaos.asking_mutants import ASKING_MUTANTS, Mutant
from tests.chaos.episode import Episode
from tests.support.plain_python import run_as_plain_python

_EVENTS: Final = 300
_AT_EACH_CHANGE: Final = 3
_SEEDS: Final = [
    pytest.param(seed, marks=pytest.mark.rest) if seed > _AT_EACH_CHANGE else seed
    for seed in range(1, 16)
]
_MUTANT_SEEDS: Final = range(1, 13)
# Which seed finds a planted bug first, where that is not the first one.
_SOONEST: Final = {
    "a_cancelled_array_drops_nobody_left": 4,
    "nobody_is_held": 11,
    "tasks_wait_for_no_task_of_the_same_index": 4,
    "what_has_nodes_holds_no_licences": 19,
    "what_is_declared_anew_counts_after_a_restart": 2,
    "amounts_are_not_limited": 4,
    "limits_are_of_users_and_accounts_alone": 31,
    "nobody_orders_anew": 10,
    "nothing_is_kept_for_others": 2,
    "what_is_refused_is_granted_again": 2,
    "silence_is_forgotten_by_a_restart": 6,
    "silence_is_not_heard": 6,
    "the_home_of_a_job_is_not_asked": 17,
    "nothing_passes_who_waits_first": 45,
    "the_first_start_of_a_pass_is_forgotten": 45,
}


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_seed_finds_a_violation_where_jobs_ask_for_all_that_they_can(seed: int) -> None:
    report = Episode(seed, _EVENTS, asking=True).play()
    assert report.violations == (), (
        f"replay: python -m tests.chaos --asking --seed {seed} --events {_EVENTS}"
    )


@pytest.mark.parametrize(
    ("mutant", "found_by"), ASKING_MUTANTS, ids=lambda each: getattr(each, "__name__", "")
)
def test_each_planted_bug_is_found_by_its_audit(mutant: Mutant, found_by: str) -> None:
    for seed in dict.fromkeys([_SOONEST.get(mutant.__name__, 1), *_MUTANT_SEEDS]):
        with mutant():
            found = Episode(seed, _EVENTS, asking=True).play().violations
        if any(each.startswith(found_by) for each in found):
            return
    pytest.fail(f"{mutant.__name__} was not noticed in {len(_MUTANT_SEEDS)} episodes")


def test_a_bug_planted_in_what_is_compiled_is_found_by_its_audit(tmp_path: Path) -> None:
    done = run_as_plain_python(tmp_path, "tests/chaos/bugs_in_compiled.py")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
