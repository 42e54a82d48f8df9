"""Charges as rows, and what each posts on accounts. Pure.

Amounts are whole numbers of 0.000001 service unit. A revision gives back what the one before posted
and posts itself; nothing that was posted is ever changed, whichever order revisions come in.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

import orjson
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade

from coplace_client.checks import require_count, require_text
from coplace_client.errors import RejectedError
from coplace_client.numbers import amount
from shared.domain.money import micro_units

# As pricing has it: more than any job costs, and a number of 64 bits.
_MOST_SU: Final = Decimal(10**12)


class ChargeRow(NamedTuple):
    """One revision of a charge, as in the table `charges`; `surcharges` are JSON, an account, the
    job of it and an amount each."""

    job_id: str
    attempt: int
    revision: int
    user: str
    account: str
    cluster: str
    price_micro_su: int
    in_full_micro_su: int
    reason: int
    cores: int
    runtime_s: float
    started_at_us: int
    ended_at_us: int
    charged_at_us: int
    booked_at_us: int
    tariff: str
    currency: str
    su_cost: str
    surcharges: str
    millicores: int = 0
    finished: JobFinished = JobFinished()
    """What its resource manager said of the end: in no table of charges."""

    @classmethod
    def from_charge(cls, charge: ChargeMade) -> "ChargeRow":
        """Return the row of a charge. Raises RejectedError."""
        for field in ("account", "job_id"):
            require_text(field, getattr(charge, field))
        for field in ("attempt", "revision"):
            require_count(field, getattr(charge, field))
        surcharges = list(_surcharges_of(charge))
        return cls(
            charge.job_id,
            charge.attempt,
            charge.revision,
            charge.user,
            charge.account,
            charge.cluster,
            _micro_su("price_su", charge.price_su),
            _micro_su("state_of_practice_su", charge.state_of_practice_su),
            charge.reason,
            charge.cores,
            charge.runtime_s,
            charge.finished.started_at_us,
            charge.finished.ended_at_us or charge.charged_at_us,
            charge.charged_at_us,
            charge.booked_at_us or charge.charged_at_us,
            f"{charge.tariff}/{charge.tariff_version}" if charge.tariff else "",
            charge.currency,
            charge.su_cost,
            orjson.dumps(surcharges).decode() if surcharges else "",
            charge.millicores,
            _finished(charge),
        )

    @property
    def key(self) -> tuple[str, int, int]:
        """Return what identifies the revision."""
        return self.job_id, self.attempt, self.revision


class PostingRow(NamedTuple):
    """An amount that an account owes, as in the table `postings`: for the revision `revision` of a
    charge, posted by the revision `by_revision` of it. Of a surcharge `user` is empty."""

    account: str
    booked_at_us: int
    job_id: str
    attempt: int
    by_revision: int
    number: int
    revision: int
    user: str
    amount_micro_su: int
    in_full_micro_su: int
    is_reversal: bool
    is_adjustment: bool
    co_runner_job_id: str

    @property
    def key(self) -> tuple[str, int, str, int, int, int]:
        """Return what identifies the posting."""
        return self[:6]


def postings(revisions: Iterable[ChargeRow]) -> Iterator[PostingRow]:
    """Yield what all known revisions of the charge of one run post."""
    before: ChargeRow | None = None
    for charge in sorted(revisions, key=lambda one: one.revision):
        posted: list[PostingRow] = []
        if before is not None:
            posted += [_reversed(each) for each in _posted(before, charge, is_adjustment=True)]
        is_late = charge.booked_at_us > charge.ended_at_us
        posted += _posted(charge, charge, is_adjustment=before is not None or is_late)
        yield from (each._replace(number=number) for number, each in enumerate(posted))
        before = charge


def _posted(charge: ChargeRow, by: ChargeRow, *, is_adjustment: bool) -> Iterator[PostingRow]:
    where = by.booked_at_us, charge.job_id, charge.attempt, by.revision, 0, charge.revision
    amounts = charge.price_micro_su, charge.in_full_micro_su
    yield PostingRow(charge.account, *where, charge.user, *amounts, False, is_adjustment, "")
    for account, co_runner_job_id, micro_su in _surcharges(charge):
        surcharge = "", micro_su, micro_su, False, is_adjustment, co_runner_job_id
        yield PostingRow(account, *where, *surcharge)


def _reversed(posting: PostingRow) -> PostingRow:
    return posting._replace(
        amount_micro_su=-posting.amount_micro_su,
        in_full_micro_su=-posting.in_full_micro_su,
        is_reversal=True,
    )


def _surcharges(charge: ChargeRow) -> Sequence[tuple[str, str, int]]:
    return orjson.loads(charge.surcharges) if charge.surcharges else ()


def _surcharges_of(charge: ChargeMade) -> Iterator[tuple[str, str, int]]:
    """Yield whom the charge surcharges, for which job, and how much. Raises RejectedError."""
    for row in charge.evidence:
        if row.surcharge_su and (micro_su := _micro_su("evidence.surcharge_su", row.surcharge_su)):
            require_text("evidence.co_runner_account", row.co_runner_account)
            yield row.co_runner_account, row.co_runner_job_id, micro_su


def _finished(charge: ChargeMade) -> JobFinished:
    """Charges of before they carried it say less."""
    if charge.HasField("finished"):
        return charge.finished
    return JobFinished(
        job_id=charge.job_id,
        attempt=charge.attempt,
        user=charge.user,
        account=charge.account,
        cluster=charge.cluster,
        ended_at_us=charge.charged_at_us,
    )


def _micro_su(field: str, text: str) -> int:
    value = amount(field, text)
    if value > _MOST_SU:
        raise RejectedError(field, f"must be from 0 to {_MOST_SU}, got {text[:40]!r}")
    return micro_units(value)
