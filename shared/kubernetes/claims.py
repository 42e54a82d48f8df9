"""The word on a grant, and the end of a run that was asked for, as records keep them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self

from coplace_client.bounds import ATTEMPT, CLOCK_GHZ, GRANT, NODES, UNITS_PER_NODE, WALLTIME_S
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.domain.hostlist import expand
from shared.kubernetes.texts import shown

_EARLIEST_US: Final = 946_684_800_000_000
_LATEST_US: Final = 4_102_444_800_000_000
# What a field holds that is not there, or of another type.
_WRONG: Final = (KeyError, TypeError, ValueError, OverflowError, AttributeError)


@dataclass(frozen=True, slots=True)
class GrantClaim:
    """The words that were given on a Job's grants: the newest one that was started, and the newest
    one that was declined; 0 where there is none. All older ones have been answered.

    `attempt` is that of the run while the claim is live, else that of the next one; `nodes` are
    host lists. `run_uid` is the id of what runs, the Job itself or its copy, once it does.
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
    run_uid: str = ""

    def has_answered(self, grant: int) -> bool:
        """Return whether a grant was answered: the first answer is final."""
        return grant <= max(self.grant, self.declined)

    @property
    def has_begun(self) -> bool:
        """Return whether its run has begun and has not ended."""
        return self.is_live and bool(self.run_uid)

    @property
    def units(self) -> tuple[int, ...]:
        """Return the units on each of its nodes."""
        return self.node_units or (1,) * sum(len(expand(each)) for each in self.nodes)

    def began(self, run_uid: str, at_us: int) -> Self:
        """Return the claim after its run has begun."""
        return replace(self, run_uid=run_uid, at_us=max(self.at_us, at_us))

    def over(self) -> Self:
        """Return the claim after what ran under it has ended, and the Job waits again."""
        return replace(self, is_live=False, attempt=self.attempt + 1)

    def declining(self, grant: int, attempt: int) -> Self:
        """Return the claim after a grant was declined; what runs under an older one goes on."""
        is_own = self.is_live and grant == self.grant
        running = self.is_live and not is_own
        kept = self.attempt if running else max(self.attempt, attempt)
        return replace(self, declined=grant, is_live=running, attempt=kept)

    def to_fields(self) -> dict[str, Any]:
        """Return the claim as its record has it."""
        return {
            "grant": self.grant,
            "attempt": self.attempt,
            "isLive": self.is_live,
            "declined": self.declined,
            "cluster": self.cluster,
            "freqGhz": self.freq_ghz,
            "walltimeS": self.walltime_s,
            "atUs": self.at_us,
            "nodes": list(self.nodes),
            "nodeUnits": list(self.node_units),
            "runUid": self.run_uid,
        }

    @classmethod
    def of_fields(cls, told: Mapping[str, Any]) -> Self:
        """Return the claim of a record; where that has none, no grant was answered. Raises
        RejectedError."""
        if not told:
            return cls()
        try:
            found = cls(
                grant=int(told["grant"]),
                attempt=int(told["attempt"]),
                is_live=bool(told["isLive"]),
                declined=int(told["declined"]),
                cluster=str(told["cluster"]),
                freq_ghz=float(told["freqGhz"]),
                walltime_s=float(told["walltimeS"]),
                at_us=int(told["atUs"]),
                nodes=tuple(map(str, told["nodes"])),
                node_units=tuple(map(int, told["nodeUnits"])),
                run_uid=str(told["runUid"]),
            )
        except _WRONG as error:
            raise RejectedError("status.claim", f"must be a claim: {error!r}") from error
        found.check()
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
    # It cannot begin: its grant is declined.
    DECLINE = "decline"

    def goes_before(self, other: "AfterStop") -> bool:
        """Return whether it takes the place of what was asked before: who cancels goes before all,
        and a run that is not the Job's any more before one that waits again."""
        return self._rank > other._rank

    @property
    def _rank(self) -> int:
        return {AfterStop.CANCEL: 2, AfterStop.FORGET: 1}.get(self, 0)


@dataclass(frozen=True, slots=True)
class StopRequest:
    """That a run has to end, why, and what follows; `failed_nodes` are why, where they are."""

    then: AfterStop
    reason: str
    at_us: int
    failed_nodes: tuple[str, ...] = ()

    def to_fields(self) -> dict[str, Any]:
        """Return the request as its record has it."""
        return {
            "then": str(self.then),
            "reason": shown(self.reason),
            "atUs": self.at_us,
            "failedNodes": list(self.failed_nodes),
        }

    @classmethod
    def of_fields(cls, told: Mapping[str, Any]) -> Self | None:
        """Return the request of a record; None where it has none. Raises RejectedError."""
        if not told:
            return None
        try:
            return cls(
                AfterStop(told["then"]),
                str(told["reason"]),
                int(told["atUs"]),
                tuple(map(str, told["failedNodes"])),
            )
        except _WRONG as error:
            raise RejectedError("status.stop", f"must be a request: {error!r}") from error
