"""What accounts owe, as postings that always balance: pure, the same from any copy of the charges.

Each posting is of two sides: it debits an account and credits the operator. A charge is posted on
its account, and its surcharges on those of co-runners (ADR 0059). A revision of a charge
reverses the one before and posts itself, both when it is booked; nothing posted is ever edited. So
what was booked before a period was closed stays as it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Final, NamedTuple

from coplace.v1.pricing_pb2 import ChargeMade, ChargeReason

from services.pricing.attribution import attribute
from shared.domain.money import QUANTUM, apportion
from shared.domain.natural_order import natural
from shared.pricing.charge import ChargedSurcharge, surcharges_of

OPERATOR: Final = "operator"
# Shares are published in millionths.
_SHARES: Final = 1_000_000


class SlowedBy(NamedTuple):
    """What of a run's discount, and of the energy of the time that it lost, one co-runner is
    behind, or several without an id: as `attributed`, shares as decimals whose sum is 1."""

    co_runner_job_id: str
    co_runners: int
    share: Decimal
    discount_su: Decimal
    energy_j: Decimal

    @property
    def reversed(self) -> "SlowedBy":
        """Return the same amounts given back."""
        return self._replace(
            share=-self.share, discount_su=-self.discount_su, energy_j=-self.energy_j
        )


class ChargeEntry(NamedTuple):
    """What a statement needs of a charge; ordered by what was charged for, then by revision."""

    job_id: str
    attempt: int
    revision: int
    account: str
    cluster: str
    price_su: Decimal
    in_full_su: Decimal
    cores: int
    runtime_s: float
    started_at_us: int
    ended_at_us: int
    booked_at_us: int
    tariff: str
    reason: str
    slowed_by: tuple[SlowedBy, ...] = ()
    surcharges: tuple[ChargedSurcharge, ...] = ()
    currency: str = ""
    su_cost: Decimal = Decimal(1)
    millicores: int = 0

    @property
    def is_late(self) -> bool:
        """Return whether the period in which the run ended was closed when it was charged."""
        return self.booked_at_us > self.ended_at_us

    @classmethod
    def from_charge(cls, charge: ChargeMade) -> "ChargeEntry":
        """Read the entry of a charge; charges of before they were booked count when they were made.
        Raises RejectedError for invalid evidence."""
        ended_us = charge.finished.ended_at_us or charge.charged_at_us
        tariff = f"{charge.tariff}/{charge.tariff_version}" if charge.tariff else ""
        return cls(
            charge.job_id,
            charge.attempt,
            charge.revision,
            charge.account,
            charge.cluster,
            Decimal(charge.price_su),
            Decimal(charge.state_of_practice_su),
            charge.cores,
            charge.runtime_s,
            charge.finished.started_at_us,
            ended_us,
            charge.booked_at_us or charge.charged_at_us,
            tariff,
            ChargeReason.Name(charge.reason).removeprefix("CHARGE_REASON_"),
            _slowed_by(charge),
            tuple(surcharges_of(charge)),
            charge.currency,
            Decimal(charge.su_cost or 1),
            charge.millicores,
        )

    def posted(self, by: "ChargeEntry", *, is_adjustment: bool) -> "Iterator[Posting]":
        """Yield the postings on its own account, and on those that it surcharges, when and as late
        as the entry `by` which they are made is booked."""
        how = is_adjustment, by.is_late
        own = self.account, self.price_su, self.in_full_su
        yield Posting(by.booked_at_us, self, *own, *how)
        for each in self.surcharges:
            surcharged = each.account, each.su, each.su
            yield Posting(by.booked_at_us, self, *surcharged, *how, surcharge=each)


def _slowed_by(charge: ChargeMade) -> tuple[SlowedBy, ...]:
    parts = attribute(charge)
    shares = apportion(_SHARES, [part.share for part in parts]) if parts else ()
    return tuple(
        SlowedBy(
            part.co_runner_job_id,
            part.co_runners,
            share * QUANTUM,
            part.discount_su,
            part.energy_j,
        )
        for part, share in zip(parts, shares, strict=True)
    )


class Posting(NamedTuple):
    """An amount that an account owes the operator, or below 0 the operator an account: for a run of
    its own, or as a surcharge for having slowed down that of the entry. `is_adjustment` where it
    corrects what was posted before, or the period of the run is closed, `is_correction` in the
    second case alone."""

    booked_at_us: int
    entry: ChargeEntry
    account: str
    amount_su: Decimal
    in_full_su: Decimal
    is_adjustment: bool
    is_correction: bool = False
    is_reversal: bool = False
    surcharge: ChargedSurcharge | None = None

    @property
    def reversed(self) -> "Posting":
        """Return the same posting given back."""
        given_back = self._replace(amount_su=-self.amount_su, in_full_su=-self.in_full_su)
        return given_back._replace(is_adjustment=True, is_reversal=True)

    @property
    def slowed_by(self) -> tuple[SlowedBy, ...]:
        """Return who is behind the discount of a run; the sum over all postings of it is what its
        last revision says."""
        found = () if self.surcharge else self.entry.slowed_by
        return tuple(each.reversed for each in found) if self.is_reversal else found


def postings(entries: Iterable[ChargeEntry]) -> list[Posting]:
    """Return the postings of all charges, by when they are booked: of any copies in any order the
    same."""
    found: list[Posting] = []
    for _, revisions in groupby(sorted(set(entries)), key=lambda entry: entry[:2]):
        before: ChargeEntry | None = None
        for entry in revisions:
            if before is not None:
                again = before.posted(entry, is_adjustment=True)
                found.extend(each.reversed for each in again)
            is_adjustment = before is not None or entry.is_late
            found.extend(entry.posted(entry, is_adjustment=is_adjustment))
            before = entry
    return sorted(
        found,
        key=lambda each: (each.booked_at_us, natural(each.entry.job_id), each.entry.attempt),
    )


@dataclass(frozen=True, slots=True)
class Statement:
    """What an account owed before a time, what was posted from then until another, and what it owes
    then. `closed_us` are the ends of the closed periods, in order."""

    account: str
    from_us: int
    until_us: int
    opening_su: Decimal
    postings: Sequence[Posting]
    closed_us: Sequence[int] = ()

    @property
    def closing_su(self) -> Decimal:
        """Return the opening balance and all that was posted."""
        return self.opening_su + sum((each.amount_su for each in self.postings), Decimal(0))


def is_of(account: str, asked: str) -> bool:
    """Return whether an account is the one that was asked for, or below it where that ends with a
    slash."""
    return account.startswith(asked) if asked.endswith("/") else account == asked


def statement_of(
    account: str,
    posted: Iterable[Posting],
    from_us: int,
    until_us: int,
    closed_us: Sequence[int] = (),
) -> Statement:
    """Return the statement of one account and a time; with a slash at its end, of all accounts
    below it."""
    own = [each for each in posted if is_of(each.account, account)]
    before = (each.amount_su for each in own if each.booked_at_us < from_us)
    within = [each for each in own if from_us <= each.booked_at_us < until_us]
    return Statement(account, from_us, until_us, sum(before, Decimal(0)), within, closed_us)


def trial_balance(posted: Iterable[Posting]) -> dict[str, Decimal]:
    """Return what each account owes, and the operator with the opposite sign: together always 0."""
    balances = {OPERATOR: Decimal(0)}
    for each in posted:
        name = f"account {each.account}"
        balances[name] = balances.get(name, Decimal(0)) + each.amount_su
        balances[OPERATOR] -= each.amount_su
    return balances
