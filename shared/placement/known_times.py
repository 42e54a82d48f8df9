"""Times of every application that a cluster knows, worked out anew only where something changed."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from shared.domain.signature import Signature
from shared.models.projection import Projection
from shared.models.time_coefficient import AppTime, clock_shares

Rows = Sequence[Signature]
Projected = Callable[[Sequence[str]], Iterable[tuple[Sequence[str], Projection]]]


class KnownTimes:
    """A cache: rounds come every 100 ms, signatures of thousands of applications seldom change.

    What it returns depends on nothing but its arguments. Rows are compared as objects, which the
    cache keeps alive.
    """

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._rows: dict[str, Rows] = {}
        self._times: dict[str, AppTime] = {}

    def of(
        self, basis: tuple[object, ...], signatures: Mapping[str, Rows], project: Projected
    ) -> Mapping[str, AppTime]:
        """Applications at the nominal P-state; `project` is asked for those whose row is new.

        `basis` are the objects that projections depend on beside the row.
        """
        if not _same(basis, self._basis):
            self._basis, self._rows, self._times = basis, {}, {}
        changed = [app for app, rows in signatures.items() if self._rows.get(app) is not rows]
        for app_id in changed:
            self._rows[app_id] = signatures[app_id]
            self._times.pop(app_id, None)
        for names, projection in project(changed):
            self._take(names, projection)
        return self._times

    def _take(self, names: Sequence[str], projection: Projection) -> None:
        shares = clock_shares(projection).tolist()
        for app_id, time_s, share in zip(
            names, projection.time_s[:, -1].tolist(), shares, strict=True
        ):
            self._times[app_id] = AppTime(time_s, share, self._rows[app_id][-1].count)


def _same(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
