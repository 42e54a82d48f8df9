"""What is wrong with input, as errors that carry data."""

from collections.abc import Callable, Iterator
from typing import Final

# So many fields one error names: enough to repair at once.
MOST_VIOLATIONS: Final = 32


class UnusableError(ValueError):
    """What somebody gave cannot be used; the message says what it is and what to do.

    A bug raises something else: where this becomes one line, a bug keeps its traceback.
    """


class RejectedError(UnusableError):
    """Input that cannot be used; `field` says which part, the message what it must be.

    At a boundary it becomes a refused RPC or a dead letter. It never stops a service. `others` are
    wrong beside it, where somebody looked at all fields.
    """

    def __init__(self, field: str, problem: str, *others: "RejectedError") -> None:
        # All are arguments of the base class: processes hand errors on by these.
        super().__init__(field, problem, *others)
        self.field = field
        self.problem = problem
        self.others = others

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"

    def each(self) -> Iterator["RejectedError"]:
        """Yield every violated field, this one first."""
        yield RejectedError(self.field, self.problem)
        for other in self.others:
            yield from other.each()

    def inside(self, path: str) -> "RejectedError":
        """Return the error of a part as one of the whole, in which the part has this path."""
        field = f"{path}.{self.field}" if self.field else path
        return RejectedError(field, self.problem, *(other.inside(path) for other in self.others))


class Violations:
    """Collects the violated fields of one input, so that its sender sees them at once."""

    def __init__(self) -> None:
        self._errors: list[RejectedError] = []

    def check(self, check: Callable[..., object], *values: object) -> None:
        """Run a check of one field and keep what it raises."""
        try:
            check(*values)
        except RejectedError as error:
            self.add(error)

    def add(self, error: RejectedError) -> None:
        """Keep a violation. Raise RejectedError once there are enough of them."""
        self._errors += error.each()
        if len(self._errors) >= MOST_VIOLATIONS:
            self.require_none()

    def require_none(self) -> None:
        """Raise RejectedError for all that was kept; return where nothing was."""
        if self._errors:
            first, *others = self._errors[:MOST_VIOLATIONS]
            raise RejectedError(first.field, first.problem, *others)


class WrongSettingsError(UnusableError):
    """Settings that cannot work; the message names each variable."""


class CannotStartError(Exception):
    """What a process needs is not there; the message says what, and what to do."""
