"""The word on a grant, and the end of a run that was asked for, as annotations keep them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self

import orjson

from coplace_client.bounds import ATTEMPT, CLOCK_GHZ, GRANT, NODES, UNITS_PER_NODE, WALLTIME_S
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.domain.hostlist import expand

_EARLIEST_US: Final = 946_684_800_000_000
_LATEST_US: Final = 4_102_444_800_000_000
_MOST_REASON: Final = 256


@dataclass(frozen=True, slots=True)
class GrantClaim:
    """The words that were given on a Job's grants: the newest one that was started, and the newest
    one that was declined; 0 where there is none. All older ones have been answered.

    `attempt` is that of the run while the claim is live, else that of the next one; `nodes` are
    host lists.
    """

    grant: int = 0
    attempt: int = 1
    is_live: bool = False
    declined: int = 0
    cluster: str = ""
    freq_ghz: float = 0.0
    walltime_s: float = 0.0
    at_us: int = 0
    nodes: tuple[str, ...] = ()
    node_units: tuple[int, ...] = ()

    def has_answered(self, grant: int) -> bool:
        """Return whether a grant was answered: the first answer is final."""
        return grant <= max(self.grant, self.declined)

    def over(self) -> Self:
        """Return the claim after what ran under it has ended, and the Job waits again."""
        return replace(self, is_live=False, attempt=self.attempt + 1)

    def declining(self, grant: int, attempt: int) -> Self:
        """Return the claim after a grant was declined; what runs under an older one goes on."""
        is_own = self.is_live and grant == self.grant
        running = self.is_live and not is_own
        kept = self.attempt if running else max(self.attempt, attempt)
        return replace(self, declined=grant, is_live=running, attempt=kept)

    def to_json(self) -> str:
        """Encode the claim for an annotation."""
        return orjson.dumps(self).decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an annotation; where it is empty, or holds an invalid claim, no grant was
        answered."""
        told = _mapping(text)
        try:
            found = cls(
                grant=int(told["grant"]),
                attempt=int(told["attempt"]),
                is_live=bool(told["is_live"]),
                declined=int(told["declined"]),
                cluster=str(told["cluster"]),
                freq_ghz=float(told["freq_ghz"]),
                walltime_s=float(told["walltime_s"]),
                at_us=int(told["at_us"]),
                nodes=tuple(map(str, told["nodes"])),
                node_units=tuple(map(int, told["node_units"])),
            )
            found.check()
        except (KeyError, TypeError, ValueError, OverflowError):
            return cls()
        return found

    def check(self) -> None:
        """Raise RejectedError where its words are none that Coplace accepts."""
        GRANT.require_if_known("grant", self.grant)
        GRANT.require_if_known("declined", self.declined)
        ATTEMPT.require("attempt", self.attempt)
        if self.is_live:
            self._check_run()

    def _check_run(self) -> None:
        require_text("cluster", self.cluster)
        CLOCK_GHZ.require("freq_ghz", self.freq_ghz)
        WALLTIME_S.require("walltime_s", self.walltime_s)
        NODES.require("nodes", nodes := sum(len(expand(each)) for each in self.nodes))
        if self.node_units and len(self.node_units) != nodes:
            raise RejectedError("node_units", f"must be one of each of {nodes} nodes")
        for units in self.node_units:
            UNITS_PER_NODE.require("node_units", units)
        if not _EARLIEST_US <= self.at_us <= _LATEST_US:
            raise RejectedError("at_us", "must be a time of this century")


class AfterStop(StrEnum):
    """What follows when a run that had to end has ended."""

    # The Job waits again, as its next attempt.
    REQUEUE = "requeue"
    CANCEL = "cancel"
    # The run was no longer the Job's: its end is not published.
    FORGET = "forget"


@dataclass(frozen=True, slots=True)
class StopRequest:
    """That a run has to end, why, and what follows; `failed_nodes` are why, where they are."""

    then: AfterStop
    reason: str
    at_us: int
    failed_nodes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Encode the request for an annotation."""
        return orjson.dumps(self).decode()

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse an annotation; None where it is empty."""
        told = _mapping(text)
        try:
            found = cls(
                AfterStop(told["then"]),
                str(told["reason"])[:_MOST_REASON],
                int(told["at_us"]),
                tuple(map(str, told["failed_nodes"])),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return found if _EARLIEST_US <= found.at_us <= _LATEST_US else None


def _mapping(text: str) -> Mapping[str, Any]:
    try:
        told = orjson.loads(text or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
