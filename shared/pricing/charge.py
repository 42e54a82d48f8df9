"""Charges as they are published, and how anybody computes them again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Final, NamedTuple

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import (
    CHARGE_REASON_ALONE,
    CHARGE_REASON_IMPLAUSIBLE,
    CHARGE_REASON_MEASURED,
    CHARGE_REASON_NEVER_STARTED,
    CHARGE_REASON_NO_RUN_TIME,
    CHARGE_REASON_NO_USABLE_SHUTTER,
    CHARGE_REASON_NODE_FAILED,
    CHARGE_REASON_REQUEUED,
    ENERGY_REASON_IMPLAUSIBLE,
    ENERGY_REASON_PREDICTED,
    ChargeLine,
    ChargeMade,
    ChargeReason,
    InterferenceEvidence,
)
from coplace.v1.tariffs_pb2 import (
    PRICE_MODEL_FAIR,
    PRICE_MODEL_RATE_FUNCTION,
    PriceModel,
    RatePoint,
)

from coplace_client.bounds import WALLTIME_S
from coplace_client.errors import RejectedError
from coplace_client.millicores import beside_cores, exact_cores, millicores, whole_cores
from coplace_client.numbers import amount
from shared.catalogue.payloads.domain_types import millicores_of, suspensions
from shared.catalogue.payloads.tariffs import NAMED_FUNCTIONS, function_of, surcharge_of
from shared.domain.money import micro_units, service_units, su_text
from shared.domain.plausible_power import most_energy_j
from shared.domain.tariff import ENERGY, PriceTariff
from shared.pricing.model import Evidence, Occupied, Price, price
from shared.pricing.rating import RatedAmount, amounts, rated_price
from shared.pricing.surcharging import surcharges_micro_su

# More than any job costs, and few enough that integer accounts of 0.000001 SU cannot overflow.
_MOST_SU: Final = Decimal(10**12)
# Beyond these no charge of ours can lie, and no microsecond is lost in a double.
_MOST_S: Final = 4e9
_MOST_RATIO: Final = 1e10
_MOST_QUANTITY: Final = Decimal(10**20)
# A run that lasted longer is a clock that was stepped.
_LONGEST_RUN_US: Final = round(WALLTIME_S.most * 1e6)
# Who pays for these is the operator.
_FREE: Final = frozenset(
    {
        CHARGE_REASON_NEVER_STARTED,
        CHARGE_REASON_NO_RUN_TIME,
        CHARGE_REASON_IMPLAUSIBLE,
        CHARGE_REASON_NODE_FAILED,
        CHARGE_REASON_REQUEUED,
    }
)


@dataclass(frozen=True)
class AttemptEnd:
    """A finish, and what else is known of how the attempt ended; `most_node_w` is what a node draws
    at most, W, 0 where energy is believed as it was reported, and `predicted_j` the energy that was
    predicted where what was reported is not believed, 0 where none was."""

    finished: JobFinished
    node_failed: bool = False
    requeued: bool = False
    most_node_w: float = 0.0
    predicted_j: float = 0.0

    @property
    def has_absurd_energy(self) -> bool:
        """Return whether more energy was reported than its nodes can draw."""
        run_s, nodes = self.usage.runtime_us / 1e6, max(1, self.finished.nodes)
        most_j = most_energy_j(self.most_node_w, nodes, run_s)
        return bool(self.most_node_w) and self.finished.energy_j > most_j

    @cached_property
    def usage(self) -> Occupied:
        """Return what it occupied. Raises RejectedError."""
        return usage_of(self.finished)


@dataclass(frozen=True, slots=True)
class ChargeRevision:
    """Which charge of an attempt it is, when it was made, and until when periods were closed."""

    revision: int
    charged_at_us: int
    closed_until_us: int = 0


def usage_of(finished: JobFinished) -> Occupied:
    """Return what a finished job occupied. Raises RejectedError."""
    times_us = finished.started_at_us, finished.ended_at_us
    return Occupied(millicores_of(finished), *times_us, suspensions(finished))


def charge_message(
    end: AttemptEnd, made: ChargeRevision, terms: Decimal | PriceTariff, rows: Sequence[Evidence]
) -> ChargeMade:
    """Return the charge for a finished attempt with all that reproduces it: by a tariff or, where
    none is declared, by the rate of a core and second alone, fair."""
    finished, usage = end.finished, end.usage
    charge = ChargeMade(
        job_id=finished.job_id,
        attempt=finished.attempt,
        revision=made.revision,
        user=finished.user,
        account=finished.account,
        cluster=finished.cluster,
        cores=whole_cores(usage.millicores),
        millicores=beside_cores(usage.millicores),
        runtime_s=usage.runtime_us / 1e6,
        evidence=[_evidence_message(row) for row in rows],
        charged_at_us=made.charged_at_us,
        booked_at_us=max(finished.ended_at_us, made.closed_until_us),
        finished=finished,
        node_failed=end.node_failed or bool(finished.failed_nodes),
        requeued=end.requeued,
    )
    del charge.finished.failed_nodes[:]
    charge.reason = reason_of(charge, usage, terms, rows)
    _put_terms(charge, end, terms)
    priced = recompute(charge)
    if priced.state_of_practice_su > _MOST_SU:
        charge.reason = CHARGE_REASON_IMPLAUSIBLE
        priced = recompute(charge)
    charge.price_su = f"{priced.price_su:f}"
    charge.state_of_practice_su = f"{priced.state_of_practice_su:f}"
    charge.solo_time_s = priced.solo_time_s
    charge.slowdown_ratio = priced.slowdown_ratio
    for row, micro_su in zip(charge.evidence, _surcharges(charge, priced), strict=True):
        row.surcharge_su = su_text(micro_su) if micro_su else ""
    return charge


def end_of(charge: ChargeMade) -> AttemptEnd:
    """Return what a charge was made of."""
    told = charge.finished, charge.node_failed, charge.requeued
    return AttemptEnd(*told, charge.most_node_power_w, charge.predicted_energy_j)


def reason_of(
    charge: ChargeMade, usage: Occupied, terms: Decimal | PriceTariff, rows: Sequence[Evidence]
) -> ChargeReason.ValueType:
    """Return why the price is as it is; the first reason that applies."""
    if not usage.started_at_us:
        return CHARGE_REASON_NEVER_STARTED
    if usage.ended_at_us - usage.started_at_us > _LONGEST_RUN_US:
        return CHARGE_REASON_IMPLAUSIBLE
    if not usage.runtime_us:
        return CHARGE_REASON_NO_RUN_TIME
    if isinstance(terms, PriceTariff) and charge.node_failed and terms.operator_pays_failures:
        return CHARGE_REASON_NODE_FAILED
    if isinstance(terms, PriceTariff) and charge.requeued and terms.operator_pays_requeues:
        return CHARGE_REASON_REQUEUED
    if not rows:
        return CHARGE_REASON_ALONE
    is_measured = any(row.shutters_used for row in rows)
    return CHARGE_REASON_MEASURED if is_measured else CHARGE_REASON_NO_USABLE_SHUTTER


def model_of(tariff: PriceTariff) -> PriceModel.ValueType:
    """Return the model that a tariff's rate function is of."""
    named = (model for model, each in NAMED_FUNCTIONS.items() if each == tariff.function)
    return next(named, PRICE_MODEL_RATE_FUNCTION)


def _put_terms(charge: ChargeMade, end: AttemptEnd, terms: Decimal | PriceTariff) -> None:
    """By what it is charged; energy that nobody can have drawn as predicted, or by nothing."""
    if isinstance(terms, Decimal):
        charge.model, charge.rate_su_per_core_s = PRICE_MODEL_FAIR, f"{terms:f}"
        return
    charge.model, charge.tariff, charge.tariff_version = model_of(terms), terms.name, terms.version
    found = amounts(terms, charge.finished, end.usage, end.finished.energy_j)
    if end.predicted_j:
        instead = amounts(terms, charge.finished, end.usage, end.predicted_j)
        if _has_energy(found) or _has_energy(instead):
            charge.energy_reason = ENERGY_REASON_PREDICTED
            charge.predicted_energy_j = end.predicted_j
        found = instead
    elif end.has_absurd_energy and _has_energy(found):
        charge.energy_reason = ENERGY_REASON_IMPLAUSIBLE
        charge.most_node_power_w = end.most_node_w
        found = tuple(one for one in found if one.resource != ENERGY)
    charge.lines.extend(
        ChargeLine(resource=one.resource, quantity=f"{one.quantity:f}", su=f"{one.su:f}")
        for one in found
    )
    if charge.model == PRICE_MODEL_RATE_FUNCTION and terms.function is not None:
        charge.points.extend(
            RatePoint(solo_share=f"{share:f}", factor=f"{factor:f}")
            for share, factor in terms.function.points
        )
    if terms.surcharge is not None:
        most_su = terms.surcharge.most_su_per_hour
        charge.surcharge_share = f"{terms.surcharge.share:f}"
        charge.surcharge_most_su = "" if most_su is None else f"{most_su:f}"
    if terms.unit_cost is not None:
        charge.currency, charge.su_cost = terms.unit_cost.currency, f"{terms.unit_cost.su_cost:f}"


def _has_energy(found: Sequence[RatedAmount]) -> bool:
    return any(one.resource == ENERGY for one in found)


def is_borne(reason: ChargeReason.ValueType) -> bool:
    """Return whether the operator bears the run, so that it costs nothing whoever ran beside it."""
    return reason in _FREE


def _borne(found: Price, reason: ChargeReason.ValueType) -> Price:
    """What the operator bears of it is taken off."""
    if not is_borne(reason):
        return found
    zero = service_units(Decimal(0))
    in_full = zero if reason == CHARGE_REASON_IMPLAUSIBLE else found.state_of_practice_su
    return Price(zero, in_full, found.solo_time_s, found.slowdown_ratio)


def _lines(charge: ChargeMade) -> list[RatedAmount]:
    """Raises RejectedError."""
    return [
        RatedAmount(
            line.resource,
            _decimal("lines.quantity", line.quantity, _MOST_QUANTITY),
            _decimal("lines.su", line.su),
        )
        for line in charge.lines
    ]


def _evidence_message(row: Evidence) -> InterferenceEvidence:
    return InterferenceEvidence(
        co_runner_job_id=row.co_runner_job_id,
        duration_s=row.duration_us / 1e6,
        slowdown_ratio=row.slowdown_ratio,
        shutters_used=row.shutters_used,
        shutters_dropped=row.shutters_dropped,
        co_runners=row.co_runners if row.co_runners > 1 else 0,
        co_runner_account=row.co_runner_account,
    )


def recompute(charge: ChargeMade) -> Price:
    """Return the price that a charge's own evidence gives: by its model and lines under a tariff,
    by its rate without one. Raises RejectedError where it gives none."""
    runtime_us = _microseconds("runtime_s", charge.runtime_s)
    rows = evidence_of(charge)
    if sum(row.duration_us for row in rows) > runtime_us:
        raise RejectedError("evidence", f"must not last longer than the {charge.runtime_s} s run")
    if charge.tariff:
        function = function_of(charge.model, charge.points)
        found = rated_price(_lines(charge), function, runtime_us, rows)
    else:
        rate = _decimal("rate_su_per_core_s", charge.rate_su_per_core_s)
        found = price(rate, charged_cores(charge), runtime_us, rows)
    return _borne(found, charge.reason)


def charged_cores(charge: ChargeMade) -> Decimal:
    """Return the cores that a charge is of, exactly."""
    return exact_cores(millicores(charge.cores, charge.millicores))


def audit(charge: ChargeMade) -> None:
    """Raise RejectedError unless the charge's evidence reproduces its price to the last digit."""
    again = recompute(charge)
    for field in ("price_su", "state_of_practice_su"):
        charged, computed = _decimal(field, getattr(charge, field)), getattr(again, field)
        if charged != computed:
            raise RejectedError(field, f"is {charged}, the evidence gives {computed}")
    told = [micro_units(each) for each in _surcharges_su(charge)]
    if told != (found := _surcharges(charge, again)):
        problem = f"are {told}, the evidence gives {found} (0.000001 SU)"
        raise RejectedError("evidence.surcharge_su", problem)


class ChargedSurcharge(NamedTuple):
    """What a charge puts on the account of a co-runner for having slowed its run down."""

    account: str
    co_runner_job_id: str
    su: Decimal


def surcharges_of(charge: ChargeMade) -> Iterator[ChargedSurcharge]:
    """Yield the surcharges of a charge, as it says. Raises RejectedError."""
    for row, su in zip(charge.evidence, _surcharges_su(charge), strict=True):
        if su:
            yield ChargedSurcharge(row.co_runner_account, row.co_runner_job_id, su)


def charged_micro_su(charge: ChargeMade) -> list[tuple[str, int]]:
    """Return the amount of a charge for each account, 0.000001 SU: first its own, then those that
    it surcharges, one for each co-runner. Raises RejectedError."""
    surcharged = [(each.account, micro_units(each.su)) for each in surcharges_of(charge)]
    return [(charge.account, micro_units(Decimal(charge.price_su))), *surcharged]


def _surcharges_su(charge: ChargeMade) -> list[Decimal]:
    return [_decimal("evidence.surcharge_su", row.surcharge_su or "0") for row in charge.evidence]


def _surcharges(charge: ChargeMade, priced: Price) -> list[int]:
    """What the charge's own evidence and terms give for each row, 0.000001 SU. What the operator
    bears of a run is nobody's."""
    surcharge = surcharge_of(charge.surcharge_share, charge.surcharge_most_su)
    if surcharge is None or is_borne(charge.reason):
        return [0] * len(charge.evidence)
    discount_su = priced.state_of_practice_su - priced.price_su
    return surcharges_micro_su(evidence_of(charge), micro_units(discount_su), surcharge)


def evidence_of(charge: ChargeMade) -> list[Evidence]:
    """Return the rows of a charge in the model's terms. Raises RejectedError."""
    return [_evidence(row) for row in charge.evidence]


def _evidence(row: InterferenceEvidence) -> Evidence:
    if not 1 <= row.slowdown_ratio <= _MOST_RATIO:
        raise RejectedError("evidence", f"slowdown ratios lie from 1 to {_MOST_RATIO}")
    return Evidence(
        row.co_runner_job_id,
        _microseconds("evidence", row.duration_s),
        row.slowdown_ratio,
        row.shutters_used,
        row.shutters_dropped,
        row.co_runners or 1,
        row.co_runner_account,
    )


def _microseconds(field: str, duration_s: float) -> int:
    if not 0 <= duration_s <= _MOST_S:
        raise RejectedError(field, f"must be from 0 to {_MOST_S} s, got {duration_s!r}")
    return round(duration_s * 1e6)


def _decimal(field: str, text: str, most: Decimal = _MOST_SU) -> Decimal:
    value = amount(field, text)
    if value > most:
        raise RejectedError(field, f"must be from 0 to {most}, got {text[:40]!r}")
    return value
