"""What is worked out of an application's signatures, anew only where something changed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from coplace_client.signature import Signature

Value = TypeVar("Value")
Rows = Sequence[Signature]
WorkOut = Callable[[Sequence[str]], Iterable[tuple[str, Value]]]


class KnownApplications(Generic[Value]):
    """A cache: rounds come every 100 ms, signatures of thousands of applications seldom change.

    What it returns depends on nothing but its arguments. Rows are compared as objects, which the
    cache keeps alive.
    """

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._rows: dict[str, Rows] = {}
        self._values: dict[str, Value] = {}

    def of(
        self, basis: tuple[object, ...], signatures: Mapping[str, Rows], work_out: WorkOut[Value]
    ) -> Mapping[str, Value]:
        """Return the values of at least these applications, but of those that have none; `work_out`
        is asked for those whose row is new.

        `basis` are the objects that values depend on beside the row.
        """
        if not _same(basis, self._basis):
            self._basis, self._rows, self._values = basis, {}, {}
        changed = [app for app, rows in signatures.items() if self._rows.get(app) is not rows]
        for app_id in changed:
            self._rows[app_id] = signatures[app_id]
            self._values.pop(app_id, None)
        if changed:
            self._values.update(work_out(changed))
        return self._values


def _same(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
