"""Charges as they stand in the ledger, and how anybody computes them again."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade, InterferenceEvidence

from services.pricing.model import Evidence, Occupied, Price, price
from shared.domain.errors import RejectedError
from shared.messaging.domain_types import cores_of, suspensions

# More than any job costs, and few enough that integer accounts of 0.000001 SU cannot overflow.
_MOST_SU: Final = Decimal(10**12)
# Beyond these no charge of ours can lie, and no microsecond is lost in a double.
_MOST_S: Final = 4e9
_MOST_RATIO: Final = 1e10


def usage_of(finished: JobFinished) -> Occupied:
    """What a finished job occupied. Raises RejectedError."""
    times_us = finished.started_at_us, finished.ended_at_us
    return Occupied(cores_of(finished), *times_us, suspensions(finished))


def charge_message(
    finished: JobFinished,
    revision: int,
    rate_su_per_core_s: Decimal,
    rows: Sequence[Evidence],
    charged_at_us: int,
) -> ChargeMade:
    """The charge for a finished attempt with all that reproduces it."""
    usage = usage_of(finished)
    priced = price(rate_su_per_core_s, usage.cores, usage.runtime_us, rows)
    return ChargeMade(
        job_id=finished.job_id,
        attempt=finished.attempt,
        revision=revision,
        user=finished.user,
        account=finished.account,
        cluster=finished.cluster,
        price_su=f"{priced.price_su:f}",
        state_of_practice_su=f"{priced.state_of_practice_su:f}",
        rate_su_per_core_s=f"{rate_su_per_core_s:f}",
        cores=usage.cores,
        runtime_s=usage.runtime_us / 1e6,
        solo_time_s=priced.solo_time_s,
        slowdown_ratio=priced.slowdown_ratio,
        evidence=[_evidence_message(row) for row in rows],
        charged_at_us=charged_at_us,
    )


def _evidence_message(row: Evidence) -> InterferenceEvidence:
    return InterferenceEvidence(
        co_runner_job_id=row.co_runner_job_id,
        duration_s=row.duration_us / 1e6,
        slowdown_ratio=row.slowdown_ratio,
        shutters_used=row.shutters_used,
        shutters_dropped=row.shutters_dropped,
        co_runners=row.co_runners if row.co_runners > 1 else 0,
    )


def recompute(charge: ChargeMade) -> Price:
    """The price that a charge's own evidence gives. Raises RejectedError where it gives none."""
    runtime_us = _microseconds("runtime_s", charge.runtime_s)
    rows = [_evidence(row) for row in charge.evidence]
    if sum(row.duration_us for row in rows) > runtime_us:
        raise RejectedError("evidence", f"must not last longer than the {charge.runtime_s} s run")
    rate = _decimal("rate_su_per_core_s", charge.rate_su_per_core_s)
    return price(rate, charge.cores, runtime_us, rows)


def audit(charge: ChargeMade) -> None:
    """Raise RejectedError unless the charge's evidence reproduces its price to the last digit."""
    again = recompute(charge)
    for field in ("price_su", "state_of_practice_su"):
        charged, computed = _decimal(field, getattr(charge, field)), getattr(again, field)
        if charged != computed:
            raise RejectedError(field, f"is {charged}, the evidence gives {computed}")


def _evidence(row: InterferenceEvidence) -> Evidence:
    if not 1 <= row.slowdown_ratio <= _MOST_RATIO:
        raise RejectedError("evidence", f"slowdown ratios lie from 1 to {_MOST_RATIO}")
    duration_us = _microseconds("evidence", row.duration_s)
    return Evidence(row.co_runner_job_id, duration_us, row.slowdown_ratio)


def _microseconds(field: str, duration_s: float) -> int:
    if not 0 <= duration_s <= _MOST_S:
        raise RejectedError(field, f"must be from 0 to {_MOST_S} s, got {duration_s!r}")
    return round(duration_s * 1e6)


def _decimal(field: str, text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise RejectedError(field, f"must be a decimal, got {text[:40]!r}") from None
    if not (value.is_finite() and 0 <= value <= _MOST_SU):
        raise RejectedError(field, f"must be from 0 to {_MOST_SU}, got {text[:40]!r}")
    return value
