"""Why something waits, and when it is expected to start."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

from shared.domain.times import in_utc
from shared.kubernetes.objects import whole_of
from shared.kubernetes.texts import shown


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


class StartExplainer(Protocol):
    """Who says why a job waits; placement."""

    async def explain(self, job_id: str) -> ExplainedWait | None: ...
