"""Charges as entries of accounts: the pure part, the same with and without Redis."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coplace.v1.pricing_pb2 import ChargeMade

from coplace_client.checks import require_count, require_text
from shared.pricing.charge import audit, charged_micro_su


@dataclass(frozen=True, slots=True)
class AccountEntry:
    """One charge: whom it belongs to, and how many 0.000001 service units it is; and what it puts
    on the accounts of the jobs that slowed its run down."""

    account: str
    job_id: str
    attempt: int
    revision: int
    amount_micro_su: int
    surcharges_micro_su: tuple[tuple[str, int], ...] = ()

    @property
    def subject(self) -> str:
        """Return what was charged for; a later revision replaces an earlier one of the same
        subject."""
        return f"{self.job_id}/{self.attempt}"


def entry_of(charge: ChargeMade) -> AccountEntry:
    """Return the entry of a charge. Raises RejectedError for one that its own evidence
    contradicts."""
    for field in ("account", "job_id"):
        require_text(field, getattr(charge, field))
    for field in ("attempt", "revision"):
        require_count(field, getattr(charge, field))
    audit(charge)
    (_, amount_micro_su), *surcharges = charged_micro_su(charge)
    for account, _ in surcharges:
        require_text("evidence.co_runner_account", account)
    return AccountEntry(
        charge.account,
        charge.job_id,
        charge.attempt,
        charge.revision,
        amount_micro_su,
        tuple(surcharges),
    )


def spent_micro_su(entries: Iterable[AccountEntry]) -> Mapping[str, int]:
    """Return what each account spent, in 0.000001 service units: the highest revision of each
    subject."""
    latest: dict[str, AccountEntry] = {}
    for entry in entries:
        known = latest.get(entry.subject)
        if known is None or entry.revision > known.revision:
            latest[entry.subject] = entry
    spent: dict[str, int] = {}
    for entry in latest.values():
        for account, micro_su in (
            (entry.account, entry.amount_micro_su),
            *entry.surcharges_micro_su,
        ):
            spent[account] = spent.get(account, 0) + micro_su
    return spent
