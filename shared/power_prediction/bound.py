"""An upper bound of a job's power that a chosen share of jobs exceeds: adaptive conformal.

The score of a job is how far it lay above its prediction, W. The bound adds a quantile of the
newest scores of the job's group, at a level that follows what was really exceeded: after each job
it moves by a step times (alpha - 1 if the job was above its bound), which keeps the realised share
at alpha under any drift (Gibbs and Candes, "Adaptive conformal inference under distribution shift",
NeurIPS 2021, equation 2). Groups are fifths by how far the predictors disagree upwards, and jobs
of users of whom little is known: where it is known well, the bound is near.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from typing import Final, NamedTuple

# Of a group: this many scores, and enough for some of them to lie above the quantile.
_NEWEST_SCORES: Final = 500
_SCORES_ABOVE: Final = 10
_NEWEST_POWERS: Final = 5_000
_NEWEST_SPREADS: Final = 2_000
SPREAD_GROUPS: Final = 5
FEW_JOBS: Final = 10
# How fast the level follows: as share of alpha, but no more than so much.
_STEP: Final = 0.45
_MOST_STEP: Final = 0.011
# What is added beyond the greatest score for a level of -alpha, as a share of the prediction.
_BEYOND: Final = 0.2
MOST_CLUSTERS: Final = 256


class ScoreGroup(NamedTuple):
    """Jobs whose scores are taken to be alike."""

    cluster: str
    name: str


class Margin(NamedTuple):
    """How far a bound lies above a prediction: by watts and by a share of it."""

    above_w: float
    above_share: float


class Newest:
    """The newest values, in their order. Whoever forgets some by number adds them in that order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_age: deque[tuple[int, float]] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, value: float, number: int = 0) -> None:
        """Add a value; the oldest is dropped when it is full."""
        if len(self._by_age) == self._most:
            self._drop_oldest()
        self._by_age.append((number, value))
        insort(self._sorted, value)

    def forget(self, number: int) -> None:
        """Forget what was added up to a number."""
        while self._by_age and self._by_age[0][0] <= number:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, value = self._by_age.popleft()
        del self._sorted[bisect_left(self._sorted, value)]

    def cuts(self, parts: int) -> tuple[float, ...]:
        """Return the values that divide the others into so many parts: below the n-th of them lies
        less than n / parts of all. Empty of none."""
        if not self._sorted:
            return ()
        return tuple(
            self._sorted[-(-len(self._sorted) * part // parts) - 1] for part in range(1, parts)
        )

    def share_below(self, value: float) -> float:
        """Return the share of the values that are less; 0 of none."""
        return bisect_left(self._sorted, value) / max(1, len(self._sorted))

    def quantile(self, share: float) -> float:
        """Return the conformal quantile: that of rank ceil((n + 1) share), the greatest beyond
        it."""
        rank = math.ceil((len(self._sorted) + 1) * share)
        return self._sorted[min(max(rank, 1), len(self._sorted)) - 1]


class JobGroups:
    """Which group a job is of, and the most that it may be said to draw.

    Bounds are kept for so many clusters at most; the scores of further ones count as one's.
    """

    def __init__(self) -> None:
        self._spreads: dict[str, Newest] = {}
        self._powers_w: dict[str, Newest] = {}

    def of(self, cluster: str, spread: float, jobs_of_user: float) -> ScoreGroup:
        """Return the group of a job; `spread` is how far the 90 % quantile of the predictors lies
        above the prediction, W."""
        kept = self._kept(cluster)
        if jobs_of_user < FEW_JOBS:
            return ScoreGroup(kept, "few jobs of the user")
        spreads = self._spreads.get(kept)
        share = spreads.share_below(spread) if spreads else 0.0
        fifth = min(int(SPREAD_GROUPS * share), SPREAD_GROUPS - 1)
        return ScoreGroup(kept, f"spread {fifth + 1} of {SPREAD_GROUPS}")

    def highest_w(self, cluster: str) -> float:
        """Return the highest power of the newest jobs of a cluster; infinite where none ran."""
        powers_w = self._powers_w.get(self._kept(cluster))
        return powers_w.quantile(1.0) if powers_w else math.inf

    def learn(self, cluster: str, spread: float, power_w: float) -> None:
        """Take in what a job drew, W, and how far similar ones differed."""
        kept = self._kept(cluster)
        self._spreads.setdefault(kept, Newest(_NEWEST_SPREADS)).add(spread)
        self._powers_w.setdefault(kept, Newest(_NEWEST_POWERS)).add(power_w)

    def _kept(self, cluster: str) -> str:
        is_kept = cluster in self._spreads or len(self._spreads) < MOST_CLUSTERS
        return cluster if is_kept else _OTHERS


_OTHERS: Final = ""


class AdaptiveBound:
    """The bound of one `alpha`, the share of jobs that may lie above it."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.level = alpha
        self._step = min(_STEP * alpha, _MOST_STEP)
        self._most = max(_NEWEST_SCORES, math.ceil(_SCORES_ABOVE / alpha))
        self._scores: dict[ScoreGroup, Newest] = {}
        self._all = Newest(self._most)

    def upper_w(self, predicted_w: float, group: ScoreGroup) -> float:
        """Return the bound. With too few jobs to say, it is twice the prediction."""
        margin = self.margin(group)
        return predicted_w + margin.above_w + margin.above_share * predicted_w

    def margin(self, group: ScoreGroup) -> Margin:
        """Return the margin of the bounds of a group's jobs."""
        own = self._scores.get(group, self._all)
        scores = own if len(own) * self.alpha >= 1 else self._all
        if len(scores) * self.alpha < 1:
            return Margin(0.0, 1.0)
        beyond = _BEYOND * max(0.0, -self.level) / self.alpha
        return Margin(scores.quantile(1 - min(max(self.level, 0.0), 1.0)), beyond)

    def learn(self, score_w: float, group: ScoreGroup, *, is_above: bool) -> None:
        """Learn how far a job lay above its prediction, and whether above the bound that it had."""
        self.follow(is_above=is_above)
        self.remember(score_w, group)

    def follow(self, *, is_above: bool) -> None:
        """Move the level by what came of a bound."""
        self.level += self._step * (self.alpha - is_above)

    def remember(self, score_w: float, group: ScoreGroup, number: int = 0) -> None:
        """Remember a score: the scores of `number` and before can be forgotten."""
        self._all.add(score_w, number)
        self._scores.setdefault(group, Newest(self._most)).add(score_w, number)

    def forget(self, group: ScoreGroup, number: int) -> None:
        """Forget the scores of a group up to a number."""
        self._all.forget(number)
        self._scores[group].forget(number)
