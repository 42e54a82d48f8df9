"""Versions of the trees of pairs: grown of the newest intervals that shutters measured, and
compared with intervals that came later."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from importlib.metadata import version as version_of
from typing import Final

from coplace.v1.prediction_pb2 import PairTreesChosen, PairTreesJudged, PairTreesPublished
from google.protobuf.message import Message

from services.prediction.pair_trees import PairExample, grow, unseen_errors
from services.prediction.publish import trees_event
from services.prediction.versions import VersionChoice, Versions, Wish
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Publish
from shared.catalogue.payloads.pair_trees import pair_trees_of
from shared.catalogue.payloads.regression_trees import pack
from shared.domain.model_names import PAIR_TREES
from shared.models.degradation import slowdown_of_shares
from shared.models.pair_trees import PAIRS_ORIGIN, PairTrees
from shared.streams.stages.stage import Round

# Grown of so many intervals first, then whenever there are as much more as this share, or this
# many; of no more than the newest.
FIRST_TRAINING: Final = 100
GROWN_SHARE: Final = 0.3
MOST_UNTRAINED: Final = 1_000
MOST_EXAMPLES: Final = 5_000
# Intervals that a version is compared with in the shadow.
SHADOWED: Final = 100


class PairVersions(Versions[PairTreesPublished, PairTrees]):
    """Folds what shutters said of what was predicted."""

    name = PAIR_TREES
    cases = "intervals"
    nothing = "weights over bandwidths"
    kept = PairTreesPublished
    # Weights say less wrong things of pairs that nobody measured: in doubt they hold.
    clearly = 2.0

    def end_round(
        self,
        measured: Sequence[PairExample],
        weights: Sequence[float],
        intervals: int,
        examples: Callable[[], Sequence[PairExample]],
        ended: Round,
    ) -> list[Publish]:
        """Hold the shadow to what the round measured, as what is in force is, or `weights` where no
        version is; replace it where the shadow is better or somebody wants it; and grow the next
        version of the newest `examples` when it is due, of `intervals` so far."""
        published: list[Message] = []
        if self._shadow is not None:
            published += self._held(self._errors(measured, self._shadow, weights), SHADOWED)
        published += self._put_wish_into_force()
        if self._is_due(intervals, FIRST_TRAINING, GROWN_SHARE, MOST_UNTRAINED):
            newest = examples()[-MOST_EXAMPLES:]
            if len(newest) >= FIRST_TRAINING:
                published.append(self._take(grow_pair_trees(newest, intervals)))
        self._forget()
        return [trees_event(each, PAIR_TREES, ended) for each in published]

    def evaluated(self, message: PairTreesPublished) -> PairTrees:
        """Raises RejectedError for what is no version."""
        return pair_trees_of(message)

    def is_of_this_origin(self, message: PairTreesPublished) -> bool:
        """Return whether its columns mean the same as here."""
        return message.origin == PAIRS_ORIGIN

    def number(self, message: PairTreesPublished) -> int:
        """Return the number of its newest interval."""
        return message.newest_interval

    def judgement(self, choice: VersionChoice) -> Message:
        """Return how far the version in shadow and that in force were off over the same
        intervals."""
        return PairTreesJudged(
            version=choice.shadow,
            in_force=choice.in_force,
            intervals=choice.cases,
            error=choice.error,
            error_in_force=choice.error_in_force,
            error_of_weights=choice.errors_without / choice.cases,
            is_better=choice.is_better(self.clearly),
        )

    def word(self, wish: Wish, trees: PairTreesPublished | None) -> Message:
        """Return the event of a choice: who wanted it, and why."""
        return PairTreesChosen(
            version=wish.version,
            trees=trees,
            is_pinned=wish.is_pinned,
            who=wish.who,
            reason=wish.reason,
        )

    def _errors(
        self, measured: Sequence[PairExample], shadow: PairTrees, weights: Sequence[float]
    ) -> Iterator[tuple[float, float, float]]:
        """All were learned before any of it was measured."""
        for each in measured:
            without = abs(slowdown_of_shares(weights, *each.bandwidth_shares) - each.slowdown_ratio)
            now = _error(self.in_force, each) if self.in_force else without
            yield _error(shadow, each), now, without


def _error(trees: PairTrees, of: PairExample) -> float:
    return abs(1 + trees.excess(of.own, of.other) - of.slowdown_ratio)


def grow_pair_trees(examples: Sequence[PairExample], number: int) -> PairTreesPublished:
    """Grow trees of intervals in the order of their times, of which the newest is so many-th."""
    by_trees, by_weights = unseen_errors(examples)
    message = PairTreesPublished(
        version=f"{PAIR_TREES}@{number}",
        origin=PAIRS_ORIGIN,
        data_sha256=sha256(repr([tuple(each) for each in examples]).encode()).digest(),
        code_version=version_of("coplace"),
        trained_intervals=len(examples),
        newest_interval=number,
        trees=pack(grow(examples)),
        unseen_error=by_trees,
        unseen_error_of_weights=by_weights,
    )
    message.sha256 = model_sha256(message)
    return message
