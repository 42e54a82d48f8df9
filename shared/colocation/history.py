"""What is known of applications from the pairs that they ran in.

A pair's own degradation must not predict itself. So all is said of one application *without* one
other: arrays have the shape (machines, application, application left out).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.colocation.measured import BUBBLES, Floats
from shared.numerics.elementary import exps

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# What other machines say of a neighbour's bubble counts as much as so many pairs of this one.
_OTHER_MACHINES: Final = 4.0
# So many targets that are most alike count most in an estimate.
_ALIKE: Final = 5
_LEAST_SCALE: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class PairHistory:
    """`columns` (machines, application, left out, columns) is what trees see of an application that
    is `known`, as a target and as a neighbour.

    The others estimate what a target suffers beside a neighbour whose other pairs are known, all of
    shape (machines, targets, neighbours): `like_bubble` under the bubble that the neighbour is
    like; `like_curves` from targets whose sensitivity is alike; `like_targets` from those that
    suffered alike beside others, which needs the target's other pairs too.
    """

    columns: Floats
    known: Mask
    like_bubble: Floats
    like_curves: Floats
    like_targets: Floats

    @classmethod
    def from_degradation(cls, degradation: Floats, curves: Floats) -> "PairHistory":
        """Return the history of T_co / T_alone - 1 (machines, targets, neighbours), NaN where it is
        not known.

        Mean degradation suffered and caused, on this machine and on all, and the bubble.
        """
        known = ~np.isnan(degradation)
        value = np.where(known, degradation, 0.0)
        suffered, suffered_anywhere = _means(value, known)
        caused, caused_anywhere = _means(value.swapaxes(1, 2), known.swapaxes(1, 2))
        bubble = _bubbles(value, known, curves)
        means = [suffered, suffered_anywhere, caused, caused_anywhere]
        columns = np.stack([*means, bubble / (BUBBLES - 1.0)], axis=3)
        machine = np.arange(len(degradation))[:, np.newaxis, np.newaxis]
        target = np.arange(degradation.shape[1])[:, np.newaxis]
        mean = caused.swapaxes(1, 2)
        return cls(
            columns=columns,
            known=np.asarray(~np.isnan(columns).any(axis=3)),
            like_bubble=curves[machine, target, bubble.swapaxes(1, 2)],
            like_curves=_like_targets(value, known, _curve_distances(curves), mean),
            like_targets=_like_targets(value, known, _distances(value, known), mean),
        )


def _curve_distances(curves: Floats) -> Floats:
    """Mean square between the curves of two targets, shape (machines, target, other, 1)."""
    apart = curves[:, :, np.newaxis, :] - curves[:, np.newaxis, :, :]
    return np.asarray(np.square(apart).mean(axis=3, keepdims=True))


def _distances(value: Floats, known: Mask) -> Floats:
    """Mean square between what two targets suffered beside the same neighbours without each one in
    turn, shape (machines, target, other, left out): half of this machine, half of all. Infinite
    where they had no neighbour in common."""
    both = known[:, :, np.newaxis, :] & known[:, np.newaxis, :, :]
    square = np.square(value[:, :, np.newaxis, :] - value[:, np.newaxis, :, :]) * both
    square = square.sum(axis=3, keepdims=True) - square
    count = both.sum(axis=3, keepdims=True) - both
    here = _ratio(square, count)
    everywhere = _ratio(square.sum(axis=0), count.sum(axis=0))
    found = (np.where(np.isnan(here), everywhere, here) + everywhere) / 2
    return np.where(np.isnan(found), np.inf, found)


def _like_targets(value: Floats, known: Mask, distance: Floats, mean: Floats) -> Floats:
    """Return what targets like this one suffered beside a neighbour, by weights e^(-distance /
    scale); the scale is half the distance to the fifth of those that had this neighbour. The mean
    where none had."""
    had = known[:, np.newaxis, :, :] & ~np.eye(value.shape[1], dtype=np.bool_)[:, :, np.newaxis]
    distance = np.where(had, distance, np.inf)
    fifth = np.sort(distance, axis=2)[:, :, min(_ALIKE, value.shape[1]) - 1, :]
    scale = np.where(np.isfinite(fifth), fifth, _finite_most(distance)) / 2 + _LEAST_SCALE
    weight = exps(-distance / scale[:, :, np.newaxis, :])
    total = weight.sum(axis=2)
    beside = (weight * value[:, np.newaxis, :, :]).sum(axis=2)
    return np.where(total > 0, beside / np.where(total > 0, total, 1.0), mean)


def _finite_most(distance: Floats) -> Floats:
    return np.asarray(np.where(np.isfinite(distance), distance, 0.0).max(axis=2))


def _means(value: Floats, known: Mask) -> tuple[Floats, Floats]:
    """Return row means of (machines, rows, columns) without each column in turn: of the machine,
    and of all machines. A machine without any of the row has what all say; NaN where none has."""
    total = value.sum(axis=2, keepdims=True) - value
    count = known.sum(axis=2, keepdims=True) - known
    everywhere = _ratio(total.sum(axis=0, keepdims=True), count.sum(axis=0, keepdims=True))
    everywhere = np.broadcast_to(everywhere, value.shape)
    here = _ratio(total, count)
    return np.where(np.isnan(here), everywhere, here), everywhere


def _ratio(total: Floats, count: Ints) -> Floats:
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _bubbles(value: Floats, known: Mask, curves: Floats) -> Ints:
    """Return the bubble under which the other targets would have suffered what they did beside each
    neighbour, by least squares over their curves, shape (machines, neighbour, target left out)."""
    error = np.square(value[:, :, :, np.newaxis] - curves[:, :, np.newaxis, :])
    error = np.where(known[:, :, :, np.newaxis], error, 0.0).swapaxes(1, 2)
    without = error.sum(axis=2, keepdims=True) - error
    by_target = known.swapaxes(1, 2)
    count = (by_target.sum(axis=2, keepdims=True) - by_target)[:, :, :, np.newaxis]
    pairs = np.maximum(count.sum(axis=0), 1)
    return np.asarray((without + _OTHER_MACHINES * without.sum(axis=0) / pairs).argmin(axis=3))
