"""Versions of the trees of power: grown of the newest jobs that were predicted, and compared with
jobs that ended later."""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version as version_of
from typing import Final

import numpy as np
from coplace.v1.prediction_pb2 import PowerTreesChosen, PowerTreesJudged, PowerTreesPublished
from google.protobuf.message import Message

from services.prediction.power_trees import Growth, train_forests
from services.prediction.publish import trees_event
from services.prediction.versions import VersionChoice, Versions, Wish
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Publish
from shared.catalogue.payloads.power_trees import data_sha256, trees_of, with_models_of_users
from shared.catalogue.payloads.regression_trees import pack
from shared.domain.model_names import TREES
from shared.numerics.elementary import exps, logs
from shared.power_prediction.forests import MEAN_OF_BOTH
from shared.power_prediction.online import JudgedPrediction, OnlineLearner
from shared.power_prediction.trees import SUBMITTED, TREES_ORIGIN, PowerTrees, unpack
from shared.streams.stages.stage import Round

# Small enough for a record, and for a round: about 1.6 s of 10,000 jobs.
GROWTH: Final = Growth(12, 9, 40, 6, 6, 5)
# Grown of so many jobs first, then whenever there are as much more as this share, or this many.
FIRST_TRAINING: Final = 300
GROWN_SHARE: Final = 0.3
MOST_UNTRAINED: Final = 3_000
# Jobs that a version is compared with in the shadow.
SHADOWED: Final = 200


class TreeVersions(Versions[PowerTreesPublished, PowerTrees]):
    """Folds what came of predictions."""

    name = TREES
    cases = "jobs"
    nothing = "what similar jobs drew, alone"
    kept = PowerTreesPublished

    def end_round(
        self,
        judged: Sequence[JudgedPrediction],
        learner: OnlineLearner,
        ended: Round,
    ) -> list[Publish]:
        """Hold the shadow to the round's jobs, replace what is in force where it is better or
        somebody wants it, and grow the next version of the newest jobs when it is due. What is in
        force predicts for the learner from here on."""
        published = self._held(self._errors(judged), SHADOWED) if self._shadow else []
        published += self._put_wish_into_force()
        learner.tables.take_trees(self.in_force)
        if self._is_due(learner.progress.judged, FIRST_TRAINING, GROWN_SHARE, MOST_UNTRAINED):
            examples = learner.examples
            published += (
                [self._take(grow_power_trees(examples))] if len(examples) >= FIRST_TRAINING else []
            )
        self._forget()
        return [trees_event(each, TREES, ended) for each in published]

    def evaluated(self, message: PowerTreesPublished) -> PowerTrees:
        """Raises RejectedError for what is no version."""
        return trees_of(message)

    def is_of_this_origin(self, message: PowerTreesPublished) -> bool:
        """Return whether its features mean the same as here."""
        return message.origin == TREES_ORIGIN

    def number(self, message: PowerTreesPublished) -> int:
        """Return the number of its newest job."""
        return message.newest_job

    def judgement(self, choice: VersionChoice) -> Message:
        """Return how far the version in shadow and that in force were off over the same jobs."""
        return PowerTreesJudged(
            version=choice.shadow,
            in_force=choice.in_force,
            jobs=choice.cases,
            error=choice.error,
            error_in_force=choice.error_in_force,
            is_better=choice.is_better(self.clearly),
        )

    def word(self, wish: Wish, trees: PowerTreesPublished | None) -> Message:
        """Return the event of a choice: who wanted it, and why."""
        return PowerTreesChosen(
            version=wish.version,
            trees=trees,
            is_pinned=wish.is_pinned,
            who=wish.who,
            reason=wish.reason,
        )

    def _errors(self, judged: Sequence[JudgedPrediction]) -> Iterator[tuple[float, float, float]]:
        """Of jobs that what is in force now predicted, and of which the shadow knows nothing: it
        was grown before they ended. What rows alone would have erred is not known."""
        fair = [each for each in judged if each.row and each.trees == self._choice.in_force]
        if self._shadow is None or not fair:
            return
        said = self._shadow.said([each.of_user for each in fair], [each.row for each in fair])
        said_w = exps(said[:, MEAN_OF_BOTH])
        for each, power_w in zip(fair, said_w.tolist(), strict=True):
            yield abs(power_w / each.power_w - 1), each.trees_error, each.trees_error


def grow_power_trees(examples: Sequence[JudgedPrediction]) -> PowerTreesPublished:
    """Grow trees of jobs in the order of their numbers."""
    users, rows = [each.of_user for each in examples], [each.row for each in examples]
    powers_w = [each.power_w for each in examples]
    forests = train_forests(users, unpack(rows), logs(np.array(powers_w)), GROWTH, len(SUBMITTED))
    message = PowerTreesPublished(
        version=f"{TREES}@{examples[-1].number}",
        origin=TREES_ORIGIN,
        data_sha256=data_sha256(users, rows, powers_w),
        code_version=version_of("coplace"),
        trained_jobs=len(examples),
        newest_job=examples[-1].number,
        extra=pack(forests.extra),
        boosted=pack(forests.boosted),
    )
    jobs = Counter(users)
    by_jobs = sorted(forests.users.items(), key=lambda each: (-jobs[each[0]], each[0]))
    with_models_of_users(message, by_jobs)
    message.sha256 = model_sha256(message)
    return message
