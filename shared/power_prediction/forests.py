"""The trained part of the predictor, in the open array form, evaluated without any library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from shared.models.forest import Forest
from shared.power_prediction.submission import Submission, submission_row

Floats = NDArray[np.float64]

# What the forests say, in this order.
FOREST_PREDICTORS: Final = (
    "extra trees",
    "boosted trees",
    "mean of both",
    "user's tree",
    "user's forest",
)
# Of users that nobody trained: one for all.
NEW_USER: Final = ""


@dataclass(frozen=True, slots=True)
class UserModel:
    """As Borghesi et al. (2018), section 4.1: one user's jobs, by their submission alone."""

    tree: Forest
    forest: Forest


@dataclass(frozen=True, slots=True)
class Forests:
    """Log power, by forests over the rows of the history and by models of users.

    What a user's model says of a submission is remembered, since users submit the same again.
    """

    extra: Forest
    boosted: Forest
    users: Mapping[tuple[str, str], UserModel]
    _said: dict[tuple[object, ...], tuple[float, float]] = field(default_factory=dict, repr=False)

    def predict(self, jobs: Sequence[Submission], rows: Floats) -> Floats:
        """FOREST_PREDICTORS of jobs, ln W, shape (jobs, predictors)."""
        extra, boosted = self.extra.predict(rows), self.boosted.predict(rows)
        of_users = np.array([self._of_user(job) for job in jobs])
        return np.column_stack([extra, boosted, (extra + boosted) / 2, of_users])

    def _of_user(self, job: Submission) -> tuple[float, float]:
        user = (job.cluster, job.user)
        model = self.users.get(user) or self.users[(NEW_USER, NEW_USER)]
        row = submission_row(job)
        key = (*user, *row) if user in self.users else (*row,)
        if key not in self._said:
            if len(self._said) >= _MOST_REMEMBERED:
                self._said.clear()
            rows = np.array([row])
            said = float(model.tree.predict(rows)[0]), float(model.forest.predict(rows)[0])
            self._said[key] = said
        return self._said[key]


_MOST_REMEMBERED: Final = 100_000


class Trainer(Protocol):
    """Whoever grows trees; the learner only says on what, and when."""

    def __call__(self, jobs: Sequence[Submission], rows: Floats, log_w: Floats) -> Forests:
        """Forests of finished jobs in the order of their submission; rows (jobs, features)."""
        ...
