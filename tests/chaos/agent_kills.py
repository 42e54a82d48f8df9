"""`python -m tests.chaos.agent_kills`: kill -9 for a node agent at random points of its shutters.

Each life of the agent is killed within some hundredths of a second. After each no process of a job
may be stopped, and of all that was spooled no two intervals of a job may overlap: a shutter that
was counted twice would be in both.
"""

import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from coplace.v1.telemetry_pb2 import ShuttersMeasured

from coplace_agent.adapters.jobs import AttachedJobs, JobFile, JobFolder
from coplace_agent.adapters.pausing import Pauser
from coplace_agent.adapters.spool import Spool
from coplace_agent.adapters.watchdog import Watchdog
from coplace_agent.app import job_folder, pauses_file
from coplace_agent.clocks import Clocks
from coplace_agent.controller import Controller
from coplace_agent.meter import AgentMeter
from coplace_agent.settings import AgentSettings
from shared.process.clock import now_us
from tests.support.agent import job, none_stops, pids_of, states

JOBS: Final = 3
# The longest life of an agent from its first look at the jobs: some shutters of each.
_MOST_LIFE_S: Final = 0.4


@dataclass(slots=True)
class Outcome:
    """The results of the kills."""

    kills: int = 0
    while_paused: int = 0
    events: int = 0
    shutters: int = 0


class LeftStoppedError(AssertionError):
    """A process is stopped although no agent lives."""


class CountedTwiceError(AssertionError):
    """Two intervals of a job overlap."""


def settings_below(folder: Path) -> AgentSettings:
    """An agent that pauses somebody for a third of its time, and publishes often."""
    return AgentSettings(
        run_dir=folder / "run",
        spool_dir=folder / "spool",
        measurement_s=0.005,
        period_s=0.001,
        overhead=0.3,
        interval_s=0.05,
        look_s=0.05,
        standstill_s=0.01,
        source="north/alpha/n1",
    )


def run(kills: int, seed: int, folder: Path) -> Outcome:
    """Kill as many agents. Raises LeftStoppedError, CountedTwiceError."""
    drawn = random.Random(seed)
    settings = settings_below(folder)
    outcome = Outcome()
    with ExitStack() as stack:
        pids = []
        for number in range(JOBS):
            beats = folder / f"beats-{number}"
            first = stack.enter_context(job(heartbeats=beats, rest_s=0.0005))
            pids += pids_of(first)
            file = JobFile(job_id=f"north/alpha/{number}/1", pid=first, heartbeats=beats)
            job_folder(settings).attach(file)
        for kill in range(kills):
            outcome.while_paused += _life(settings, drawn.uniform(0, _MOST_LIFE_S), pids)
            if not none_stops(pids):
                raise LeftStoppedError(f"seed {seed}: after kill {kill + 1}")
            outcome.kills += 1
    told = [event.shutters_measured for _, event in Spool(settings.spool_dir, 1).waiting()]
    outcome.events, outcome.shutters = len(told), sum(len(each.shutters) for each in told)
    require_disjoint(told)
    return outcome


def _life(settings: AgentSettings, life_s: float, pids: Sequence[int]) -> bool:
    """One agent from its start to its kill; whether somebody was paused just then."""
    ready, its_ready = os.pipe()
    agent = os.fork()
    if agent == 0:
        os.close(ready)
        _agent(settings, its_ready)
    os.close(its_ready)
    try:
        assert os.read(ready, 1), "the agent did not start"
        time.sleep(life_s)
        was_paused = bool(states(pids) & {"T"})
    finally:
        os.kill(agent, signal.SIGKILL)
        os.close(ready)
    os.waitpid(agent, 0)
    return was_paused


def _agent(settings: AgentSettings, ready: int) -> NoReturn:
    """The agent as its service puts it together, without its health and metrics."""
    try:
        spool = Spool(settings.spool_dir, 1 << 30)
        watchdog = Watchdog(pauses_file(settings), settings.most_pause_s)
        own = frozenset({os.getpid(), watchdog.pid})
        table = AttachedJobs(JobFolder(settings.run_dir / "jobs"), own)
        pauser = Pauser(watchdog, settings.standstill_s)
        meter = AgentMeter()
        controller = Controller(settings, table, pauser, spool, meter, Clocks(now_us))
        os.write(ready, b"+")
        controller.run(threading.Event())
    except Exception:  # noqa: BLE001 the parent knows only that it ended
        traceback.print_exc()
    finally:
        os._exit(1)


def require_disjoint(told: Sequence[ShuttersMeasured]) -> None:
    """Raise CountedTwiceError where two intervals of a job overlap."""
    intervals: Mapping[str, list[tuple[int, int]]] = defaultdict(list)
    for each in told:
        intervals[each.job_id].append((each.began_at_us, each.ended_at_us))
    for job_id, found in intervals.items():
        found.sort()
        for (_, ended_us), (began_us, _) in pairwise(found):
            if began_us < ended_us:
                raise CountedTwiceError(f"{job_id}: {began_us} < {ended_us}")


def main(
    kills: Annotated[int, typer.Option(min=1, help="How many agents are killed.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the times at which they are.")] = 1,
) -> None:
    """Kill agents and say what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(kills, seed, Path(folder))
    typer.echo(
        f"{outcome.kills} kills, {outcome.while_paused} while somebody was paused: nobody was left "
        f"stopped; {outcome.shutters} shutters in {outcome.events} events, none twice"
    )
    if not outcome.while_paused:
        sys.exit("no kill came while somebody was paused: it proves nothing")


if __name__ == "__main__":
    typer.run(main)
