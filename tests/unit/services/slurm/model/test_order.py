"""Numbers have the order in which Slurm would take jobs, and few are said when it changes."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from services.slurm.model.jobs import SlurmJob
from services.slurm.model.order import manager_priority, to_say
from services.slurm.model.priority import PartitionTerms, PriorityRules, QueueTerms
from tests.unit.services.slurm.fields import JOB, SUBMIT_S

RULES = PriorityRules(is_multifactor=True, age=100_000, max_age_s=100_000)
TIERS = {"all": PartitionTerms(1), "fast": PartitionTerms(7), "last": PartitionTerms(0)}


def job(number: int = 17, **fields: Any) -> SlurmJob:
    return SlurmJob({**JOB, "partition": "all", "job_id": number, **fields})


def numbers(jobs: list[SlurmJob], terms: QueueTerms, now_s: float, until_s: float) -> list[int]:
    return [manager_priority(each, terms, now_s, until_s - now_s) for each in jobs]


def test_numbers_stay_while_priorities_grow_alike_and_fall_behind_where_they_do_not() -> None:
    jobs = [
        job(1, submit_time=SUBMIT_S),
        job(2, submit_time=SUBMIT_S + 10, nice=-500),
        # It has waited for longer than counts.
        job(3, submit_time=SUBMIT_S - 200_000),
        # It waits for another one, and does not become older.
        job(4, dependency="afterok:1", nice=-50_000),
    ]
    at_first = numbers(jobs, QueueTerms(RULES), SUBMIT_S + 20, SUBMIT_S + 1_020)
    assert at_first == [1_020, 1_510, 101_000, 51_000]
    later = numbers(jobs, QueueTerms(RULES), SUBMIT_S + 520, SUBMIT_S + 1_020)
    assert later == [1_020, 1_510, 100_500, 50_500]


def test_a_clock_that_goes_back_makes_no_job_older_than_it_is() -> None:
    [number] = numbers([job()], QueueTerms(RULES), SUBMIT_S - 5_000, SUBMIT_S - 4_000)
    assert number == 1_001


def test_a_tier_goes_before_a_priority_and_a_job_of_two_partitions_goes_by_the_first() -> None:
    terms = QueueTerms(RULES, TIERS)
    low, fast, both, last, unknown = (
        manager_priority(job(partition=name, nice=nice), terms, SUBMIT_S, 0)
        for name, nice in [
            ("all", -90_000),
            ("fast", 0),
            ("last,fast", -3),
            ("last", -(2**31 - 9)),
            ("away", 0),
        ]
    )
    assert last < unknown < low < fast < both < 2**32


def test_by_basic_priority_all_of_a_tier_go_by_their_numbers() -> None:
    terms = QueueTerms(PriorityRules(), TIERS)
    assert {
        manager_priority(job(number, nice=number), terms, SUBMIT_S + number, 600)
        for number in (1, 2, 30_000)
    } == {2**32 // 3 + 1}
    assert manager_priority(job(partition=""), QueueTerms(), SUBMIT_S, 600) == 1


@pytest.mark.parametrize("seed", range(20))
def test_what_is_said_leaves_all_in_their_order(seed: int) -> None:
    rng = Random(seed)
    names = {f"job{number}": number for number in range(rng.randint(1, 40))}
    now = {name: rng.randint(1, 30) for name in names}
    said = {name: rng.randint(1, 30) for name in names if rng.random() < 0.8}
    saying = to_say(said, now, names)
    assert all(said.get(name) != now[name] for name in saying)
    held = {**said, **{name: now[name] for name in saying}}
    order = sorted(now, key=lambda name: (-now[name], names[name]))
    for first, second in pairwise(order):
        assert (-held[first], names[first]) < (-held[second], names[second])


def test_of_a_thousand_jobs_that_keep_their_places_only_the_one_is_said_that_moved() -> None:
    names = {f"job{number}": number for number in range(1_000)}
    said = {name: 5_000 - number for name, number in names.items()}
    now = {**said, "job900": 5_000}
    assert to_say(said, now, names) == {"job900"}
    assert to_say(said, said, names) == set()
    assert to_say({}, now, names) == now.keys()
    # Nobody has another place.
    assert to_say(said, {name: value + 40 for name, value in said.items()}, names) == set()
