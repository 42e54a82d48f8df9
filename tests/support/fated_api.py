"""An API server whose calls are cut, or at which the process is killed, as a test says."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from shared.kubernetes.api import ApiError, ApiUnavailableError


class KilledError(BaseException):
    """The process was killed here."""


@dataclass
class Fate:
    """At which calls to the outside what goes wrong: killed or cut, before it was done or after;
    `late` it is done some time after nobody waits for it any more."""

    strikes: dict[int, str] = field(default_factory=dict)
    calls: int = 0
    on_their_way: list[Callable[[], Any]] = field(default_factory=list)

    async def around(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        strike = self.strikes.pop(self.calls, "")
        if strike == "killed before":
            raise KilledError
        if strike == "cut before":
            raise ApiUnavailableError("cut")
        if strike == "late":
            self.on_their_way.append(call)
            raise ApiUnavailableError("cut")
        result = await call()
        if strike == "killed after":
            raise KilledError
        if strike == "cut after":
            raise ApiUnavailableError("cut")
        return result

    async def arrive(self) -> None:
        """What was on its way arrives, or is refused."""
        while self.on_their_way:
            with suppress(ApiError):
                await self.on_their_way.pop(0)()


@dataclass
class FatedApi:
    """An API server behind a fate."""

    server: Any
    fate: Fate

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.server, name)
        return lambda *given: self.fate.around(lambda: method(*given))
