"""An API server whose calls are cut, or at which the process is killed, as a test says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shared.kubernetes.api import ApiUnavailableError


class KilledError(BaseException):
    """The process was killed here."""


@dataclass
class Fate:
    """At which calls to the outside what goes wrong: killed or cut, before it was done or after."""

    strikes: dict[int, str] = field(default_factory=dict)
    calls: int = 0

    async def around(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        strike = self.strikes.pop(self.calls, "")
        if strike == "killed before":
            raise KilledError
        if strike == "cut before":
            raise ApiUnavailableError("cut")
        result = await call()
        if strike == "killed after":
            raise KilledError
        if strike == "cut after":
            raise ApiUnavailableError("cut")
        return result


@dataclass
class FatedApi:
    """An API server behind a fate."""

    server: Any
    fate: Fate

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.server, name)
        return lambda *given: self.fate.around(lambda: method(*given))
