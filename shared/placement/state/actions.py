"""Actions on jobs that run: what their resource managers were asked to do and have not answered.

Silence ends none. Until an action is answered, what is committed is the larger draw and the later
release of how the job is and of how it was asked to be.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final, Self

from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_RESUME,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
)
from coplace.v1.placement_pb2 import ActionKind as ActionKindMessage

from shared.scheduling.power import Cap, Scope, Shortage


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


class CauseKind(StrEnum):
    """Why something is asked of a running job."""

    OVER_CAP = "over cap"
    WATTS_FOR_JOB = "watts for a job"
    WATTS_RETURNED = "watts returned"
    REQUESTED = "requested"
    PUBLISHED = "published before"


@dataclass(frozen=True, slots=True)
class CapShortage:
    """A cap that refuses something, as it was at `at_s`, 0 for now: what is needed or committed,
    what is available or allowed, until when (infinite: as long as it stays declared), beside whose
    reservation, and on how many nodes meters are silent."""

    scope: Scope
    name: str
    needed_mw: int
    available_mw: int
    at_s: float = 0.0
    until_s: float = inf
    reserved_for: str = ""
    declared_by: str = ""
    reason: str = ""
    silent_nodes: int = 0

    @classmethod
    def of(cls, shortage: Shortage, reserved_for: str) -> Self:
        """Return the one of a budget that refuses a job, beside somebody's reservation."""
        cap = shortage.cap
        return cls(
            scope=cap.scope,
            name=cap.name,
            needed_mw=shortage.needed_mw,
            available_mw=shortage.available_mw,
            at_s=shortage.at_s,
            until_s=shortage.until_s,
            reserved_for=reserved_for,
            declared_by=cap.author,
            reason=cap.reason,
        )

    @property
    def cap_subject(self) -> str:
        """Return what the cap is of, in words."""
        return Cap(self.scope, self.name, ()).subject


@dataclass(frozen=True, slots=True)
class ActionCause:
    """Why, for the sake of which caps. `text` are the words of who asked, the id of the job that
    needs the watts, or what was published."""

    kind: CauseKind
    text: str = ""
    caps: tuple[CapShortage, ...] = ()


WATTS_RETURNED: Final = ActionCause(CauseKind.WATTS_RETURNED)


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
    cause: ActionCause

    @property
    def stops(self) -> bool:
        """Return whether the action stops the job once done; an end takes effect by its finish."""
        return self.is_suspended or self.kind in ENDS

    @property
    def drawn_mw(self) -> int:
        """Return what the job is predicted to draw beyond idle once the action is done."""
        return 0 if self.stops else self.draw_mw

    @property
    def words(self) -> str:
        """Return what is asked, in words."""
        at = f" to {self.freq_ghz:g} GHz" if self.kind is ActionKind.SET_PSTATE else ""
        return f"{self.kind}{at}"


@dataclass(frozen=True, slots=True)
class Refused:
    """A kind of action that a resource manager refused, and when it did."""

    kind: ActionKind
    since_s: float
