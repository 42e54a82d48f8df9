"""What stands against a job."""

from dataclasses import dataclass

from shared.placement.reasons.constraints import Constraint


@dataclass(frozen=True, slots=True)
class PendingReason:
    """What stands against a job, until when is never known; a `lasting` reason stays until somebody
    does something about it.

    `figures` end the words of one that comes and goes with what runs. They change with every start
    and are no news: `what` is.
    """

    constraint: Constraint
    lasting: bool = False
    figures: str = ""

    @property
    def what(self) -> str:
        """In words, without figures."""
        return self.constraint.words.removesuffix(self.figures)
