"""What accounts may spend, have spent, and have reserved for what runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from coplace.v1.accounts_pb2 import (
    STANDING_FUNDED,
    STANDING_REFUSED,
    STANDING_UNSPECIFIED,
    STANDING_WARNED,
    WHEN_EMPTY_REFUSE,
    WHEN_EMPTY_WARN,
    AccountStanding,
    AllocationDeclared,
    Standing,
    WhenEmpty,
)

from coplace_client.clock import TOLERANCE_US
from shared.catalogue.codec import format_time
from shared.catalogue.payloads.tariffs import allocated_su
from shared.domain.money import micro_units, su_text
from shared.streams.stages.stage import AlreadyAppliedError, OvertakenError
from shared.streams.state.rows import RowCodec
from shared.streams.state.state import State

_EMPTY: Final[Mapping[WhenEmpty.ValueType, Standing.ValueType]] = {
    WHEN_EMPTY_REFUSE: STANDING_REFUSED,
    WHEN_EMPTY_WARN: STANDING_WARNED,
}


@dataclass(slots=True)
class Account:
    """What is known of an account. `charged_su` are the charges in force, a decimal: of many it
    outgrows 64 bits of 0.000001 SU. `event_id` is of the event that declared the allocation, `told`
    what was published last. What is reserved follows from the attempts."""

    charged_su: str = "0"
    allocation: AllocationDeclared | None = None
    event_id: str = ""
    told: AccountStanding = field(default_factory=AccountStanding)
    reserved_micro_su: int = 0

    @property
    def charged_micro_su(self) -> int:
        """Return the charges in force, 0.000001 SU."""
        return micro_units(Decimal(self.charged_su))

    @property
    def allocated_micro_su(self) -> int:
        """Return what it may spend, 0.000001 SU."""
        return micro_units(allocated_su(self.allocation)) if self.allocation else 0

    @property
    def funding(self) -> Standing.ValueType:
        """Return its state now; unspecified where nothing was ever allocated."""
        if self.allocation is None:
            return STANDING_UNSPECIFIED
        if self.charged_micro_su + self.reserved_micro_su < self.allocated_micro_su:
            return STANDING_FUNDED
        return _EMPTY.get(self.allocation.when_empty, STANDING_FUNDED)


ROWS: Final = RowCodec(Account, without=("reserved_micro_su",))


class AccountBook:
    """Integers of 0.000001 service unit. What is charged is charged, however little is left: only
    starts can be refused."""

    def __init__(self, state: State) -> None:
        self._rows = state.table("account", ROWS)
        # Of one that only has something reserved no row is kept.
        self._accounts = dict(self._rows.items())
        self._touched = set(self._accounts)

    def allocate(self, message: AllocationDeclared, event_id: str) -> None:
        """Apply a declared allocation: the newest counts. Raises AlreadyAppliedError for a copy,
        and OvertakenError."""
        account = self._of(message.account)
        known = account.allocation
        if event_id == account.event_id:
            raise AlreadyAppliedError
        stamp = (known.declared_at_us, account.event_id) if known else (0, "")
        if known and (message.declared_at_us, event_id) < stamp:
            newer = f"what was declared at {format_time(known.declared_at_us)} is newer"
            raise OvertakenError(f"{newer}: declare it again to replace that")
        account.allocation, account.event_id = message, event_id
        self._touch(message.account)

    def has_allocation(self, name: str) -> bool:
        """Return whether anything was ever allocated to an account."""
        account = self._accounts.get(name)
        return account is not None and account.allocation is not None

    def reserve(self, name: str, micro_su: int) -> None:
        """Reserve an amount for a run, or release one where it is negative."""
        if micro_su:
            self._of(name).reserved_micro_su += micro_su
            self._touched.add(name)

    def charge(self, name: str, micro_su: int) -> None:
        """Charge an amount, or reverse a charge where it is negative."""
        if micro_su:
            account = self._of(name)
            account.charged_su = su_text(account.charged_micro_su + micro_su)
            self._touch(name)

    def changed(self, now_us: int) -> Iterator[AccountStanding]:
        """Yield the accounts whose state is not the one published last, in the order of their
        names. What was declared from a clock ahead is set back to now, so that whatever comes later
        is newer."""
        touched, self._touched = self._touched, set()
        for name in sorted(touched):
            account = self._accounts[name]
            told = account.allocation
            if told and told.declared_at_us > now_us + TOLERANCE_US:
                told.declared_at_us = now_us
                self._rows.put(name, account)
            if account.funding != account.told.standing:
                account.told = _told(name, account, now_us)
                self._rows.put(name, account)
                yield account.told

    def settle(
        self, charged_micro_su: Mapping[str, int], told: Mapping[str, AccountStanding]
    ) -> None:
        """Set an account to what its charges say, and what was published last of it."""
        for name in sorted({*self._accounts, *charged_micro_su, *told}):
            account, charged = self._of(name), charged_micro_su.get(name, 0)
            if account.charged_micro_su != charged:
                account.charged_su = su_text(charged)
                self._touch(name)
            if name in told and told[name].number > account.told.number:
                account.told = told[name]
                self._touch(name)

    def _of(self, name: str) -> Account:
        return self._accounts.setdefault(name, Account())

    def _touch(self, name: str) -> None:
        self._touched.add(name)
        self._rows.put(name, self._accounts[name])


def _told(name: str, account: Account, now_us: int) -> AccountStanding:
    return AccountStanding(
        account=name,
        number=account.told.number + 1,
        standing=account.funding,
        allocated_su=su_text(account.allocated_micro_su),
        charged_su=su_text(account.charged_micro_su),
        reserved_su=su_text(account.reserved_micro_su),
        changed_at_us=now_us,
    )
