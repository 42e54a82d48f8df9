"""What a failure is blamed on: its identity across processes, and the search for its cause."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from traceback import walk_tb
from typing import Final, Protocol, Self, TypeVar, runtime_checkable

from shared.catalogue.record import Record, TopicPartition
from shared.streams.stages.stage import Round

T = TypeVar("T")

# Frames above belong to the driver; they differ between the first failure and a trial of it.
_OUTERMOST: Final = "shared.streams.stages.unit"
_KEPT_STACK: Final = 8_192
_KEPT_WORDS: Final = 512

At = tuple[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """An unexpected error as people see it.

    `digest` is SHA-256 in hex over the error's kind and the functions that it went through: the
    same failure has it in every process and for every input.
    """

    what: str
    stack: str
    digest: str

    @classmethod
    def from_error(cls, error: BaseException) -> Self:
        """Return the fault that an exception describes."""
        frames = [
            (str(frame.f_globals.get("__name__", "?")), frame.f_code.co_name, line)
            for frame, line in walk_tb(error.__traceback__)
        ]
        names = [module for module, _, _ in frames]
        frames = frames[names.index(_OUTERMOST) if _OUTERMOST in names else 0 :]
        # An endless recursion ends at another depth each time.
        functions = dict.fromkeys(f"{module}:{function}" for module, function, _ in frames)
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        what = f"{type(error).__name__}: {error}"[:_KEPT_WORDS]
        lines = [f"{module}:{line} in {function}" for module, function, line in frames]
        stack = "\n".join([*lines, what])[-_KEPT_STACK:]
        return cls(what, stack, hashlib.sha256("\n".join([kind, *functions]).encode()).hexdigest())

    @classmethod
    def from_death(cls, how: str, stack: str) -> Self:
        """Return the fault of a process that ended without an exception: by which signal, and the
        stack that `faulthandler` wrote, innermost first, if it could."""
        functions = dict.fromkeys(re.findall(r"in (\S+)$", stack, re.MULTILINE))
        digest = hashlib.sha256("\n".join([how, *functions]).encode()).hexdigest()
        return cls(f"the process died: {how}", stack[:_KEPT_STACK], digest)

    @property
    def reason(self) -> str:
        """Return why it is left out, with what went wrong last."""
        return f"handling it failed again after restarts: {self.what}"


@dataclass(frozen=True, slots=True)
class Blame:
    """What a unit leaves out: records become dead letters, subjects of its processor are held, and
    rounds end with nothing decided."""

    records: Mapping[At, Fault] = field(default_factory=dict)
    subjects: Mapping[str, Fault] = field(default_factory=dict)
    rounds: Mapping[int, Fault] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.records) + len(self.subjects) + len(self.rounds)

    def with_records(self, ats: Sequence[At], fault: Fault) -> "Blame":
        """Return the blame with these records too."""
        return replace(self, records={**self.records, **dict.fromkeys(ats, fault)})

    def with_subjects(self, subjects: Sequence[str], fault: Fault) -> "Blame":
        """Return the blame with these subjects too."""
        return replace(self, subjects={**self.subjects, **dict.fromkeys(subjects, fault)})

    def with_round(self, number: int, fault: Fault) -> "Blame":
        """Return the blame with this round too."""
        return replace(self, rounds={**self.rounds, number: fault})


@runtime_checkable
class Isolating(Protocol):
    """A processor that can leave single subjects out of the end of a round, such as jobs."""

    def suspects(self) -> Sequence[str]:
        """Return what the end of this round is going to deal with, in a fixed order."""
        ...

    def hold_back(self, subject: str, fault: Fault, ended: Round) -> None:
        """Keep a subject out of this round, that ends, and the next ones, and say so where it is
        asked about; one that is not known, or kept out already, changes nothing."""
        ...


def identify(record: Record) -> At:
    """Return what identifies a record."""
    return record.partition, record.offset


def culprits(
    candidates: Sequence[T], fails: Callable[[Sequence[T]], bool], most: int
) -> list[T] | None:
    """Return candidates without which nothing fails any more, located one after another by halving.

    `fails` gets what is left out. None when leaving out all of them does not help, or when it
    takes more than `most`.
    """
    found: list[T] = []
    while fails(found):
        rest = [candidate for candidate in candidates if candidate not in found]
        if len(found) == most or fails([*found, *rest]):
            return None
        found.append(rest[_fewest_failing(rest, lambda left_out: fails([*found, *left_out])) - 1])
    return found


def _fewest_failing(candidates: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> int:
    """Return how many of the first candidates it takes to fail while the others are left out."""
    passing, failing = 0, len(candidates)
    while failing - passing > 1:
        middle = (passing + failing) // 2
        if fails(candidates[middle:]):
            failing = middle
        else:
            passing = middle
    return failing
