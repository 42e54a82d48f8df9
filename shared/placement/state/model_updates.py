"""What jobs are weighed by was updated since: which of them are to be weighed again."""

from collections.abc import Mapping
from typing import Any, Final, Self

import orjson

# As states of before have it.
_KEY: Final = "news"
# More applications than that are all.
_MOST_APPS: Final = 1_000


class ModelUpdates:
    """Numbers updates of what jobs are weighed by: of clusters and coefficients for all jobs, of
    signatures for those of their application. A job notes the number at which it was weighed."""

    def __init__(self, number: int = 0, of_all: int = 0) -> None:
        self.number = number
        self._of_all = of_all
        self._of_app: dict[str, int] = {}
        self._is_changed = False

    @classmethod
    def restored(cls, state: Mapping[str, bytes]) -> Self:
        """What `changes` returned in earlier lives."""
        if _KEY not in state:
            return cls()
        kept: dict[str, Any] = orjson.loads(state[_KEY])
        found = cls(kept["number"], kept["of_all"])
        found._of_app = kept["of_app"]
        return found

    def changes(self) -> dict[str, bytes | None]:
        """The numbers, where they changed since the last call."""
        if not self._is_changed:
            return {}
        self._is_changed = False
        kept = {"number": self.number, "of_all": self._of_all, "of_app": self._of_app}
        return {_KEY: orjson.dumps(kept)}

    def of_all(self) -> None:
        """There is an update for every job."""
        self._of_all = self._next()

    def of_app(self, app_id: str) -> None:
        """There is an update for the jobs of an application."""
        self._of_app[app_id] = self._next()
        if len(self._of_app) > _MOST_APPS:
            self._of_app, self._of_all = {}, self.number

    def are_for(self, app_id: str, weighed: int) -> bool:
        """Whether there is an update for a job of an application that was weighed at a number."""
        return weighed < max(self._of_all, self._of_app.get(app_id, 0))

    def _next(self) -> int:
        self.number, self._is_changed = self.number + 1, True
        return self.number
