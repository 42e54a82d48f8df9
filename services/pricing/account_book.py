"""What accounts may spend, have spent, and have reserved for what runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from coplace.v1.pricing_state_pb2 import AccountState, PricingState

from shared.catalogue.payloads.tariffs import allocated_su
from shared.domain.money import micro_units, su_text
from shared.streams.stages.stage import AlreadyAppliedError

_EMPTY: Final[Mapping[WhenEmpty.ValueType, Standing.ValueType]] = {
    WHEN_EMPTY_REFUSE: STANDING_REFUSED,
    WHEN_EMPTY_WARN: STANDING_WARNED,
}


@dataclass(slots=True)
class _Account:
    facts: AccountState
    charged_micro_su: int = 0
    reserved_micro_su: int = 0
    allocated_micro_su: int = 0

    @property
    def funding(self) -> Standing.ValueType:
        """Return its state now; unspecified where nothing was ever allocated."""
        if not self.facts.HasField("allocation"):
            return STANDING_UNSPECIFIED
        taken = self.charged_micro_su + self.reserved_micro_su
        if taken < self.allocated_micro_su:
            return STANDING_FUNDED
        return _EMPTY.get(self.facts.allocation.when_empty, STANDING_FUNDED)


class AccountBook:
    """Integers of 0.000001 service unit. What is charged is charged, however little is left: only
    starts can be refused."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._touched: set[str] = set()
        self._changed: set[str] = set()

    def restore(self, facts: AccountState) -> None:
        """Take in what `changes` returned; reservations are those of the attempts."""
        account = self._of(facts.account)
        account.facts = facts
        account.charged_micro_su = micro_units(Decimal(facts.charged_su or 0))
        account.allocated_micro_su = _allocated(facts)
        self._touched.add(facts.account)

    def allocate(self, message: AllocationDeclared, event_id: str) -> None:
        """Apply a declared allocation: the newest counts. Raises AlreadyAppliedError for
        another."""
        account = self._of(message.account)
        known = account.facts
        stamp = known.allocation.declared_at_us, known.event_id
        if known.HasField("allocation") and (message.declared_at_us, event_id) <= stamp:
            raise AlreadyAppliedError
        known.allocation.CopyFrom(message)
        known.event_id = event_id
        account.allocated_micro_su = _allocated(known)
        self._touch(message.account)

    def has_allocation(self, name: str) -> bool:
        """Return whether anything was ever allocated to an account."""
        account = self._accounts.get(name)
        return account is not None and account.facts.HasField("allocation")

    def reserve(self, name: str, micro_su: int) -> None:
        """Reserve an amount for a run, or release one where it is negative."""
        if micro_su:
            self._of(name).reserved_micro_su += micro_su
            self._touched.add(name)

    def charge(self, name: str, micro_su: int) -> None:
        """Charge an amount, or reverse a charge where it is negative."""
        if micro_su:
            self._of(name).charged_micro_su += micro_su
            self._touch(name)

    def changed(self, now_us: int) -> Iterator[AccountStanding]:
        """Yield the accounts whose state is not the one published last, in the order of their
        names."""
        touched, self._touched = self._touched, set()
        for name in sorted(touched):
            account = self._accounts[name]
            if account.funding != account.facts.told.standing:
                account.facts.told.CopyFrom(_told(name, account, now_us))
                self._changed.add(name)
                yield account.facts.told

    def changes(self) -> Mapping[str, bytes | None]:
        """Return what changed since the last call, by changelog key."""
        changed, self._changed = sorted(self._changed), set()
        return {f"account\n{name}": self._saved(name) for name in changed}

    def _saved(self, name: str) -> bytes:
        account = self._accounts[name]
        account.facts.charged_su = su_text(account.charged_micro_su)
        return PricingState(account=account.facts).SerializeToString()

    def settle(
        self, charged_micro_su: Mapping[str, int], told: Mapping[str, AccountStanding]
    ) -> None:
        """Set an account to what its charges say, and what was published last of it."""
        for name in sorted({*self._accounts, *charged_micro_su, *told}):
            account, charged = self._of(name), charged_micro_su.get(name, 0)
            if account.charged_micro_su != charged:
                account.charged_micro_su = charged
                self._touch(name)
            if name in told and told[name].number > account.facts.told.number:
                account.facts.told.CopyFrom(told[name])
                self._touch(name)

    def _of(self, name: str) -> _Account:
        return self._accounts.setdefault(name, _Account(AccountState(account=name)))

    def _touch(self, name: str) -> None:
        self._touched.add(name)
        self._changed.add(name)


def _allocated(facts: AccountState) -> int:
    return micro_units(allocated_su(facts.allocation)) if facts.HasField("allocation") else 0


def _told(name: str, account: _Account, now_us: int) -> AccountStanding:
    return AccountStanding(
        account=name,
        number=account.facts.told.number + 1,
        standing=account.funding,
        allocated_su=su_text(account.allocated_micro_su),
        charged_su=su_text(account.charged_micro_su),
        reserved_su=su_text(account.reserved_micro_su),
        changed_at_us=now_us,
    )
