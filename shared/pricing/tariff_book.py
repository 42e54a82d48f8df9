"""The tariffs that were declared, and until when periods are closed."""

from coplace.v1.accounts_pb2 import PeriodClosed
from coplace.v1.tariffs_pb2 import TariffDeclared

from coplace_client.clock import TOLERANCE_US
from coplace_client.errors import RejectedError
from shared.catalogue.payloads.tariffs import tariff_of
from shared.domain.tariff import PriceTariff
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.state import State


class TariffBook:
    """Versions of tariffs, which are declared once and never change."""

    def __init__(self, state: State) -> None:
        self._declared = state.table("tariff", TariffDeclared)
        self._tariffs = {key: tariff_of(message) for key, message in self._declared.items()}
        # When those were declared that were set back.
        self._dated = state.table("tariff-dated", int)
        self._closed = state.value("closed", PeriodClosed)

    @property
    def closed_until_us(self) -> int:
        """Runs that ended before are booked then; 0 where no period was closed."""
        closed = self._closed.get()
        return closed.until_us if closed else 0

    @property
    def declared(self) -> list[TariffDeclared]:
        """Return what was declared and taken, each version once."""
        return [*self._declared.values()]

    def declare(self, message: TariffDeclared) -> None:
        """Take one in. Raises AlreadyAppliedError for a copy, RejectedError for a version that was
        declared otherwise, or is none."""
        key = _key_of(message.name, message.version)
        known = self._as_declared(key)
        if known == message:
            raise AlreadyAppliedError
        if known is not None:
            problem = f"{message.version} of {message.name[:80]!r} was declared otherwise"
            raise RejectedError("version", f"{problem}: a version never changes, declare the next")
        self._tariffs[key] = tariff_of(message)
        self._declared.put(key, message)

    def set_back(self, now_us: int) -> None:
        """Set back what was declared from a clock ahead of now, so that whatever comes later
        ranks before it."""
        for key, declared in list(self._declared.items()):
            if declared.declared_at_us > now_us + TOLERANCE_US:
                self._dated.put(key, declared.declared_at_us)
                declared.declared_at_us = now_us
                self._declared.put(key, declared)

    def _as_declared(self, key: str) -> TariffDeclared | None:
        known, dated_us = self._declared.get(key), self._dated.get(key)
        if known is None or dated_us is None:
            return known
        declared = TariffDeclared.FromString(known.SerializeToString())
        declared.declared_at_us = dated_us
        return declared

    def close(self, message: PeriodClosed) -> None:
        """Close periods. Raises AlreadyAppliedError where they are."""
        if message.until_us <= self.closed_until_us:
            raise AlreadyAppliedError
        self._closed.put(message)

    def at(self, time_us: int) -> PriceTariff | None:
        """Return the tariff that a job that starts then is charged by: of those in force the one
        declared last."""
        holding = [key for key, tariff in self._tariffs.items() if tariff.applies_at(time_us)]
        if not holding:
            return None
        return self._tariffs[max(holding, key=self._rank)]

    def named(self, name: str, version: int) -> PriceTariff | None:
        """Return the tariff of a name, None where it was not declared so far."""
        return self._tariffs.get(_key_of(name, version))

    def _rank(self, key: str) -> tuple[int, str, int]:
        declared = self._declared[key]
        return declared.declared_at_us, declared.name, declared.version


def _key_of(name: str, version: int) -> str:
    return f"{version}|{name}"
