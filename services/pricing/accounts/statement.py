"""What accounts owe, as postings that always balance: pure, the same from any copy of the ledger.

Each posting is of two sides: it debits an account and credits the operator. A revision of a charge
reverses the one before and posts itself, both when it is booked; nothing posted is ever edited. So
what was booked before a period was closed stays as it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Final, NamedTuple

from coplace.v1.pricing_pb2 import ChargeMade, ChargeReason

OPERATOR: Final = "operator"


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

    @classmethod
    def of(cls, charge: ChargeMade) -> "ChargeEntry":
        """Charges of before they were booked count when they were made."""
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
        )


class Posting(NamedTuple):
    """An amount that an account owes the operator, or below 0 the operator an account."""

    booked_at_us: int
    entry: ChargeEntry
    amount_su: Decimal
    in_full_su: Decimal
    is_adjustment: bool


def postings(entries: Iterable[ChargeEntry]) -> list[Posting]:
    """Those of all charges, by when they are booked: of any copies in any order the same."""
    found: list[Posting] = []
    for _, revisions in groupby(sorted(set(entries)), key=lambda entry: entry[:2]):
        before: ChargeEntry | None = None
        for entry in revisions:
            booked_us = entry.booked_at_us
            if before is not None:
                reversed_su = -before.price_su, -before.in_full_su
                found.append(Posting(booked_us, before, *reversed_su, is_adjustment=True))
            is_late = before is not None or booked_us > entry.ended_at_us
            found.append(Posting(booked_us, entry, entry.price_su, entry.in_full_su, is_late))
            before = entry
    return sorted(
        found, key=lambda each: (each.booked_at_us, each.entry.job_id, each.entry.attempt)
    )


@dataclass(frozen=True, slots=True)
class Statement:
    """What an account owed before a time, what was posted from then until another, and what it owes
    then."""

    account: str
    from_us: int
    until_us: int
    opening_su: Decimal
    postings: Sequence[Posting]

    @property
    def closing_su(self) -> Decimal:
        """The opening balance and all that was posted."""
        return self.opening_su + sum((each.amount_su for each in self.postings), Decimal(0))


def statement_of(account: str, posted: Iterable[Posting], from_us: int, until_us: int) -> Statement:
    """Of one account and a time."""
    own = [each for each in posted if each.entry.account == account]
    before = (each.amount_su for each in own if each.booked_at_us < from_us)
    within = [each for each in own if from_us <= each.booked_at_us < until_us]
    return Statement(account, from_us, until_us, sum(before, Decimal(0)), within)


def trial_balance(posted: Iterable[Posting]) -> dict[str, Decimal]:
    """What each account owes, and the operator with the opposite sign: together always 0."""
    balances = {OPERATOR: Decimal(0)}
    for each in posted:
        name = f"account {each.entry.account}"
        balances[name] = balances.get(name, Decimal(0)) + each.amount_su
        balances[OPERATOR] -= each.amount_su
    return balances
