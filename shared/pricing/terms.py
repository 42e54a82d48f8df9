"""By what jobs are charged that start at a time: what operators declared, else the rate."""

from collections.abc import Collection
from contextlib import suppress
from decimal import Decimal
from typing import Final, NamedTuple

from coplace.v1.tariffs_pb2 import TariffDeclared

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.payloads.tariffs import tariff_of
from shared.domain.tariff import PriceTariff
from shared.pricing.tariff_book import TariffBook
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.state import State

# Where tariffs are declared, and as what.
TOPIC: Final = "billing"
KIND: Final = TariffDeclared.DESCRIPTOR.full_name
Terms = Decimal | PriceTariff


class PriceTerms:
    """The tariffs that pricing took, and the rate where none of them is in force."""

    def __init__(self, rate_su_per_core_s: Decimal) -> None:
        self.rate_su_per_core_s = rate_su_per_core_s
        self._book = TariffBook(State({}))

    def fold(self, event: Event) -> None:
        """Take in what was declared; what pricing refused changes nothing."""
        if isinstance(event.payload, TariffDeclared):
            self.declare(event.payload)

    def declare(self, declared: TariffDeclared) -> None:
        """Take a tariff in, unless pricing refused it."""
        with suppress(RejectedError, AlreadyAppliedError):
            self._book.declare(declared)

    @property
    def declared(self) -> list[TariffDeclared]:
        """Return each version that pricing took, by when it was declared."""
        found = self._book.declared
        return sorted(found, key=lambda each: (each.declared_at_us, each.name, each.version))

    def at(self, time_us: int) -> Terms:
        """Return by what a job is charged that starts then."""
        return self._book.at(time_us) or self.rate_su_per_core_s

    def edges_us(self) -> Collection[int]:
        """Return when what is in force changes."""
        return {at for each in self._book.declared for at in (each.from_us, each.until_us)} - {0}

    def of_quote(self, tariff: str) -> "QuoteTerms":
        """Return by what a job is quoted: by a tariff that is asked for, else as it would be
        charged. Raises RejectedError for a tariff that is not declared."""
        if not tariff:
            return QuoteTerms(self, None)
        return QuoteTerms(self, tariff_of(newest(self.declared, tariff)))


class QuoteTerms(NamedTuple):
    """By what a job is quoted: what is in force when it starts, or one tariff at any time."""

    in_force: PriceTerms
    asked: PriceTariff | None

    def at(self, time_us: int) -> Terms:
        """Return by what it is quoted for a start then."""
        return self.asked or self.in_force.at(time_us)

    def edges_us(self) -> Collection[int]:
        """Return when that changes."""
        return () if self.asked else self.in_force.edges_us()


def newest(declared: Collection[TariffDeclared], name: str) -> TariffDeclared:
    """Return the last version of a name, or the one that `NAME/VERSION` names. Raises
    RejectedError."""
    named = [each for each in declared if name in (each.name, f"{each.name}/{each.version}")]
    if not named:
        known = ", ".join(f"{each.name}/{each.version}" for each in declared) or "none is"
        raise RejectedError("tariff", f"{name[:80]!r} is not declared: {known}")
    return max(named, key=lambda each: each.version)
