"""The tariffs that were declared, and until when periods are closed."""

from collections.abc import Mapping

from coplace.v1.accounts_pb2 import PeriodClosed
from coplace.v1.pricing_state_pb2 import PricingState
from coplace.v1.tariffs_pb2 import TariffDeclared

from coplace_client.errors import RejectedError
from shared.catalogue.payloads.tariffs import tariff_of
from shared.domain.tariff import PriceTariff
from shared.streams.stages.stage import AlreadyAppliedError


class TariffBook:
    """Versions of tariffs, which are declared once and never change."""

    def __init__(self) -> None:
        self._declared: dict[tuple[str, int], TariffDeclared] = {}
        self._tariffs: dict[tuple[str, int], PriceTariff] = {}
        self._closed = PeriodClosed()
        self._changes: dict[str, bytes | None] = {}

    @property
    def closed_until_us(self) -> int:
        """Return the end of closed periods: runs that ended before are booked then; 0 where no
        period was closed."""
        return self._closed.until_us

    def restore(self, state: PricingState) -> None:
        """Take in what `changes` returned."""
        if state.HasField("closed"):
            self._closed = state.closed
        else:
            self._put(state.tariff)

    def declare(self, message: TariffDeclared) -> None:
        """Take one in. Raises AlreadyAppliedError for a copy, RejectedError for a version that was
        declared otherwise, or is invalid."""
        known = self._declared.get((message.name, message.version))
        if known == message:
            raise AlreadyAppliedError
        if known is not None:
            problem = f"{message.version} of {message.name[:80]!r} was declared otherwise"
            raise RejectedError("version", f"{problem}: a version never changes, declare the next")
        self._put(message)
        key = f"tariff\n{message.name}\n{message.version}"
        self._changes[key] = PricingState(tariff=message).SerializeToString()

    def _put(self, message: TariffDeclared) -> None:
        key = message.name, message.version
        self._tariffs[key] = tariff_of(message)
        self._declared[key] = message

    def close(self, message: PeriodClosed) -> None:
        """Close periods. Raises AlreadyAppliedError where they are."""
        if message.until_us <= self._closed.until_us:
            raise AlreadyAppliedError
        self._closed = message
        self._changes["closed\n"] = PricingState(closed=message).SerializeToString()

    def at(self, time_us: int) -> PriceTariff | None:
        """Return the tariff that a job that starts then is charged by: of those in force the one
        declared last."""
        holding = [key for key, tariff in self._tariffs.items() if tariff.holds_at(time_us)]
        if not holding:
            return None
        return self._tariffs[max(holding, key=lambda k: (self._declared[k].declared_at_us, k))]

    def named(self, name: str, version: int) -> PriceTariff | None:
        """Return a tariff; None where it was not declared so far."""
        return self._tariffs.get((name, version))

    def changes(self) -> Mapping[str, bytes | None]:
        """Return what changed since the last call, by changelog key."""
        changes, self._changes = self._changes, {}
        return changes
