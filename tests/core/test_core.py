"""The core in random systems, held to its rules as plainly written, and the rules held to planted
bugs.

The seeds are the same in every run: what fresh ones find is for `make check-core`.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.core.__main__ import broken
from tests.core.life import Life
from tests.core.mutants import MUTANTS, Mutant, found, mistaken
from tests.core.systems import (
    FIRST_OF_CHANGES,
    FIRST_OF_MILLICORES,
    Ask,
    Cap,
    Change,
    Declare,
    Kill,
    LoseOrReturn,
    Overrun,
    Pass,
    Plan,
    Rule,
    Stop,
    Submit,
    Wait,
    script,
)

_SEEDS: Final = 48
_AT_ONCE: Final = 12
_FIRST: Final = (FIRST_OF_MILLICORES, FIRST_OF_CHANGES)


@pytest.mark.parametrize("first", [*range(0, _SEEDS, _AT_ONCE), *_FIRST])
def test_no_random_system_breaks_a_rule_of_the_core(first: int) -> None:
    for seed in range(first, first + _AT_ONCE):
        problem = broken(script(seed))
        assert not problem, f"python -m tests.core --seed {seed}\n{problem}"


def test_each_planted_bug_still_has_its_place_in_the_source() -> None:
    assert all(map(mistaken, MUTANTS))


@pytest.mark.rest
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_planted_bug_is_found_within_a_minute(mutant: Mutant, tmp_path: Path) -> None:
    assert found(mutant, tmp_path)


# What random systems broke, each as the smallest script that showed it ---------------------------


def test_a_job_is_not_told_that_its_own_reservation_stands_against_it() -> None:
    """Of parts of nodes, that waits for watts alone: it was."""
    Life().play(
        (
            Declare(cluster=1, nodes=3),
            Cap(scope=1, pick=0, levels=((0, 1), (24, 6))),
            Submit(units=2, walltime_s=80, app=3, shares=True),
        )
    )


def test_a_job_that_is_held_when_the_first_cap_comes_is_kept_alike_by_who_was_restored() -> None:
    """One of them looked for its lower P-states, the other did not."""
    Life().play(
        (
            Rule(policy=2, cap_slowdown=4.0),
            Declare(cluster=0, nodes=4),
            Cap(scope=2, pick=2, levels=((0, 2),)),
            Kill(),
            Submit(units=1, walltime_s=16, app=1, reference=1, user=1),
            Ask(what=1, pick=6),
        )
    )


def test_of_two_lost_clusters_a_restart_names_the_same() -> None:
    """The one that a job is rejected unless it returns was the first of those in memory."""
    Life().play(
        (
            Declare(cluster=0, nodes=4),
            Declare(cluster=1, nodes=3),
            Declare(cluster=2, nodes=2),
            LoseOrReturn(pick=2),
            Submit(units=5, walltime_s=16, app=2),
            LoseOrReturn(pick=1),
            Kill(),
        )
    )


# Jobs of whole clusters, an operator who suspends one, and two caps of which one rises again.
_SUSPENDED_UNDER_CAPS: Final = (
    Rule(policy=5, measures=("lower-frequency", "suspend")),
    Declare(cluster=0, nodes=3, cores=2),
    Declare(cluster=1, nodes=3, cores=2),
    Submit(units=3, walltime_s=200, app=2, reference=2, priority=1),
    Submit(units=3, walltime_s=80, app=3, reference=1),
    Submit(units=3, walltime_s=80, app=3, reference=1),
    Wait(rounds=1),
    Stop(pick=12),
    Cap(scope=1, pick=0, levels=((0, 0), (168, 6), (192, None))),
    Cap(scope=2, pick=0, levels=((0, 12),)),
)


def test_who_is_suspended_runs_on_when_its_watts_are_there_though_nothing_else_happens() -> None:
    """What was promised to the last job had moved, and nobody woke placement for the first."""
    Life().play(
        (
            *_SUSPENDED_UNDER_CAPS,
            Submit(units=1, walltime_s=40, app=0, reference=1),
            Wait(rounds=2),
        )
    )


def test_nodes_that_no_cap_ever_gives_back_are_promised_to_nobody() -> None:
    """Job 1 was expected to give its nodes back from now on, though no cap lets it run on: a job
    that waited for them had a reservation of watts that never came true; job 0 was suspended."""
    Life().play(
        (
            *_SUSPENDED_UNDER_CAPS,
            Submit(units=1, walltime_s=80, app=1, reference=1),
            Submit(units=2, walltime_s=80, app=3, reference=2),
            Wait(rounds=3),
        )
    )


def test_a_reservation_stands_where_the_cap_that_it_was_made_under_is_over() -> None:
    """A cap of the site was declared at the instant at which that of the cluster ended: it did not
    know what was promised, and a suspended job took the watts."""
    Life().play(
        (
            Rule(
                policy=3,
                counts_idle=True,
                cap_slowdown=2.0,
                measures=("lower-frequency", "suspend"),
            ),
            Declare(cluster=0, nodes=6, cores=2),
            Declare(cluster=1, nodes=3, cores=4, gpu_nodes=2),
            Submit(units=1, walltime_s=16, app=2, reference=1, user=1),
            Submit(units=1, walltime_s=16, app=3, shares=True, priority=1, user=1),
            Wait(rounds=1),
            Cap(scope=0, pick=1, levels=((0, 1), (112, None))),
            Cap(scope=0, pick=0, levels=((0, 4), (152, 2))),
            Submit(units=3, walltime_s=40, app=3, reference=2, user=1),
            Pass(seconds=30),
            Wait(rounds=1),
            Cap(scope=1, pick=0, levels=((0, 1), (8, 8))),
        )
    )


def test_who_serves_looks_on_once_its_start_is_known_elsewhere() -> None:
    """Its next entry was refused for watts that were reserved on another cluster for the very job
    that had just started."""
    Life().play(
        (
            Rule(policy=2, counts_idle=False, cap_slowdown=4.0, measures=("suspend",)),
            Declare(cluster=0, nodes=3, cores=4),
            Declare(cluster=1, nodes=5, cores=2),
            Cap(scope=0, pick=0, levels=((0, 0), (104, 0), (168, 3))),
            Submit(units=1, walltime_s=80, app=1),
            Submit(units=1, walltime_s=80, app=1, reference=1, priority=1),
            Submit(units=1, walltime_s=80, app=0, reference=2, priority=1),
            Cap(scope=1, pick=0, levels=((0, 3), (112, 12), (232, 12))),
            Submit(units=1, walltime_s=80, app=1),
            Submit(units=3, walltime_s=40, app=3, priority=1),
            Cap(scope=2, pick=2, levels=((0, 8),)),
        )
    )


def test_the_first_of_the_queue_is_promised_no_more_than_its_entries_before_all_others() -> None:
    """By the reordering policies a job comes between two clusters of the first one. What that was
    promised on the second it may lose to the job between."""
    Life().play(
        (
            Rule(policy=5, counts_idle=False),
            Declare(cluster=0, nodes=6),
            Declare(cluster=1, nodes=4, cores=2),
            Declare(cluster=2, nodes=4),
            Submit(units=2, walltime_s=16, app=2, cores=4, most=1, priority=-1),
            Cap(scope=2, pick=0, levels=((0, 2), (96, 4), (104, 3))),
            Submit(units=2, walltime_s=400, app=0, reference=1),
            Submit(units=1, walltime_s=80, app=3),
            Submit(units=4, walltime_s=400, app=0, reference=1),
            Submit(units=1, walltime_s=200, app=1, priority=1),
        )
    )


def test_a_job_that_lacks_nodes_and_watts_is_relaxed_in_both() -> None:
    """It was relaxed in watts alone for eight passes, in each of which others that need no node of
    its cluster took what it had given up."""
    Life().play(
        (
            Declare(cluster=0, nodes=10),
            Declare(cluster=1, nodes=9),
            Cap(scope=2, pick=0, levels=((0, 30),)),
            Submit(units=1, walltime_s=80, app=1),
            Pass(seconds=1),
            Submit(units=10, walltime_s=80, app=1),
            *[Submit(walltime_s=400)] * 9,
            Pass(seconds=1),
            Pass(seconds=1),
        )
    )


def test_a_suspended_job_runs_on_though_its_round_ends_late_and_another_waits_for_its_nodes() -> (
    None
):
    """Each waited behind the other for ever."""
    assert not broken(script(920_361))


def test_watts_are_freed_for_the_entry_whose_lack_the_requests_name() -> None:
    """The job lacked watts alone on two clusters, less on the one that the rules took it for."""
    assert not broken(script(5_120_603))


def test_a_job_starts_by_the_watts_that_another_cluster_kept_fewer_of_for_the_first() -> None:
    """The first that waits reserved on one cluster with more watts than on the next, and the first
    of them had passed over what then had enough."""
    Life().play(
        (
            Rule(policy=3, cap_slowdown=2.0, measures=("suspend",), sharing=True),
            Declare(cluster=0, nodes=6, cores=2),
            Declare(cluster=1, nodes=6, cores=2),
            Declare(cluster=2, nodes=4),
            Submit(units=4, app=2, reference=1, shares=True, priority=1),
            Submit(units=3, app=2, reference=1, shares=True, priority=1),
            Submit(units=3, walltime_s=200, reference=1, user=1),
            Cap(scope=2, pick=1, levels=((0, 12), (160, 3))),
            Submit(units=2, walltime_s=400, app=2, reference=1, shares=True),
            Submit(walltime_s=40, reference=2, priority=-1, user=1),
            Submit(units=3, walltime_s=16, app=3, priority=1, user=1),
            Submit(units=2, app=2),
            Wait(rounds=3),
            Wait(),
            Submit(walltime_s=16, app=2, reference=1, priority=-1, user=1),
            Submit(units=2, walltime_s=200, app=3, reference=1, priority=-1, user=1),
            Submit(walltime_s=16, reference=1, shares=True, priority=1),
            Submit(units=4, app=1, shares=True, priority=1),
            Submit(walltime_s=200, app=3, reference=1, user=1),
            Overrun(pick=14),
        )
    )


def test_a_job_starts_by_watts_that_a_reservation_elsewhere_gave_up_after_its_turn() -> None:
    """The first that waits was reserved for sooner and with less on a cluster whose turn came
    later. No rule named why a job between them waited."""
    assert not broken(script(923_942))


def test_a_plan_says_nothing_more_of_a_job_that_was_changed() -> None:
    """It let the job wait as it was when the plan was made."""
    Life().play(
        (
            Declare(cluster=1, nodes=4),
            Submit(units=2, walltime_s=16, app=2, reservation=2),
            Wait(rounds=2),
            Plan(picks=(2, 1), cluster=2, pstate=2, wait_s=0, valid_s=50),
            Wait(rounds=1),
            Change(pick=1, to=Submit(units=3, walltime_s=16, app=2)),
        )
    )
