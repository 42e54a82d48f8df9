"""The dispatcher that an engine asks, and the scheduler of each cluster that takes turns in a
pass."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from sys import maxsize
from typing import Final, TypeVar

from shared.scheduling.power import Budgets
from shared.scheduling.problem import Allocation
from shared.scheduling.wait_queue import Entry, WaitQueue

_Class = TypeVar("_Class")

try:
    from mypy_extensions import mypyc_attr
except ImportError:  # only the compiler needs it: it may be missing where the project runs

    def mypyc_attr(*_: str, **__: object) -> Callable[[_Class], _Class]:
        """Leave the class as it is."""
        return lambda a_class: a_class


# A start: the number of its cluster, the entry, its nodes where they were chosen and not only
# counted, and if it passes a blocked one.
Served = tuple[int, Entry, Allocation | None, bool]
# The next order of a scheduler in which no entry will act before something changes.
DONE: Final = maxsize
# No job runs otherwise than before.
_AS_BEFORE: Final[Mapping[int, float]] = {}


@mypyc_attr(allow_interpreted_subclasses=True)
class Dispatcher(ABC):
    """Observes what happens and decides what starts, and what is done to running jobs. It knows no
    run time before a job has ended.

    At each instant it is notified of all ends, then of all arrivals, then asked once. A class and
    no protocol: compiled code calls its methods without looking them up by name. One that is tried
    need not be compiled.
    """

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Return True while anything waits."""

    @abstractmethod
    def arrive(self) -> None:
        """Take the next of the arrivals."""

    @abstractmethod
    def end(self, number: int, holder: int) -> None:
        """Note that the job `holder` has left the cluster of this number."""

    @abstractmethod
    def decide(self, now_s: float) -> list[Served]:
        """Return the entries that start now; they have left the queue."""

    @abstractmethod
    def wake_s(self, now_s: float) -> float:
        """Return when it is to be asked again even if nothing happens; infinite if it need not
        be."""

    def slowdowns(self) -> Mapping[int, float]:
        """Return what the last decision did to running jobs, by holder: how many seconds a second
        of its run time takes from now on, beside its neighbours and at its P-state. It is 1 until
        another is returned, SUSPENDED while the job is suspended, ENDED where it ends at once."""
        return _AS_BEFORE


class Scheduler(ABC):
    """One cluster under some discipline, that takes turns with others in a pass: see
    BackfillScheduler. A class, as Dispatcher is."""

    next_order: int
    queue: WaitQueue
    budgets: Budgets
    # Whether a job has a sooner reservation by its last turn than it had elsewhere.
    has_moved = False

    @property
    @abstractmethod
    def is_relieved(self) -> bool:
        """Return True when another pass may start more."""

    @abstractmethod
    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue."""

    @abstractmethod
    def drop(self, arrival: int) -> None:
        """Take out the entry of a job that started elsewhere, and what was promised to it."""

    @abstractmethod
    def release(self, holder: int) -> None:
        """Free the nodes of the job `holder`."""

    @abstractmethod
    def begin(self, now_s: float) -> None:
        """Start a pass in which other schedulers take turns."""

    @abstractmethod
    def turn(self) -> None:
        """Look for the next entry that acts: none does before `next_order`."""

    @abstractmethod
    def serve(self) -> Served | None:
        """Let the entry of the present turn act: return what starts, if any."""

    def look_again(self) -> None:
        """Note that others reserve less than when the last turns came; nothing where it reserves
        for many."""
        return

    @abstractmethod
    def finish(self) -> None:
        """End the pass."""

    @abstractmethod
    def pass_alone(self, now_s: float) -> list[Served]:
        """Make a pass that this scheduler is alone in: return what starts."""
