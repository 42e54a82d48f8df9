"""What of discounts is put on the jobs that slowed a run down: worked out again in fractions."""

from collections.abc import Iterator
from fractions import Fraction

from coplace.v1.pricing_pb2 import ChargeMade, InterferenceEvidence

from tests.chaos.audit.billing import FREE
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.clock import HOUR_US

_MICRO_SU = 1_000_000


def each_surcharge_is_a_part_of_the_discount(found: Evidence) -> Iterator[str]:
    """By the time that each co-runner cost the run, to 0.000001 SU, up to the tariff's bound; with
    all of them nobody pays more than the run's price in full."""
    for charge in found.charges:
        rows = [row for row in charge.evidence if row.surcharge_su]
        if rows and not charge.surcharge_share:
            yield f"{_name(charge)} surcharges, which its tariff does not"
        elif charge.surcharge_share:
            yield from _wrong_parts(charge)


def each_aggressor_is_whose_job_slowed_the_run_down(found: Evidence) -> Iterator[str]:
    """The account of its submission, and of nobody else."""
    for charge in found.charges:
        for row in charge.evidence:
            job = found.world.journal.submission(row.co_runner_job_id)
            if row.co_runner_account and not is_hostile(row.co_runner_job_id):
                account = job.account if job else ""
                if row.co_runner_account != account:
                    yield f"{_name(charge)} surcharges {row.co_runner_account}, not {account}"


def _wrong_parts(charge: ChargeMade) -> Iterator[str]:
    discount = Fraction(charge.state_of_practice_su) - Fraction(charge.price_su)
    if charge.reason in FREE:  # the operator bears it all
        discount = Fraction(0)
    whole = int(discount * _MICRO_SU * Fraction(charge.surcharge_share))
    lost_us = [_lost_us(row) for row in charge.evidence]
    told = [Fraction(row.surcharge_su or 0) * _MICRO_SU for row in charge.evidence]
    if sum(told) > max(whole, 0):
        yield f"{_name(charge)} surcharges {sum(told)} uSU of {whole}"
    for row, each_us, part in zip(charge.evidence, lost_us, told, strict=True):
        expected = whole * each_us / sum(lost_us) if sum(lost_us) and whole > 0 else Fraction(0)
        if charge.surcharge_most_su:
            hours = Fraction(round(row.duration_s * 1e6), HOUR_US)
            expected = min(expected, Fraction(charge.surcharge_most_su) * hours * _MICRO_SU)
        if not row.co_runner_account:
            expected = Fraction(0)
        if abs(part - expected) >= 1:
            name = row.co_runner_job_id
            yield f"{_name(charge)} surcharges {name} {part} uSU, its part is {float(expected)}"


def _lost_us(row: InterferenceEvidence) -> Fraction:
    beside_us = round(row.duration_s * 1e6)
    return beside_us - beside_us / Fraction(row.slowdown_ratio)


def _name(charge: ChargeMade) -> str:
    return f"revision {charge.revision} of {charge.job_id}/{charge.attempt}"
