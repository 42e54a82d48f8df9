"""What trees say of a job before it starts: the features that they are grown over, and a version.

The first features are of the submission alone, as Borghesi et al. (2018, section 4.1) name them;
the others are what jobs drew that have something in common with it. A row is kept as 32 bits a
feature, which is what trees compare.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import nan
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coplace_client.bounds import LOG_POWER
from shared.numerics.elementary import log
from shared.power_prediction.forests import FOREST_PREDICTORS, Forests, User
from shared.power_prediction.kinds import MOST_NEWEST, SHAPES, KindOfJob, SimilarPower
from shared.power_prediction.submission import (
    SUBMISSION_FEATURES,
    UNKNOWN,
    Submission,
    submission_row,
)

Floats = NDArray[np.float64]

SUBMITTED: Final = (*SUBMISSION_FEATURES, "shareable")
_NEWEST: Final = ("last", "2nd last", "3rd last", "4th last", "5th last")
_OF_A_SHAPE: Final = (
    *("mean of about 20", "mean of about 5", "mean of about 2", "median of 3", "median of 8"),
    *(*_NEWEST, "range of the newest", "log count"),
)
FEATURES: Final = (
    *SUBMITTED,
    *(f"{shape}: {what}" for shape in SHAPES for what in _OF_A_SHAPE),
)
_NOTHING: Final = (UNKNOWN,) * len(_OF_A_SHAPE)
# Of what features and trees mean: trees of another origin would be asked something else.
TREES_ORIGIN: Final = sha256(repr((FEATURES, MOST_NEWEST, FOREST_PREDICTORS)).encode()).digest()
_BITS: Final = np.dtype("<f4")


@dataclass(frozen=True, slots=True, eq=False)
class PowerTrees:
    """An immutable version."""

    version: str
    forests: Forests

    def said(self, users: Sequence[User], rows: Sequence[str]) -> Floats:
        """Return FOREST_PREDICTORS of packed rows, ln W, shape (rows, predictors): what a node can
        draw, whatever a tree says."""
        said = self.forests.predict(users, unpack(rows))
        return np.clip(said, LOG_POWER.least, LOG_POWER.most)


def user_of(kind: KindOfJob) -> User:
    """Return the user whose model a kind of jobs is of: on nodes of a model at a P-state."""
    return kind.where, kind.user


def row_of(kind: KindOfJob, similar: Sequence[SimilarPower | None]) -> str:
    """Pack FEATURES of a kind of jobs; `similar` of each of SHAPES."""
    row = [*_submitted(kind)]
    for each in similar:
        row += _of_shape(each) if each else _NOTHING
    return b64encode(np.array(row, dtype=_BITS).tobytes()).decode()


def unpack(rows: Sequence[str]) -> Floats:
    """Unpack rows as features, shape (rows, FEATURES)."""
    found = np.frombuffer(b"".join(map(b64decode, rows)), dtype=_BITS)
    return found.reshape(len(rows), len(FEATURES)).astype(np.float64)


def _of_shape(similar: SimilarPower) -> list[float]:
    newest = [*similar.newest, *(UNKNOWN,) * len(_NEWEST)]
    spread = max(similar.newest) - min(similar.newest)
    middle = similar.statistics()[:5]
    return [*middle, *newest[: len(_NEWEST)], spread, log(similar.jobs)]


class _Size(NamedTuple):
    units: float
    cores: float
    devices: float
    shareable: float


def _submitted(kind: KindOfJob) -> list[float]:
    size = _size(kind.size)
    asked = Submission(
        job_id="",
        user=kind.user,
        nodes=size.units,
        walltime_s=kind.walltime_s,
        cores=size.cores * size.units,
        gpus=size.devices * size.units,
    )
    return [*submission_row(asked), size.shareable]


def _size(words: str) -> _Size:
    """Return what the words say of a unit; of a digest nothing."""
    counts = re.findall(r"(?:^|, )(\d+(?:\.\d+)?) (\w+)", words)
    units, *others = [(float(count), name) for count, name in counts] or [(nan, "")]
    cores = sum(count for count, name in others if name == "cores")
    devices = sum(count for count, name in others if name != "cores")
    return _Size(units[0], cores or nan, devices, float("shareable" in words))
