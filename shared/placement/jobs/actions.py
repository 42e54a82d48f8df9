"""Actions on jobs that run: what their resource managers were asked to do and have not answered.

Silence ends none. Until an action is answered, what is committed is the larger draw and the later
release of how the job is and of how it was asked to be.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_RESUME,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
)
from coplace.v1.placement_pb2 import ActionKind as ActionKindMessage


class ActionKind(StrEnum):
    """What can be done to a job that runs."""

    SET_PSTATE = "set P-state"
    SUSPEND = "suspend"
    RESUME = "resume"
    END = "end"
    REQUEUE = "requeue"


MESSAGES: Final[dict[ActionKind, ActionKindMessage.ValueType]] = {
    ActionKind.SET_PSTATE: ACTION_KIND_SET_PSTATE,
    ActionKind.SUSPEND: ACTION_KIND_SUSPEND,
    ActionKind.RESUME: ACTION_KIND_RESUME,
    ActionKind.END: ACTION_KIND_END,
    ActionKind.REQUEUE: ACTION_KIND_REQUEUE,
}
KINDS: Final = {message: kind for kind, message in MESSAGES.items()}

# After these nothing is left to be acted on.
ENDS: Final = frozenset({ActionKind.END, ActionKind.REQUEUE})


@dataclass(frozen=True, slots=True)
class Action:
    """How a job is to be from now on: its P-state, what it draws there and the limit of a whole run
    there, and whether it is suspended. Actions on an attempt are numbered from 1."""

    number: int
    kind: ActionKind
    freq_ghz: float
    draw_mw: int
    walltime_s: float
    is_suspended: bool
    asked_s: float
    reason: str

    @property
    def stops(self) -> bool:
        """Whether the job runs no more once the action is done; an end takes effect by its
        finish."""
        return self.is_suspended or self.kind in ENDS

    @property
    def drawn_mw(self) -> int:
        """What it is predicted to draw beyond idle once the action is done."""
        return 0 if self.stops else self.draw_mw

    @property
    def words(self) -> str:
        """What is asked."""
        at = f" to {self.freq_ghz:g} GHz" if self.kind is ActionKind.SET_PSTATE else ""
        return f"{self.kind}{at}"


class Refused(NamedTuple):
    """A kind of action that a resource manager refused, and when that was told."""

    kind: ActionKind
    since_s: float
