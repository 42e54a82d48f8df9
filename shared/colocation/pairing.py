"""Which jobs of a queue share a node, so that the sum of what they keep nodes is least.

Zacarias et al. (2021), section 3.5: the degradation graph has an edge between any two jobs, which
has the weight of the time that both together keep a node. Its least perfect matching is that of the
most node time saved against running each alone, since what all take alone is given. In that form no
edge means a pair that takes longer together than one after the other, an odd job is one without a
partner, and all matchings have the same measure."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Pairs that share, the earlier job first; all other jobs have their node for themselves.
Matching = list[tuple[int, int]]

# Each round of exchanges lowers the sum.
_MOST_ROUNDS: Final = 200
# Savings of less than this share of the greatest are rounding.
_LEAST_GAIN: Final = 1e-12
# Blossom's arithmetic is exact on integers: savings are counted in such parts of the greatest.
_PARTS: Final = 2.0**40


def together_s(alone_s: Floats, degradation_percent: Floats) -> Floats:
    """Return how long two jobs keep a node that they share, (jobs, jobs): max(T_i (1 + Deg_ij /
    100), T_j (1 + Deg_ji / 100)); a degradation below 0 counts as 0 (section 3.2). Infinite where
    one of them is not known, and between a job and itself."""
    degraded = alone_s[:, np.newaxis] * (1 + np.maximum(degradation_percent, 0.0) / 100)
    both = np.maximum(degraded, degraded.T)
    np.fill_diagonal(both, np.nan)
    return np.where(np.isnan(both), np.inf, both)


def saved_s(alone_s: Floats, degradation_percent: Floats) -> Floats:
    """Return the degradation graph: node time that each pair saves against one after the other, 0
    where it saves none (the threshold to exclusive nodes), (jobs, jobs)."""
    in_turn = alone_s[:, np.newaxis] + alone_s
    return np.maximum(in_turn - together_s(alone_s, degradation_percent), 0.0)


def total_saved_s(saved: Floats, matching: Matching) -> float:
    """Return what a matching saves in sum."""
    return float(sum(saved[pair] for pair in matching))


def distributed_intensity(intensity: Floats) -> Matching:
    """Match by Distributed Intensity (Blagodurov et al., TOCS 28, 2010): the job that asks most of
    memory beside the one that asks least, the second beside the last but one, and so on."""
    order = np.argsort(-intensity, kind="stable").tolist()
    half = len(order) // 2
    ends = zip(order[:half], order[: -half - 1 : -1], strict=True)
    return sorted((min(a, b), max(a, b)) for a, b in ends)


def greedy(saved: Floats) -> Matching:
    """Match again and again the pair that saves most. Two jobs that save most with each other are
    such a pair among all that touch them: all of these are taken at once."""
    among, left, found = saved.copy(), np.arange(len(saved)), Matching()
    best = among.argmax(axis=1) if len(saved) else left
    while len(left) > 1:
        to = best[left]
        is_best = (best[to] == left) & (left < to) & (among[left, to] > 0)
        if not is_best.any():
            break
        first, second = left[is_best], to[is_best]
        found += zip(first.tolist(), second.tolist(), strict=True)
        taken = np.concatenate([first, second])
        among[:, taken] = -1.0
        left = np.setdiff1d(left, taken, assume_unique=True)
        bereft = left[np.isin(best[left], taken)]
        best[bereft] = among[bereft].argmax(axis=1)
    return sorted(found)


def two_opt(saved: Floats, matching: Matching) -> Matching:
    """Exchange jobs of two pairs wherever that saves more, until none does; jobs that are alone
    take part as pairs that save nothing."""
    jobs = len(saved)
    rounded = np.zeros((jobs + 1, jobs + 1))  # an odd job has no neighbour
    rounded[:jobs, :jobs] = saved
    alone = sorted(set(range(jobs)) - {job for pair in matching for job in pair})
    if len(alone) % 2:
        alone.append(jobs)
    pairs = np.array([*matching, *zip(alone[::2], alone[1::2], strict=True)], dtype=np.int64)
    gain = np.empty((len(pairs), len(pairs)))
    changed = list(range(len(pairs)))
    for _ in range(_MOST_ROUNDS):
        if not changed:
            break
        gain[changed] = _gains(rounded, pairs, changed)
        gain[:, changed] = gain[changed].T
        changed = _exchange(rounded, pairs, gain)
    sides = (tuple(sorted(pair)) for pair in pairs.tolist() if rounded[*pair] > 0)
    return sorted((a, b) for a, b in sides)


def _gains(saved: Floats, pairs: Ints, of: list[int]) -> Floats:
    """Return what the better exchange of some pairs with each pair gains, (of, pairs)."""
    (first, second), (mine, my_second) = pairs.T, pairs[of].T
    of_first, of_second = saved[mine], saved[my_second]
    straight = of_first[:, first] + of_second[:, second]
    crossed = of_first[:, second] + of_second[:, first]
    now = saved[first, second]
    return np.asarray(np.maximum(straight, crossed) - now[of][:, np.newaxis] - now)


def _exchange(saved: Floats, pairs: Ints, gain: Floats) -> list[int]:
    """One round: of each pair's best exchange those that gain most and touch no other. Says which
    pairs took part."""
    other = gain.argmax(axis=1)
    most = gain[np.arange(len(pairs)), other]
    least, touched = _LEAST_GAIN * saved.max(), set[int]()
    for one in np.argsort(-most, kind="stable").tolist():
        two = int(other[one])
        if most[one] <= least:
            break
        if one in touched or two in touched or one == two:
            continue
        touched |= {one, two}
        (a, b), (c, d) = pairs[one].tolist(), pairs[two].tolist()
        is_crossed = saved[a, d] + saved[b, c] >= saved[a, c] + saved[b, d]
        pairs[one], pairs[two] = ((a, d), (c, b)) if is_crossed else ((a, c), (b, d))
    return sorted(touched)


def blossom(saved: Floats) -> Matching:
    """Return the matching that saves most of all: Edmonds's blossom algorithm (1965), of
    rustworkx."""
    import rustworkx

    first, second = np.nonzero(np.triu(saved, 1))
    parts = np.rint(saved[first, second] * (_PARTS / saved.max())) if first.size else first
    graph: rustworkx.PyGraph[None, int] = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from([None] * len(saved))
    edges = zip(first.tolist(), second.tolist(), parts.astype(np.int64).tolist(), strict=True)
    graph.add_edges_from(list(edges))
    found = rustworkx.max_weight_matching(graph, weight_fn=int)
    return sorted((min(a, b), max(a, b)) for a, b in found)
