"""What is wrong with input, as errors that carry data."""


class UnusableError(ValueError):
    """What somebody gave cannot be used; the message says what it is and what to do.

    A bug raises something else: where this becomes one line, a bug keeps its traceback.
    """


class RejectedError(UnusableError):
    """Input that cannot be used; `field` says which part, the message what it must be.

    At a boundary it becomes a refused RPC or a dead letter. It never stops a service.
    """

    def __init__(self, field: str, problem: str) -> None:
        # Both are arguments of the base class: processes hand errors on by these.
        super().__init__(field, problem)
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class WrongSettingsError(UnusableError):
    """Settings that cannot work; the message names each variable."""


class CannotStartError(Exception):
    """What a process needs is not there; the message says what, and what to do."""
