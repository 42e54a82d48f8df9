"""The trained part of the predictor, in the open array form, evaluated without any library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from shared.models.forest import Forest

Floats = NDArray[np.float64]

# What the forests say, in this order.
FOREST_PREDICTORS: Final = (
    "extra trees",
    "boosted trees",
    "mean of both",
    "user's tree",
    "user's forest",
)
MEAN_OF_BOTH: Final = FOREST_PREDICTORS.index("mean of both")
# A user on a cluster, or on nodes of a model at a P-state.
User = tuple[str, str]
# Of users that nobody trained: one for all.
NEW_USER: Final[User] = ("", "")


@dataclass(frozen=True, slots=True)
class UserModel:
    """As Borghesi et al. (2018), section 4.1: one user's jobs, by their submission alone."""

    tree: Forest
    forest: Forest


@dataclass(frozen=True, slots=True)
class Forests:
    """Log power, by forests over all features of rows and by models of users over the first of
    them, which are of the submission.

    What a user's model says of a submission is remembered, since users submit the same again.
    """

    extra: Forest
    boosted: Forest
    users: Mapping[User, UserModel]
    submitted: int
    _said: dict[tuple[User, bytes], tuple[float, float]] = field(default_factory=dict, repr=False)

    def predict(self, users: Sequence[User], rows: Floats) -> Floats:
        """Return FOREST_PREDICTORS of jobs of these users, ln W, shape (jobs, predictors)."""
        extra, boosted = self.extra.predict(rows), self.boosted.predict(rows)
        submitted = rows[:, : self.submitted]
        of_users = np.array([self._of_user(*each) for each in zip(users, submitted, strict=True)])
        return np.column_stack([extra, boosted, (extra + boosted) / 2, of_users])

    def _of_user(self, user: User, submitted: Floats) -> tuple[float, float]:
        of = user if user in self.users else NEW_USER
        key = of, submitted.tobytes()
        if key not in self._said:
            if len(self._said) >= _MOST_REMEMBERED:
                self._said.clear()
            model, rows = self.users[of], submitted[np.newaxis]
            said = float(model.tree.predict(rows)[0]), float(model.forest.predict(rows)[0])
            self._said[key] = said
        return self._said[key]


_MOST_REMEMBERED: Final = 100_000


class Trainer(Protocol):
    """Whoever grows trees; the learner only says on what, and when."""

    def __call__(self, users: Sequence[User], rows: Floats, log_w: Floats) -> Forests:
        """Forests of finished jobs in the order of their submission; rows (jobs, features)."""
        ...
