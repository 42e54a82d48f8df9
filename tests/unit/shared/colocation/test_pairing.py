"""Who shares a node with whom: matchings of small queues against all matchings there are."""

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.colocation.pairing import (
    Matching,
    blossom,
    distributed_intensity,
    greedy,
    saved_s,
    together_s,
    total_saved_s,
    two_opt,
)

Queue = tuple[np.ndarray, np.ndarray]


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    """Run times and Deg of up to nine jobs, with ties, pairs that never pay and unknown ones."""
    jobs = draw(st.integers(0, 9))
    alone_s = draw(st.lists(st.sampled_from([1.0, 2.0, 5.0, 60.0]), min_size=jobs, max_size=jobs))
    percent = st.sampled_from([-5.0, 0.0, 10.0, 50.0, 130.0, np.nan])
    degradation = draw(st.lists(percent, min_size=jobs**2, max_size=jobs**2))
    return np.array(alone_s), np.array(degradation).reshape(jobs, jobs)


def perfect_matchings(jobs: list[int]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to part jobs into pairs, with one alone where they are odd."""
    if len(jobs) < 2:
        yield [tuple(jobs)] if jobs else []
        return
    first, rest = jobs[0], jobs[1:]
    if len(jobs) % 2:
        for others in perfect_matchings(rest):
            yield [(first,), *others]
    for at, other in enumerate(rest):
        for others in perfect_matchings(rest[:at] + rest[at + 1 :]):
            yield [(first, other), *others]


def edge_s(alone_s: np.ndarray, percent: np.ndarray, part: tuple[int, ...]) -> float:
    """The edge as the paper words it, with the threshold to one after the other."""
    in_turn = float(alone_s[list(part)].sum())
    if len(part) < 2:
        return in_turn
    i, j = part
    if np.isnan(percent[i, j]) or np.isnan(percent[j, i]):
        return in_turn
    degraded = [alone_s[a] * (1 + max(percent[a, b], 0.0) / 100) for a, b in ((i, j), (j, i))]
    return float(min(in_turn, max(degraded)))


def kept_s(queue: Queue, matching: Matching) -> float:
    alone_s, percent = queue
    shared = {job for pair in matching for job in pair}
    assert len(shared) == 2 * len(matching), "a job is in two pairs"
    assert all(a < b for a, b in matching)
    parts = [*matching, *((job,) for job in range(len(alone_s)) if job not in shared)]
    return sum(edge_s(alone_s, percent, part) for part in parts)


@given(queues())
@settings(max_examples=150)
def test_blossom_is_the_least_perfect_matching_of_all(queue: Queue) -> None:
    alone_s, percent = queue
    of_part = cache(partial(edge_s, alone_s, percent))
    least = min(sum(map(of_part, parts)) for parts in perfect_matchings(list(range(len(alone_s)))))
    assert kept_s(queue, blossom(saved_s(alone_s, percent))) == pytest.approx(least)


@given(queues())
def test_two_opt_is_between_greedy_and_the_best_and_no_exchange_is_left(queue: Queue) -> None:
    saved = saved_s(*queue)
    first = greedy(saved)
    found = two_opt(saved, first)
    best = total_saved_s(saved, blossom(saved))
    assert kept_s(queue, found) == pytest.approx(queue[0].sum() - total_saved_s(saved, found))
    least = total_saved_s(saved, first)
    assert least - 1e-9 <= total_saved_s(saved, found) <= best + 1e-9
    assert total_saved_s(saved, two_opt(saved, found)) == pytest.approx(total_saved_s(saved, found))
    assert least >= best / 2 - 1e-9


@given(seed=st.integers(0, 10_000), jobs=st.integers(0, 12))
def test_greedy_takes_the_pair_that_saves_most_each_time(seed: int, jobs: int) -> None:
    savings = np.triu(np.random.default_rng(seed).permutation(jobs**2).reshape(jobs, jobs) - 9.0, 1)
    saved = np.maximum(savings + savings.T, 0.0)
    free, expected = set(range(jobs)), []
    while pairs := [(saved[a, b], a, b) for a in free for b in free if a < b and saved[a, b] > 0]:
        _, one, two = max(pairs)
        expected.append((one, two))
        free -= {one, two}
    assert greedy(saved) == sorted(expected)


@given(queues())
def test_no_pair_shares_that_takes_longer_than_one_after_the_other(queue: Queue) -> None:
    alone_s, percent = queue
    both_s = together_s(alone_s, percent)
    saved = saved_s(alone_s, percent)
    for matching in (blossom(saved), greedy(saved), two_opt(saved, greedy(saved))):
        assert all(both_s[a, b] < alone_s[a] + alone_s[b] for a, b in matching)


def test_a_job_shares_with_the_neighbour_under_which_the_slower_of_both_is_fastest() -> None:
    alone_s = np.array([100.0, 100.0, 100.0, 100.0])
    percent = np.full((4, 4), 90.0)
    percent[0, 3], percent[3, 0] = 10.0, 20.0
    assert together_s(alone_s, percent)[0, 3] == 120.0
    assert (0, 3) in blossom(saved_s(alone_s, percent))


def test_the_most_intense_job_is_beside_the_least_and_the_middle_one_alone() -> None:
    assert distributed_intensity(np.array([5.0, 1.0, 3.0, 4.0, 2.0])) == [(0, 1), (3, 4)]
    assert distributed_intensity(np.array([])) == []
