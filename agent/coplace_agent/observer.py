"""What is seen of a node beside shutters: what it draws, and who had it alone."""

import logging
from collections.abc import Mapping
from typing import Final

from coplace_agent.adapters.counters import (
    CACHE_MISSES,
    CYCLES,
    INSTRUCTIONS,
    TASK_CLOCK,
    NoCounterError,
    ThreadCounters,
)
from coplace_agent.adapters.frequency import frequency_limits
from coplace_agent.adapters.jobs import AttachedJob
from coplace_agent.adapters.power import NodeMeter, NoMeterError, node_meter
from coplace_agent.adapters.progress import Heartbeats
from coplace_agent.adapters.spool import Spool
from coplace_agent.clocks import Clocks
from coplace_agent.messages import node_samples, signature_measured
from coplace_agent.node_power import PowerSample, PowerSampler
from coplace_agent.settings import AgentSettings
from coplace_agent.signature import JobCounts, signature

_COUNTED: Final = (INSTRUCTIONS, CYCLES, CACHE_MISSES, TASK_CLOCK)

log = logging.getLogger(__name__)


class NodeObserver:
    """Spools the node's power, and the signature of each job that runs on it alone.

    Where the node has no meter nothing is published, where it has no counters no signature; the log
    says so, once."""

    def __init__(self, settings: AgentSettings, spool: Spool, clocks: Clocks) -> None:
        self._settings = settings
        self._spool = spool
        self._clocks = clocks
        self._meter = _meter(settings, clocks)
        self._power = PowerSampler(settings.sample_s, settings.interval_s)
        self._alone: _Stretch | None = None
        self._told: set[tuple[str, float]] = set()
        self._counts_nothing = False

    def look(self, running: Mapping[str, AttachedJob]) -> None:
        """Observe the jobs that run now; to be called every second or so. Raises OSError of the
        spool."""
        now_s = self._clocks.steady_s()
        energy_j = None if self._spool.is_full else self._energy_j(now_s)
        if energy_j is None:
            self._power.lost()
            self._end_stretch()
            return
        self._tell_power(self._power.read(energy_j, now_s, self._clocks.wall_us()))
        self._follow(running, energy_j, now_s)

    def close(self) -> None:
        """Publish what is not published yet."""
        self._tell_power(self._power.rest())
        self._end_stretch()

    def _energy_j(self, now_s: float) -> float | None:
        if self._meter is None:
            return None
        try:
            return self._meter.energy_j(now_s)
        except (OSError, ValueError) as error:
            log.warning("power of the node cannot be read", extra={"problem": str(error)})
            return None

    def _tell_power(self, batch: list[PowerSample]) -> None:
        if batch:
            self._spool.add(node_samples(batch, self._settings))

    def _follow(self, running: Mapping[str, AttachedJob], energy_j: float, now_s: float) -> None:
        self._told = {(key, freq_ghz) for key, freq_ghz in self._told if key in running}
        job = _alone(running, self._settings.node_cores)
        limits = frequency_limits(self._settings.sys_dir)
        if self._alone is not None and not self._alone.goes_on(job, limits):
            self._end_stretch()
        if job is None or self._counts_nothing:
            return
        try:
            if self._alone is None:
                self._alone = _Stretch(job, limits)
            counts = self._alone.counts(energy_j, now_s)
        except NoCounterError as error:
            log.info("no signatures are measured", extra={"problem": str(error)})
            self._counts_nothing = True
            return
        self._tell_signature(self._alone, counts)

    def _tell_signature(self, stretch: "_Stretch", now: JobCounts) -> None:
        if now.at_s - stretch.began.at_s < self._settings.signature_s:
            return
        job = stretch.job.file
        found = signature(job.app_id, self._settings.node_model, stretch.began, now)
        stretch.began = now
        if found and (job.key, found.freq_ghz) not in self._told:
            self._told.add((job.key, found.freq_ghz))
            time_us = self._clocks.wall_us()
            self._spool.add(signature_measured(found, job, time_us, self._settings))

    def _end_stretch(self) -> None:
        if self._alone is not None:
            self._alone.close()
            self._alone = None


class _Stretch:
    """A job's time alone on the node at one limit of frequency."""

    began: JobCounts

    def __init__(self, job: AttachedJob, limits: tuple[str, ...]) -> None:
        self.job = job
        self._limits = limits
        self._counters = ThreadCounters(*_COUNTED)
        self._is_begun = False

    def goes_on(self, job: AttachedJob | None, limits: tuple[str, ...]) -> bool:
        """Whether it is still this job's."""
        return job is self.job and limits == self._limits

    def counts(self, energy_j: float, now_s: float) -> JobCounts:
        """The job's and the node's counters now, from which the stretch begins the first time.

        Raises NoCounterError.
        """
        self._counters.follow(self.job.processes.pids())
        instructions, cycles, misses, cpu_ns = self._counters.counts()
        found = JobCounts(
            now_s, energy_j, instructions, cycles, misses, cpu_ns / 1e9, self._beats()
        )
        if not self._is_begun:
            self.began, self._is_begun = found, True
        return found

    def close(self) -> None:
        """Let go of the counters."""
        self._counters.close()

    def _beats(self) -> float | None:
        progress = self.job.progress
        return progress.read().progress if isinstance(progress, Heartbeats) else None


def _alone(running: Mapping[str, AttachedJob], node_cores: int) -> AttachedJob | None:
    """Return the job that has the whole node, if it named its application and its cores."""
    if len(running) != 1:
        return None
    [job] = running.values()
    return job if job.file.app_id and job.file.cores == node_cores else None


def _meter(settings: AgentSettings, clocks: Clocks) -> NodeMeter | None:
    if not (settings.cluster and settings.node_model):
        problem = "COPLACE_AGENT_CLUSTER and COPLACE_AGENT_NODE_MODEL are not both set"
        log.info("power of the node is not published", extra={"problem": problem})
        return None
    try:
        return node_meter(settings.sys_dir, settings.rest_power_w, clocks.steady_s())
    except NoMeterError as error:
        log.warning("power of the node is not published", extra={"problem": str(error)})
        return None
