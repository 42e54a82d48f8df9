"""Why an entry did not start: texts that name what would have to be different."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from traceback import extract_tb
from typing import Final

import numpy as np

from shared.scheduling.easy import Plan
from shared.scheduling.lane import Lane
from shared.scheduling.load import NodeSet, Reservation, Standing
from shared.scheduling.pairing import Pairing
from shared.scheduling.queue import Entry

# What is said of an entry that came into the queue after the pass.
NOTHING: Final = "nothing stands against it: it is tried at the end of the next round"
_MOST_TEXT: Final = 256


def when(time_s: float) -> str:
    """A time in UTC to the second."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unexplained(error: Exception) -> str:
    """What stands where an explanation failed: which defect to report."""
    at = extract_tb(error.__traceback__)[-1]
    place = f"{at.name} of {Path(at.filename).name}"
    return f"no explanation, please report {type(error).__name__} in {place}: {error}"[:_MOST_TEXT]


@dataclass(frozen=True, slots=True)
class Refusals:
    """The reasons of one pass; `job_ids` by arrival number."""

    plan: Plan
    job_ids: Mapping[int, str]

    def why(self, cluster: str, entry: Entry) -> str:
        """Why an entry did not start when its turn came."""
        lane = self.plan.lanes[cluster]
        before = lane.standing_before(entry)
        alone = self._why_not_alone(lane, entry, before)
        pairing = lane.pairing
        if pairing is None or not entry.shareable or entry.nodes > lane.total:
            return alone
        return f"{alone}; {self._why_not_joined(lane, pairing, entry, before)}"

    def _why_not_alone(self, lane: Lane, entry: Entry, before: Standing) -> str:
        if entry.nodes > lane.total:
            return f"needs {entry.nodes} nodes, the cluster has {lane.total}"
        if entry.nodes > before.free:
            return f"needs {entry.nodes} nodes, {before.free} free"
        if before.reservation is None:
            return NOTHING
        return (
            f"would end at {when(lane.end_s(entry))}, after {self._promise(before.reservation)}, "
            f"and use more than its {before.extra} extra nodes"
        )

    def _why_not_joined(self, lane: Lane, pairing: Pairing, entry: Entry, before: Standing) -> str:
        hosts = list(lane.hosts_at(before.tick, entry.nodes))
        if not hosts:
            return f"no shareable job runs alone on {entry.nodes} nodes"
        if any(np.isfinite(pairing.summed_slowdowns(h.app)[entry.app]) for h in hosts):
            if before.reservation is None:
                return NOTHING
            return f"with a co-runner it would keep nodes after {self._promise(before.reservation)}"
        return _why_no_pair(pairing, entry, hosts)

    def _promise(self, reservation: Reservation) -> str:
        job = self.job_ids.get(reservation.arrival, "a job that is gone since")
        return f"the reservation of {job} at {when(reservation.start_s)}"


def _why_no_pair(pairing: Pairing, entry: Entry, hosts: list[NodeSet]) -> str:
    pairs = {host.app: (entry.app, host.app) for host in hosts}.values()
    worst = [max(pairing.slowdown(a, b), pairing.slowdown(b, a)) for a, b in pairs]
    mildest = min((slowdown for slowdown in worst if not np.isnan(slowdown)), default=None)
    if mildest is None:
        return "no slowdown is predicted for a pair with the jobs that run alone"
    return f"every pair would slow down {mildest:.2f} times or more, {pairing.max_slowdown} is most"
