"""The controller of shutters: algorithms 1 to 3 over the jobs of a node."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope

from coplace_agent.adapters.jobs import AttachedJob, AttachedJobs, JobFile
from coplace_agent.adapters.pausing import Pauser
from coplace_agent.adapters.progress import ProgressCounter
from coplace_agent.adapters.spool import Spool
from coplace_agent.clocks import Clocks
from coplace_agent.messages import shutters_event, shutters_measured
from coplace_agent.meter import AgentMeter, ShutterResult
from coplace_agent.model import (
    Interval,
    IntervalLog,
    Rates,
    Timing,
    adapted,
    least_period_s,
    next_in_turn,
    rate,
)
from coplace_agent.observer import NodeObserver
from coplace_agent.settings import AgentSettings

# Of the newest shutter in the mean of what one costs beyond its measurements.
_NEWEST: Final = 0.1


class Controller:
    """Shutters the jobs that run together, one after the other, and spools what that showed."""

    def __init__(
        self,
        settings: AgentSettings,
        table: AttachedJobs,
        pauser: Pauser,
        spool: Spool,
        meter: AgentMeter,
        clocks: Clocks,
    ) -> None:
        self._settings = settings
        self._observer = NodeObserver(settings, spool, clocks)
        self._table = table
        self._pauser = pauser
        self._spool = spool
        self._meter = meter
        self._clocks = clocks
        self._intervals = IntervalLog(settings.interval_s, settings.most_shutters)
        self._files: Mapping[str, JobFile] = {}
        self._last = ""
        self._cost_s = 0.0
        self._look_at_s = 0.0

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, and publish what was measured by then."""
        while not stop.is_set():
            stop.wait(self.step())
        self._together({})
        self._observer.close()
        self._table.close()

    def step(self) -> float:
        """Make one turn of algorithm 3; returns for how long all jobs are to run undisturbed.

        Raises WatchdogLostError, OSError.
        """
        running = self._look()
        self._meter.jobs(len(running))
        self._together(running)
        measured = {key: job.progress for key, job in running.items() if job.progress}
        if len(running) < 2 or not measured or self._spool.is_full:
            return self._settings.look_s
        timing = adapted(self._settings.timing, len(running), self._cost_s, self._settings.budget)
        self._last = next_in_turn(self._last, list(measured))
        began_s = self._clocks.steady_s()
        pause_s = self._shutter(self._last, measured[self._last], running, timing)
        took_s = self._clocks.steady_s() - began_s
        # What took longer than was expected is paid for at once.
        owed_s = least_period_s(len(running), pause_s, self._settings.overhead)
        timing = replace(timing, period_s=max(timing.period_s, owed_s))
        self._meter.shutter(len(running), pause_s, timing)
        self._meter.shared(len(running), took_s + timing.period_s)
        return timing.period_s

    def _look(self) -> Mapping[str, AttachedJob]:
        """The jobs that run; now and then with a look for new ones, and at the node."""
        if self._clocks.steady_s() < self._look_at_s:
            return self._table.running()
        self._table.look()
        running = self._table.running()
        self._observer.look(running)
        self._look_at_s = self._clocks.steady_s() + self._settings.look_s
        return running

    def _shutter(
        self,
        key: str,
        progress: ProgressCounter,
        running: Mapping[str, AttachedJob],
        timing: Timing,
    ) -> float:
        """Algorithm 2 between two measurements; returns how long the others were paused. Of these
        nothing is read: algorithm 4 uses the three windows of the one that runs alone."""
        others = [job.processes for other, job in running.items() if other != key]
        before = self._measure(progress, timing)
        began_s = self._clocks.steady_s()
        with self._pauser.paused(others) as all_stand_still:
            during = self._measure(progress, timing)
            is_whole = all_stand_still()
        pause_s = self._clocks.steady_s() - began_s
        after = self._measure(progress, timing)
        is_whole = is_whole and pause_s < self._settings.most_pause_s
        if is_whole:
            self._intervals.add(key, Rates.of((before, during, after)))
        self._meter.result(ShutterResult.MEASURED if is_whole else ShutterResult.SPOILED)
        cost_s = pause_s - timing.measurements * timing.measurement_s
        self._cost_s += _NEWEST * (max(0.0, cost_s) - self._cost_s)
        return pause_s

    def _measure(self, progress: ProgressCounter, timing: Timing) -> list[float]:
        """Algorithm 1: the rates of K stretches of S."""
        rates = []
        for _ in range(timing.measurements):
            begin = progress.read()
            self._clocks.sleep(timing.measurement_s)
            rates.append(rate(begin, progress.read()))
        return rates

    def _together(self, running: Mapping[str, AttachedJob]) -> None:
        """Note which jobs run together from now on; publish the intervals that ended by that."""
        ended = self._intervals.beside(
            list(running), self._clocks.wall_us(), self._clocks.steady_s()
        )
        files = {key: job.file for key, job in running.items()}
        self._tell(ended, {**self._files, **files})
        self._files = files

    def _tell(self, ended: Iterable[Interval], files: Mapping[str, JobFile]) -> None:
        for interval in ended:
            event = self._event(interval, files)
            if event is not None:
                self._spool.add(event)

    def _event(self, interval: Interval, files: Mapping[str, JobFile]) -> Envelope | None:
        job, co_runner = files[interval.job], files[interval.co_runners[0]]
        settings = self._settings
        measured = shutters_measured(
            interval, job, co_runner, settings.node_model, settings.node_cores
        )
        return shutters_event(measured, settings.source) if measured else None
