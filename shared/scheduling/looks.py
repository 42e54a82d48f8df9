"""What a look of Slurm's backfill leaves to the next one. Not compiled: rows of state are read by
their types, which compiled tuples do not have."""

from math import inf
from typing import Final, NamedTuple

from shared.scheduling.dispatch import DONE
from shared.scheduling.load import Reservation


class ReservedStart(NamedTuple):
    """What a look reserved for a job that waits."""

    arrival: int
    nodes: int
    start_s: float
    end_s: float
    draw_mw: int

    @property
    def reservation(self) -> Reservation:
        """Return it as the reservations of other disciplines."""
        return Reservation(self.arrival, self.nodes, self.start_s)


class Look(NamedTuple):
    """The last look of the backfill scheduler: when, what it reserved, before which order it ended
    early, and whether that was because its table was full.

    `is_changed` says whether anything happened since; where nothing did, `seen` is what waited and
    ran then, as a number.
    """

    at_s: float = -inf
    is_changed: bool = False
    seen: int = 0
    reserved: tuple[ReservedStart, ...] = ()
    ended_before: int = DONE
    is_table_full: bool = False


NO_LOOK: Final = Look()
