"""Look-ahead over the entries of PriorityInc-V: what it may choose from, and what comes of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from lab.simulation.entries import Entries
from lab.simulation.epm import Epm
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.system import System
from shared.eamc.frequency import worth_choosing
from shared.scheduling.lookahead import Bounds, LookAhead, Objective, Prices, Waiting
from shared.scheduling.plan_dispatch import LookAheadSchedule, replan
from shared.scheduling.plan_evaluation import ExecutionMode, PlannedEntry
from shared.scheduling.power import milliwatts
from shared.scheduling.workload import NO_ENTRY, Ints, Schedule


@dataclass(frozen=True, slots=True)
class Ahead:
    """The prices of look-ahead, how far it goes, and the policy that it starts from, at whose
    P-states jobs run where it keeps them."""

    prices: Prices
    bounds: Bounds
    keeps_pstates: bool = False
    starts_from: SimulatedPolicy = SimulatedPolicy.PRIORITY_INC_V


AS_TUNED: Final = Ahead(Prices(), Bounds())


def play_ahead(
    system: System, epm: Epm, entries: Entries, ahead: Ahead
) -> tuple[Entries, Schedule]:
    """Return the schedule of entries as look-ahead starts from them, and these at the P-states
    chosen."""
    objective = Objective(system.tariffs, ahead.prices)
    offered = _OfferedPstates(system, epm, entries, keeps=ahead.keeps_pstates)
    jobs = [offered.job(job) for job in range(len(entries.workload))]
    policy = LookAhead(objective, ahead.bounds)
    planned = replan(system.pools, jobs, offered.run_s, policy, system.over)
    return _chosen(entries, epm, planned), planned.schedule


class _OfferedPstates:
    """Jobs with all P-states that are worth a choice."""

    def __init__(self, system: System, epm: Epm, entries: Entries, *, keeps: bool) -> None:
        self._keeps = keeps
        work = entries.workload
        self._pools, self._left_mw = system.pools, system.left_mw
        self._app = entries.traits.app
        self._freq_ghz = entries.traits.freq_ghz
        self._projections = epm.projections
        self._worth = [
            [worth_choosing(projection, app) for app in range(len(epm.apps))]
            for projection in epm.projections
        ]
        self._order, self._units = work.order.tolist(), work.units.tolist()
        self._limit_s, self._run_s = work.limit_s.tolist(), work.run_s.tolist()
        self._power_w, self._submit_s = work.power_w.tolist(), work.submit_s.tolist()

    def job(self, job: int) -> Waiting:
        """One job as look-ahead knows it: nothing of its real run time."""
        clusters = range(len(self._projections))
        return Waiting(
            arrival=job,
            submit_s=self._submit_s[job],
            units=tuple(self._units[job]),
            modes=tuple(tuple(self._modes(job, cluster)) for cluster in clusters),
            usual=tuple(self._usual(job)),
        )

    def run_s(self, job: int, cluster: int, mode: ExecutionMode) -> float:
        """The real run time, as much longer than that of the entry as the limit is."""
        return float(self._run_s[job][cluster] * (mode.limit_s / self._limit_s[job][cluster]))

    def _usual(self, job: int) -> Iterator[PlannedEntry]:
        for cluster, order in enumerate(self._order[job]):
            if order != NO_ENTRY:
                pstate = self._pstate(job, cluster)
                limit_s, power_w = self._limit_s[job][cluster], self._power_w[job][cluster]
                mode = ExecutionMode(limit_s, power_w, pstate, self._idle_w(job, cluster, power_w))
                yield PlannedEntry(order, job, cluster, self._units[job][cluster], mode)

    def _modes(self, job: int, cluster: int) -> Iterator[ExecutionMode]:
        if self._order[job][cluster] == NO_ENTRY:
            return
        app, usual = self._app[job], self._pstate(job, cluster)
        projection = self._projections[cluster]
        time_s, node_w = projection.time_s[app], projection.power_w[app]
        for pstate in [usual] if self._keeps else self._worth[cluster][app]:
            longer = float(time_s[pstate] / time_s[usual])
            drawn_w = self._power_w[job][cluster] * float(node_w[pstate] / node_w[usual])
            limit_s, idle_w = self._limit_s[job][cluster], self._idle_w(job, cluster, drawn_w)
            mode = ExecutionMode(longer * limit_s, drawn_w, pstate, idle_w)
            if milliwatts(mode.draw_w) <= self._left_mw[cluster]:
                yield mode

    def _idle_w(self, job: int, cluster: int, drawn_w: float) -> float:
        """What of it counts as idle power already."""
        units: int = self._units[job][cluster]
        return min(units * self._pools[cluster].idle_w, drawn_w)

    def _pstate(self, job: int, cluster: int) -> int:
        return self._projections[cluster].pstates_ghz.index(self._freq_ghz[job, cluster])


def _chosen(entries: Entries, epm: Epm, planned: LookAheadSchedule) -> Entries:
    """The entries with limit, run time, power and frequency as chosen where each job ran."""
    schedule = planned.schedule
    ran: tuple[Ints, Ints] = np.arange(len(entries.workload)), schedule.cluster
    work, traits = entries.workload, entries.traits
    run_s, power_w, freq_ghz = work.run_s.copy(), work.power_w.copy(), traits.freq_ghz.copy()
    limit_s = work.limit_s.copy()
    run_s[ran] = schedule.end_s - schedule.start_s
    power_w[ran], limit_s[ran] = planned.power_w, planned.limit_s
    freq_ghz[ran] = [
        epm.projections[cluster].pstates_ghz[pstate]
        for cluster, pstate in zip(schedule.cluster, planned.pstate, strict=True)
    ]
    return replace(
        entries,
        workload=replace(work, run_s=run_s, power_w=power_w, limit_s=limit_s),
        traits=replace(traits, freq_ghz=freq_ghz),
    )
