"""Numbers of the kinds of jobs on each cluster, as queue entries name them."""

from collections.abc import Sequence

from shared.scheduling.problem import Kind


class Kinds:
    """Gives each kind of a cluster a number, the same as long as it lives."""

    def __init__(self) -> None:
        self._on: dict[str, list[Kind]] = {}
        self._numbers: dict[tuple[str, Kind], int] = {}

    def number(self, cluster: str, kind: Kind) -> int:
        """Return the number of a kind, a new one where it was not seen before."""
        known = self._on.setdefault(cluster, [])
        number = self._numbers.setdefault((cluster, kind), len(known))
        if number == len(known):
            known.append(kind)
        return number

    def copy(self) -> "Kinds":
        """Return a copy that can be changed by itself."""
        other = Kinds()
        other._on = {cluster: known.copy() for cluster, known in self._on.items()}
        other._numbers = self._numbers.copy()
        return other

    def on(self, cluster: str) -> Sequence[Kind]:
        """Return the kinds of a cluster by number."""
        return self._on.setdefault(cluster, [])

    def forget(self, in_use: int) -> bool:
        """Drop all numbers where there are many more than are in use; True where that was done."""
        if len(self._numbers) <= 2 * in_use + 1000:
            return False
        self._on.clear()
        self._numbers.clear()
        return True
