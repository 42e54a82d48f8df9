"""What is wrong with input, as an error that carries data."""


class RejectedError(ValueError):
    """Input that cannot be used; `field` says which part, the message what it must be.

    At a boundary it becomes a refused RPC or a dead letter. It never stops a service.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem
