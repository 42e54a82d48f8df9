"""When what waits is expected to start, in words and as a delay."""

from collections.abc import Mapping
from math import ceil
from typing import Any, Final, NamedTuple, Protocol, Self

from shared.domain.times import in_utc
from shared.kubernetes.objects import whole_of
from shared.kubernetes.texts import shown

_LEAST_S: Final = 5
_MOST_S: Final = 60
_MOST_DOUBLINGS: Final = 8


class ExplainedWait(NamedTuple):
    """Why something waits, and when it is expected to start, us since 1970; 0: nobody knows."""

    why: str = ""
    expected_us: int = 0

    def to_fields(self) -> dict[str, Any]:
        """Return it as a record has it."""
        return {"why": shown(self.why), "expectedUs": self.expected_us}

    @classmethod
    def of_fields(cls, told: Mapping[str, Any]) -> Self:
        """Return that of a record."""
        return cls(shown(told.get("why") or ""), whole_of(told.get("expectedUs")) or 0)

    @property
    def words(self) -> str:
        """Return it as users read it."""
        why = f"Coplace: {self.why or 'it waits for its turn'}"
        if not self.expected_us:
            return shown(why)
        return shown(f"{why}; expected to start at {in_utc(self.expected_us / 1e6)}")

    def delay_s(self, now_us: int, tried: int) -> int:
        """Return after which time Kueue is to try again, s, once it has been put off so often:
        until the expected start, but sooner at first, since others may end before their limits."""
        most_s = min(_LEAST_S << min(max(tried - 1, 0), _MOST_DOUBLINGS), _MOST_S)
        if not self.expected_us:
            return most_s
        return min(max(ceil((self.expected_us - now_us) / 1e6), _LEAST_S), most_s)


class StartExplainer(Protocol):
    """Who says why a job waits; placement."""

    async def explain(self, job_id: str) -> ExplainedWait | None: ...
