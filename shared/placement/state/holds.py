"""The holders of a job, and why each holds it.

Each holder's newest word counts. What is said of all holders is newer or older than what each said.
"""

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from coplace.v1.jobs_pb2 import (
    HOLDER_MANAGER,
    HOLDER_PLACEMENT,
    HOLDER_UNSPECIFIED,
    HOLDER_USER,
)

from shared.placement.state.stamps import Stamp

_NEVER: Final[Stamp] = (0, "")


class Holder(IntEnum):
    """A holder of jobs; all of them is said where nobody is named."""

    ALL = -1
    OPERATOR = HOLDER_UNSPECIFIED
    USER = HOLDER_USER
    MANAGER = HOLDER_MANAGER
    PLACEMENT = HOLDER_PLACEMENT


class HoldWord(NamedTuple):
    """The newest word of a holder: its event, and why the job is held, None where it is not."""

    holder: Holder
    asked: Stamp
    reason: str | None


Holds = tuple[HoldWord, ...]
"""By holder, each once."""


def word_of(holds: Holds, holder: Holder) -> HoldWord:
    """Return the newest word that counts for a holder."""
    found = [each for each in holds if each.holder in (holder, Holder.ALL)]
    return max(found, key=lambda each: (each.asked, each.holder), default=_silent(holder))


def with_word(holds: Holds, word: HoldWord) -> Holds:
    """Return the holds once a holder has said something newer. A release of all leaves what is
    newer than it."""
    others = (each for each in holds if each.holder is not word.holder)
    if word.holder is Holder.ALL:
        others = (each for each in others if each.asked > word.asked)
    return tuple(sorted([*others, word]))


def held_anew(holds: Holds, holder: Holder, reason: str) -> Holds:
    """Return the holds once a holder holds the job by no event: whatever is said later is newer."""
    return with_word(holds, HoldWord(holder, word_of(holds, holder).asked, reason))


def together(holds: Holds, others: Iterable[HoldWord]) -> Holds:
    """Return what is newest of both."""
    for word in others:
        if word.asked > word_of(holds, word.holder).asked:
            holds = with_word(holds, word)
    return holds


def reasons(holds: Holds) -> list[str]:
    """Return why a job is held, each once; operators may say the longest, which comes last."""
    ordered = sorted(holds, key=lambda each: each.holder is Holder.OPERATOR)
    return list(dict.fromkeys(each.reason for each in ordered if each.reason is not None))


def holders_of(numbers: Collection[int]) -> list[Holder]:
    """Return the holders that a release names: all where it names none."""
    return [Holder(number) for number in sorted(set(numbers))] or [Holder.ALL]


def _silent(holder: Holder) -> HoldWord:
    return HoldWord(holder, _NEVER, None)
