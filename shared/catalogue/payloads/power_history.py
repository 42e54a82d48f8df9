"""Rows of the predictor of job power as messages, and back."""

from math import inf, isinf

from coplace.v1.prediction_pb2 import PowerHistoryUpdated, PowerMargin, SimilarJobsPower

from coplace_client.errors import RejectedError
from shared.catalogue.digest import model_sha256
from shared.power_prediction.bound import SPREAD_GROUPS, Margin
from shared.power_prediction.kinds import MEMORIES, MOST_NEWEST, SHAPES, KindOfJob, SimilarPower
from shared.power_prediction.online import RecentScores, TaughtKind
from shared.power_prediction.similar_jobs import (
    HISTORY,
    ORIGIN,
    PREDICTORS,
    PowerBound,
    PowerUpdate,
)


def updated(taught: TaughtKind, learned_jobs: int, scores: RecentScores) -> PowerHistoryUpdated:
    """Return a version: the rows that finished jobs of a kind replaced."""
    update, bound = taught.update, taught.update.bound
    message = PowerHistoryUpdated(
        **update.kind._asdict(),
        version=f"{HISTORY}@{update.number}",
        origin=ORIGIN,
        number=update.number,
        similar=[_row(similar) for similar in update.similar],
        alpha=bound.alpha,
        highest_power_w=0.0 if isinf(bound.highest_w) else bound.highest_w,
        spreads_w=bound.spreads_w,
        margins=[PowerMargin(**margin._asdict()) for margin in bound.margins],
        job_ids=[job_id for job_id, _ in taught.jobs],
        powers_w=[power_w for _, power_w in taught.jobs],
        learned_jobs=learned_jobs,
        recent_error=scores.error,
        recent_above_share=scores.above_share,
    )
    message.sha256 = model_sha256(message)
    return message


def update_of(message: PowerHistoryUpdated) -> PowerUpdate:
    """Return the rows. Raises RejectedError for those that mean something else here, or nothing."""
    if message.origin != ORIGIN:
        raise RejectedError(
            "origin", f"of {message.version} must be {ORIGIN.hex()}, that of this version"
        )
    _require(message)
    bound = PowerBound(
        alpha=message.alpha,
        highest_w=message.highest_power_w or inf,
        spreads_w=tuple(message.spreads_w),
        margins=tuple(Margin(each.above_w, each.above_share) for each in message.margins),
    )
    similar = tuple(_similar(each) if each.count else None for each in message.similar)
    return PowerUpdate(message.number, kind_of(message), similar, bound)


def kind_of(message: PowerHistoryUpdated) -> KindOfJob:
    """Return the kind of jobs that it is of."""
    return KindOfJob(*(getattr(message, name) for name in KindOfJob._fields))


def _row(similar: SimilarPower | None) -> SimilarJobsPower:
    if similar is None:
        return SimilarJobsPower()
    return SimilarJobsPower(
        count=similar.jobs,
        mean_log_w=similar.means,
        newest_log_w=similar.newest,
        losses=similar.losses,
    )


def _similar(row: SimilarJobsPower) -> SimilarPower:
    return SimilarPower(
        row.count, tuple(row.mean_log_w), tuple(row.newest_log_w), tuple(row.losses)
    )


def _require(message: PowerHistoryUpdated) -> None:
    """As many of everything as the tables have; the last shape, of all jobs, has a row always."""
    if len(message.similar) != len(SHAPES) or not message.similar[-1].count:
        raise RejectedError("similar", f"must hold {len(SHAPES)} rows, of which the last is known")
    for row in message.similar:
        if row.count:
            _require_row(row)
    if len(message.spreads_w) not in (0, SPREAD_GROUPS - 1):
        raise RejectedError("spreads_w", f"must hold none or {SPREAD_GROUPS - 1}")
    if len(message.margins) != SPREAD_GROUPS + 1:
        raise RejectedError("margins", f"must hold {SPREAD_GROUPS + 1}")
    if len(message.job_ids) != len(message.powers_w):
        raise RejectedError("powers_w", "must be as many as job_ids")


def _require_row(row: SimilarJobsPower) -> None:
    if len(row.mean_log_w) != len(MEMORIES) or not 0 < len(row.newest_log_w) <= MOST_NEWEST:
        raise RejectedError("similar", f"must hold {len(MEMORIES)} means and newest powers")
    if len(row.losses) not in (0, len(PREDICTORS)):
        raise RejectedError("similar.losses", f"must hold one of each of {len(PREDICTORS)}")
