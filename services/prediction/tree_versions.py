"""Versions of the trees of power: grown, held to those in force, and put into force.

A version is grown of the newest jobs that were predicted, and evaluated in the shadow of the one in
force on jobs that ended later, which neither had seen: it takes its place where it errs less.
Operators may pin a version, or go back to the one before.
"""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version as version_of
from typing import Any, Final, NamedTuple

import numpy as np
from coplace.v1.prediction_pb2 import PowerTreesChosen, PowerTreesJudged, PowerTreesPublished

from services.prediction.power_trees import Growth, train_forests
from services.prediction.publish import SOURCE, trees_event
from shared.domain.errors import RejectedError
from shared.messaging.digest import model_sha256
from shared.messaging.event import Publish
from shared.messaging.power_trees import data_sha256, trees_of, with_models_of_users
from shared.messaging.regression_trees import packed
from shared.messaging.stage import Round
from shared.messaging.table import Table
from shared.numerics.elementary import exps, logs
from shared.power_prediction.forests import MEAN_OF_BOTH
from shared.power_prediction.online import JudgedPrediction, OnlineLearner
from shared.power_prediction.trees import SUBMITTED, TREES, TREES_ORIGIN, PowerTrees, unpacked

# Small enough for a record, and for a round: about 1.6 s of 10,000 jobs.
GROWTH: Final = Growth(12, 9, 40, 6, 6, 5)
# Grown of so many jobs first, then whenever there are as much more as this share, or this many.
FIRST_TRAINING: Final = 300
GROWN_SHARE: Final = 0.3
MOST_UNTRAINED: Final = 3_000
# Jobs that a version is held to in the shadow.
SHADOWED: Final = 200
# Versions that can be put into force again.
MOST_VERSIONS: Final = 5
_CHOICE: Final = "choice"
_NOTHING: Final = "what similar jobs drew, alone"


Said = PowerTreesPublished | PowerTreesJudged | PowerTreesChosen


class Wish(NamedTuple):
    """What somebody wants in force from the end of the round on, and why."""

    version: str
    who: str
    reason: str
    is_pinned: bool


class TreesChoice(NamedTuple):
    """Versions in force and in its shadow, by name, empty where there is none; those that were in
    force before, the newest last; how far the shadow is: jobs, and sums of its errors and of those
    of what is in force; and the number of the job at which trees were grown last."""

    in_force: str = ""
    shadow: str = ""
    former: tuple[str, ...] = ()
    is_pinned: bool = False
    jobs: int = 0
    errors: float = 0.0
    errors_in_force: float = 0.0
    grown_at: int = 0
    wish: Wish | None = None


class TreeVersions:
    """Folds what came of predictions; says at the end of a round what is published of it."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._versions = Table("power-trees", restored, _packed, _unpacked)
        self._choices = Table("power-trees-choice", restored, list, _choice)
        self._choice = self._choices.get(_CHOICE) or TreesChoice()
        self._forget_other_origin()
        self.in_force = self._evaluated(self._choice.in_force)
        self._shadow = self._evaluated(self._choice.shadow)

    def pin(self, version: str, who: str, reason: str) -> None:
        """Want a version in force, and to stay; empty: want what is in force to stay no longer.
        Raises RejectedError for one that is not known any more."""
        if version and version not in self._versions:
            known = ", ".join(key for key, _ in self._versions.items()) or "none"
            raise RejectedError("version", f"must be one of those that are kept: {known}")
        wish = Wish(version or self._wanted, who, reason, is_pinned=bool(version))
        self._choose(self._choice._replace(wish=wish))

    def roll_back(self, who: str, reason: str) -> None:
        """Want what was in force before. Raises RejectedError where nothing was."""
        if not self._choice.in_force:
            raise RejectedError("model", f"{TREES}: no version is in force")
        before = self._choice.former[-1] if self._choice.former else ""
        self._choose(self._choice._replace(wish=Wish(before, who, reason, is_pinned=False)))

    def end_round(
        self,
        judged: Sequence[JudgedPrediction],
        learner: OnlineLearner,
        ended: Round,
    ) -> list[Publish]:
        """Hold the shadow to the round's jobs, replace what is in force where it is better or
        somebody wants it, and grow the next version of the newest jobs when it is due. What is in
        force predicts for the learner from here on."""
        published: list[Said] = self._hold_to(judged)
        published += self._put_wish_into_force()
        learner.tables.take_trees(self.in_force)
        if self._is_due(learner.progress.judged):
            examples = learner.examples
            published += [self._grow(examples)] if len(examples) >= FIRST_TRAINING else []
        self._forget()
        return [trees_event(each, ended) for each in published]

    def changes(self) -> dict[str, bytes | None]:
        """Records of what changed since the last call."""
        return self._versions.changes() | self._choices.changes()

    @property
    def _wanted(self) -> str:
        return self._choice.wish.version if self._choice.wish else self._choice.in_force

    def _hold_to(self, judged: Sequence[JudgedPrediction]) -> list[Said]:
        """Jobs that what is in force now predicted, and of which the shadow knows nothing: it was
        grown before they ended."""
        fair = [each for each in judged if each.row and each.trees == self._choice.in_force]
        if self._shadow is None or not fair:
            return []
        said = self._shadow.said([each.of_user for each in fair], [each.row for each in fair])
        said_w = exps(said[:, MEAN_OF_BOTH])
        choice = self._choice
        for each, power_w in zip(fair, said_w.tolist(), strict=True):
            choice = choice._replace(
                jobs=choice.jobs + 1,
                errors=choice.errors + abs(power_w / each.power_w - 1),
                errors_in_force=choice.errors_in_force + each.trees_error,
            )
        self._choose(choice)
        return self._judge() if choice.jobs >= SHADOWED else []

    def _judge(self) -> list[Said]:
        """Put the shadow into force where it errs less, unless what is there is pinned; else it is
        let go of."""
        choice = self._choice
        error, error_in_force = choice.errors / choice.jobs, choice.errors_in_force / choice.jobs
        judged = PowerTreesJudged(
            version=choice.shadow,
            in_force=choice.in_force,
            jobs=choice.jobs,
            error=error,
            error_in_force=error_in_force,
            is_better=error < error_in_force,
        )
        self._let_shadow_go()
        if not judged.is_better or choice.is_pinned or choice.wish is not None:
            return [judged]
        than = f"{choice.in_force or _NOTHING} {100 * error_in_force:.2f} %"
        reason = f"{100 * error:.2f} % error of {choice.jobs} jobs that neither had seen, {than}"
        wish = Wish(choice.shadow, SOURCE, reason, is_pinned=False)
        self._choose(self._choice._replace(wish=wish))
        return [judged]

    def _put_wish_into_force(self) -> list[Said]:
        choice, wish = self._choice, self._choice.wish
        if wish is None:
            return []
        former = choice.former
        if wish.version != choice.in_force:
            goes_back = bool(former) and former[-1] == wish.version
            former = former[:-1] if goes_back else (*former, choice.in_force)
        chosen = choice._replace(in_force=wish.version, former=former, is_pinned=wish.is_pinned)
        self._choose(chosen._replace(wish=None))
        self._let_shadow_go()
        self.in_force = self._evaluated(wish.version)
        trees = self._versions.get(wish.version)
        return [
            PowerTreesChosen(
                version=wish.version,
                trees=trees,
                is_pinned=wish.is_pinned,
                who=wish.who,
                reason=wish.reason,
            )
        ]

    def _let_shadow_go(self) -> None:
        """What was to be compared with something else is compared with nothing."""
        cleared = self._choice._replace(shadow="", jobs=0, errors=0.0, errors_in_force=0.0)
        self._choose(cleared)
        self._shadow = None

    def _is_due(self, judged: int) -> bool:
        if self._choice.shadow or judged < FIRST_TRAINING:
            return False
        least = min(GROWN_SHARE * self._choice.grown_at, MOST_UNTRAINED)
        return judged - self._choice.grown_at >= least

    def _grow(self, examples: Sequence[JudgedPrediction]) -> PowerTreesPublished:
        """The next version, which is in the shadow from here on."""
        message, number = grown(examples), examples[-1].number
        self._versions.put(message.version, message)
        self._let_shadow_go()
        self._choose(self._choice._replace(shadow=message.version, grown_at=number))
        self._shadow = trees_of(message)
        return message

    def _forget(self) -> None:
        """Keep what is in force, in its shadow, what was in force, and of the others the newest."""
        choice = self._choice
        if len(self._versions) <= MOST_VERSIONS:
            return
        used = {choice.in_force, choice.shadow}
        others = [each for each in self._versions.values() if each.version not in used]
        others.sort(key=lambda each: (each.version in choice.former, each.newest_job))
        for each in others[: len(self._versions) - MOST_VERSIONS]:
            self._versions.drop(each.version)
        kept = tuple(each for each in choice.former if not each or each in self._versions)
        self._choose(choice._replace(former=kept))

    def _evaluated(self, version: str) -> PowerTrees | None:
        message = self._versions.get(version)
        return trees_of(message) if message else None

    def _choose(self, choice: TreesChoice) -> None:
        self._choice = choice
        self._choices.put(_CHOICE, choice)

    def _forget_other_origin(self) -> None:
        """Trees that another version grew are of features that mean something else here."""
        items = list(self._versions.items())
        foreign = [key for key, message in items if message.origin != TREES_ORIGIN]
        for key in foreign:
            self._versions.drop(key)
        if foreign:
            self._choose(TreesChoice())


def grown(examples: Sequence[JudgedPrediction]) -> PowerTreesPublished:
    """Trees of jobs in the order of their numbers."""
    users, rows = [each.of_user for each in examples], [each.row for each in examples]
    powers_w = [each.power_w for each in examples]
    forests = train_forests(users, unpacked(rows), logs(np.array(powers_w)), GROWTH, len(SUBMITTED))
    message = PowerTreesPublished(
        version=f"{TREES}@{examples[-1].number}",
        origin=TREES_ORIGIN,
        data_sha256=data_sha256(users, rows, powers_w),
        code_version=version_of("coplace"),
        trained_jobs=len(examples),
        newest_job=examples[-1].number,
        extra=packed(forests.extra),
        boosted=packed(forests.boosted),
    )
    jobs = Counter(users)
    by_jobs = sorted(forests.users.items(), key=lambda each: (-jobs[each[0]], each[0]))
    with_models_of_users(message, by_jobs)
    message.sha256 = model_sha256(message)
    return message


def _packed(message: PowerTreesPublished) -> str:
    return b64encode(message.SerializeToString(deterministic=True)).decode()


def _unpacked(value: str) -> PowerTreesPublished:
    return PowerTreesPublished.FromString(b64decode(value))


def _choice(value: list[Any]) -> TreesChoice:
    choice = TreesChoice(*value)
    wish = Wish(*choice.wish) if choice.wish else None
    return choice._replace(former=tuple(choice.former), wish=wish)
