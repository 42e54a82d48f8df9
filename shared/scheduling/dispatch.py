"""What an engine asks of whatever decides."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from shared.scheduling.problem import Allocation
from shared.scheduling.wait_queue import Entry

# What starts now: the number of its cluster, the entry, its nodes where they were chosen and not
# only counted, and if it passes a blocked one.
Served = tuple[int, Entry, Allocation | None, bool]
# Nobody runs otherwise than before.
_SAME_PACES: Mapping[int, float] = {}


class Dispatcher(ABC):
    """Observes what happens and decides what starts. It knows no run time before a job has ended.

    At each instant it is told of all ends, then of all arrivals, then asked once. A class and no
    protocol: compiled code calls its methods without looking them up by name.
    """

    @property
    @abstractmethod
    def waits(self) -> bool:
        """True while anything waits."""

    @abstractmethod
    def arrive(self) -> None:
        """The next of the arrivals is here."""

    @abstractmethod
    def end(self, number: int, holder: int) -> None:
        """The job `holder` has left the cluster of this number."""

    @abstractmethod
    def decide(self, now_s: float) -> list[Served]:
        """What starts now; it has left the queue."""

    @abstractmethod
    def wake_s(self, now_s: float) -> float:
        """When it is to be asked again even if nothing happens; infinite if it need not be."""

    def paces(self) -> Mapping[int, float]:
        """Whose pace the last decision changed: seconds of its run time that a job, by holder, gets
        done in a second from now on; 1 until it is said otherwise."""
        return _SAME_PACES
