"""Updates of what jobs are evaluated by, and which jobs are to be evaluated again after them."""

from dataclasses import dataclass, field
from typing import Final

from shared.streams.state.state import State

# More applications than that are all.
_MOST_APPS: Final = 1_000


@dataclass(slots=True)
class UpdateNumbers:
    """The newest number of an update, that of all jobs, and those of applications."""

    newest: int = 0
    of_all: int = 0
    of_app: dict[str, int] = field(default_factory=dict)


class ModelUpdates:
    """Numbers updates of what jobs are evaluated by: of clusters and coefficients for all jobs, of
    signatures for those of their application. A job notes the number at which it was evaluated."""

    def __init__(self, state: State) -> None:
        self._kept = state.value("model-updates", UpdateNumbers)
        self._numbers = self._kept.get() or UpdateNumbers()

    @property
    def number(self) -> int:
        """Return the number of the newest update."""
        return self._numbers.newest

    def of_all(self) -> None:
        """Record an update for every job."""
        self._numbers.of_all = self._next()

    def of_app(self, app_id: str) -> None:
        """Record an update for the jobs of an application."""
        numbers = self._numbers
        numbers.of_app[app_id] = self._next()
        if len(numbers.of_app) > _MOST_APPS:
            numbers.of_app, numbers.of_all = {}, numbers.newest

    def are_for(self, app_id: str, weighed: int) -> bool:
        """Return whether there is an update for an application's job since this number."""
        return weighed < max(self._numbers.of_all, self._numbers.of_app.get(app_id, 0))

    def _next(self) -> int:
        self._numbers.newest += 1
        self._kept.put(self._numbers)
        return self._numbers.newest
