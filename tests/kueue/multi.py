"""Workloads of six kinds at a real manager of MultiKueue with three real workers, by turns with
Kueue's own dispatcher and with Coplace's.

    python -m tests.kueue.multi --programs FOLDER --kueue FOLDER --jobs 60

API servers, Job controllers, schedulers, Kueues, Kafka and Coplace are real. Nodes are simulated:
they run applications of the emulator, each with its time and power by node model and clock. Then
comes what may happen: a cap, a worker that is cut off, kills. It says how long Workloads waited,
what they took, that each ran once, and whether charges equal what the nodes saw; 1 where something
is wrong.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from coplace.v1.telemetry_pb2 import SignatureMeasured

from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.benchmarks.kubernetes.cluster import call
from lab.emulator.adapters import EmulatorIngest
from lab.emulator.emulator import Emulator
from lab.workloads.clusters import IDLE_POWER_W, clusters
from shared.kubernetes.objects import condition_of
from shared.streams.on_kafka.deployment import Deployment
from tests.kueue.cluster import API, KueueCluster
from tests.kueue.fleet import (
    APPS,
    CORES,
    SEED,
    SHAPES,
    WORKERS,
    Fleet,
    PodRun,
    WorkerKubelets,
    entry,
    kubeconfig,
)
from tests.kueue.kinds import definitions
from tests.kueue.operators import Operators
from tests.kueue.plays import play_parser, run_play
from tests.kueue.region import charged, programs, region
from tests.kueue.relay import Relay
from tests.kueue.report import interval, print_all, print_round
from tests.kueue.rounds import Admissions, Player, Round
from tests.kueue.ways_out import HEARD_S, release, upgrade

_DISPATCHERS: Final = {
    "plain": "kueue.x-k8s.io/multikueue-dispatcher-all-at-once",
    "coplace": "coplace.io/dispatcher",
}
_TURNS: Final = ("plain", "coplace")
_OWN_QUEUES: Final = ("coplace", "upgrade", "release")
_JOULES_A_KWH: Final = 3.6e6
_LEARN_S: Final = 10.0
_WITHIN_S: Final = 120.0
_CUT: Final = "beta"
_MARGIN_S: Final = 20.0


@dataclass
class MultiKueue:
    """Everything that is played with."""

    arguments: argparse.Namespace
    manager: KueueCluster
    workers: Sequence[KueueCluster]
    fleet: Fleet
    player: Player
    servers: LocalServers
    own: Sequence[Program]
    deployment: Deployment

    @property
    def adapter(self) -> Program:
        """Return the adapter of Kueue."""
        return self.own[-1]

    async def dispatched_by(self, queue: str) -> None:
        """Have Kueue or Coplace choose clusters from now on."""
        await self.manager.kueue_anew(_DISPATCHERS[queue])
        if queue == "coplace":
            await asyncio.to_thread(self.servers.start, [self.adapter])
        await _active(self.manager)

    async def turn(self, number: int, queue: str) -> Round:
        """Play one turn; the later turn of a queue is with other Workloads than its first."""
        await self.dispatched_by(queue)
        seed = self.arguments.seed + number // len(_TURNS)
        words = (seed, self.arguments.rate, self.arguments.jobs)
        found = await self.round(queue, f"{queue}{number}", *words)
        if queue == "coplace":
            await asyncio.to_thread(self.servers.remove, [self.adapter])
        return found

    async def round(self, queue: str, name: str, seed: int, rate: float, jobs: int) -> Round:
        """Play one round to its end."""
        told = self.arguments
        words = (queue, name, jobs, rate, told.run_s, seed, told.within_s)
        found = await self.player.play(*words)
        runs = self.fleet.runs(found.submitted)
        where = {name: {run.worker for run in runs if run.name == name} for name in found.submitted}
        found.problems += [f"{name} ran on {of}" for name, of in where.items() if len(of) > 1]
        print_round(found)
        _print_runs(queue, runs)
        return found

    async def capped(self) -> Round:
        """A cap on what all nodes draw together."""
        idle_w = sum(self.arguments.nodes * IDLE_POWER_W[model] for model in WORKERS.values())
        cap_w = idle_w * self.arguments.cap
        print(f"cap: {cap_w:.0f} W; idle nodes draw {idle_w:.0f} W", flush=True)
        ports = {
            name: self.adapter.env[f"COPLACE_KUEUE_{name}_ADDRESS"]
            for name in ("INGEST", "PLACEMENT")
        }
        await asyncio.to_thread(_coplace, ports, "cap", "set", "north", f"{cap_w:.0f}")
        found = await self.round("coplace", "cap0", 11, self.arguments.rate, self.arguments.others)
        runs = self.fleet.runs(found.submitted)
        most_w = idle_w + _most_w(runs)
        print(f"cap: at most {most_w:.0f} W were drawn, {most_w / cap_w:.2f} of it", flush=True)
        if most_w > cap_w * 1.02:
            found.problems.append(f"{most_w:.0f} W were drawn under a cap of {cap_w:.0f} W")
        await asyncio.to_thread(_coplace, ports, "cap", "clear", "north")
        return found

    async def cut(self, queue: str) -> Round:
        """A worker that nobody reaches for a while, in the middle of a round."""
        told = self.arguments
        rate = told.others / (told.cut_s + 2 * _MARGIN_S)
        words = (queue, f"cut{queue}0", 21, rate, told.others)
        playing = asyncio.create_task(self.round(*words))
        await asyncio.sleep(_MARGIN_S)
        began_s = time.time()
        await self.fleet.relays[_CUT].cut()
        await asyncio.sleep(told.cut_s)
        await self.fleet.relays[_CUT].restore()
        ended_s = time.time()
        found = await playing
        runs = self.fleet.runs(found.submitted)
        meanwhile = [run for run in runs if began_s <= run.began_s < ended_s]
        where = Counter({run.worker: 0 for run in meanwhile})
        for name in {run.name for run in meanwhile}:
            where[next(run.worker for run in meanwhile if run.name == name)] += 1
        came = [name for name, (_, at_s) in found.submitted.items() if began_s <= at_s < ended_s]
        print(
            f"cut: {len(came)} came in {ended_s - began_s:.0f} s; begun {dict(where)}", flush=True
        )
        return found

    async def killed(self) -> Round:
        """Kill -9 of the adapter, of the manager's Kueue or of a worker's at random moments."""
        rng, told = Random(self.arguments.seed), self.arguments
        words = ("coplace", "kill0", 31, told.rate, told.others)
        playing = asyncio.create_task(self.round(*words))
        coming_back = list[asyncio.Task[tuple[float, float]]]()
        already = len(self.player.admissions.first_s)
        for after in sorted(rng.sample(range(1, told.others), told.kills)):
            least = already + after
            while len(self.player.admissions.first_s) < least:
                if playing.done():
                    break
                await asyncio.sleep(0.1)
            who = rng.choice(("adapter", self.manager.name, *WORKERS))
            if who == "adapter":
                await asyncio.to_thread(self.servers.kill, "kueue")
                coming_back.append(asyncio.create_task(self._back(time.time())))
            else:
                all_of = {each.name: each for each in (self.manager, *self.workers)}
                await asyncio.to_thread(all_of[who].restart_kueue)
            print(f"killed {who} after {after} admissions", flush=True)
        found = await playing
        found.away += [await each for each in coming_back]
        return found

    async def _back(self, since_s: float) -> tuple[float, float]:
        """From when to when no adapter saw anything: one was killed."""
        await asyncio.to_thread(self.servers.wait_ready, "kueue")
        return since_s - HEARD_S, time.time()

    async def what_may_happen(self) -> list[Round]:
        """Play what was asked for: a cap, a cut, kills, an upgrade, and the way out at last."""
        told, found = self.arguments, list[Round]()
        if told.cut_s and told.cut_plain:
            await self.dispatched_by("plain")
            found.append(await self.cut("plain"))
        await self.dispatched_by("coplace")
        if told.cap:
            found.append(await self.capped())
        if told.cut_s:
            found.append(await self.cut("coplace"))
        if told.kills:
            found.append(await self.killed())
        if told.earlier:
            words = (self.player, self.servers, self.own, told.earlier)
            found.append(await upgrade(*words, are_copies=True))
        if told.ways_out:
            plain = _DISPATCHERS["plain"]
            found.append(await release(self.player, self.servers, self.own, plain))
        return found


async def play(arguments: argparse.Namespace, folder: Path, stack: AsyncExitStack) -> int:
    """Play rounds by turns, then what may happen."""
    manager, workers, relays = await _clusters(arguments, folder, stack)
    servers = stack.enter_context(LocalServers(folder / "servers", redis=False))
    deployment = region(servers)
    fleet = Fleet({each.name: WorkerKubelets(each, WORKERS[each.name]) for each in workers}, relays)
    there = {
        "clusters": [entry(each, relays[each.name].port) for each in workers],
        "managers": [{"name": manager.name, "kubeconfig": str(manager.kubeconfig())}],
    }
    own = programs(there, folder, "energy")
    player = Player(manager, fleet, Admissions(), SHAPES, APPS)
    played = MultiKueue(arguments, manager, workers, fleet, player, servers, own, deployment)
    async with asyncio.TaskGroup() as tasks:
        playing = [
            *(tasks.create_task(each.run()) for each in fleet.workers.values()),
            *(tasks.create_task(Operators(each).run()) for each in workers),
            tasks.create_task(player.admissions.run(manager)),
        ]
        await asyncio.to_thread(servers.start, own[:-1])
        await _learn(deployment, own[-1].env["COPLACE_KUEUE_INGEST_ADDRESS"])
        turns = [*_TURNS, *reversed(_TURNS)] if arguments.turns else []
        rounds = [await played.turn(number, queue) for number, queue in enumerate(turns)]
        if rounds:
            print_all(rounds)
            _print_differences(rounds, fleet)
            _print_costs(rounds, fleet, arguments)
        others = await played.what_may_happen()
        await asyncio.sleep(5)  # prices follow ends
        for task in playing:
            task.cancel()
    wrong = sum(charged(deployment, fleet, each) for each in (*rounds, *others))
    return 1 if wrong or any(each.problems for each in (*rounds, *others)) else 0


async def _clusters(
    arguments: argparse.Namespace, folder: Path, stack: AsyncExitStack
) -> tuple[KueueCluster, Sequence[KueueCluster], Mapping[str, Relay]]:
    """A manager, its workers, and the ways to these."""
    made = {
        name: stack.enter_context(
            KueueCluster(
                *(name, folder / name, arguments.programs, name in WORKERS),
                kueue=arguments.kueue,
                dispatcher="" if name in WORKERS else _DISPATCHERS["plain"],
            )
        )
        for name in ("manager", *WORKERS)
    }
    manager, workers = made["manager"], [made[name] for name in WORKERS]
    await asyncio.gather(*(each.wait() for each in made.values()))
    for each in made.values():
        await each.install(list(definitions()))
    relays = {each.name: await stack.enter_async_context(Relay(each.port)) for each in workers}
    ways = {each.name: kubeconfig(each, relays[each.name].port, "kueue") for each in workers}
    await manager.manage(ways)
    quota = arguments.nodes * CORES
    for each in workers:
        await each.nodes(arguments.nodes, CORES)
        await each.queue("plain", quota=quota)
        for name in _OWN_QUEUES:
            await each.queue(name, "placement", quota=quota)
    await manager.queue("plain", "workers", quota=quota * len(workers))
    for name in _OWN_QUEUES:
        await manager.queue(name, "workers", "placement", quota=quota * len(workers))
    return manager, workers, relays


async def _active(manager: KueueCluster) -> None:
    """Return when Kueue reaches all workers."""
    deadline_s = time.monotonic() + _WITHIN_S
    while True:
        told = await call(manager, "GET", f"{API}/multikueueclusters")
        states = [condition_of(each.get("status", {}), "Active") for each in told["items"]]
        if all(states):
            return
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"Kueue does not reach all workers: {told['items']}")
        await asyncio.sleep(0.5)


async def _learn(deployment: Deployment, ingest: str) -> None:
    """Have Coplace know the applications, as operators profile them."""
    events = Emulator((), clusters(), SEED).next_round().events
    known = [each for each in events if isinstance(each.event.payload, SignatureMeasured)]
    async with EmulatorIngest(deployment, ingest) as client:
        await client.publish(known)
    await asyncio.sleep(_LEARN_S)


def _coplace(ports: Mapping[str, str], *words: str) -> None:
    command = [str(Path(sys.executable).with_name("coplace")), *words]
    for name, address in ports.items():
        command += [f"--{name.lower()}", address]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    print(" ".join(words), done.stdout.strip(), done.stderr.strip(), flush=True)


def _most_w(runs: Sequence[PodRun]) -> float:
    """What pods drew at most above their idle nodes."""
    changes = sorted(
        change
        for run in runs
        for above_w in [run.power_w - IDLE_POWER_W[WORKERS[run.worker]]]
        for change in ((run.began_s, above_w), (run.ended_s, -above_w))
    )
    most = drawn = 0.0
    for _, change in changes:
        drawn += change
        most = max(most, drawn)
    return most


def _print_runs(queue: str, runs: Sequence[PodRun]) -> None:
    where = Counter(f"{run.worker} {run.freq_ghz:g} GHz" for run in runs)
    energy_kj = sum(run.energy_j for run in runs) / 1e3
    node_s = sum(run.ended_s - run.began_s for run in runs)
    words = ", ".join(f"{count} at {name}" for name, count in sorted(where.items()))
    print(f"{queue}: {energy_kj:.1f} kJ, {node_s:.0f} node seconds; pods {words}", flush=True)


def _print_differences(rounds: Sequence[Round], fleet: Fleet) -> None:
    """Of the same Workload, under Kueue's dispatcher and under Coplace's."""
    by_queue: dict[str, list[list[tuple[float, float]]]] = {}
    for each in rounds:
        taken: dict[str, tuple[float, float]] = dict.fromkeys(sorted(each.submitted), (0.0, 0.0))
        for run in fleet.runs(each.submitted):
            energy_j, node_s = taken[run.name]
            ran_s = run.ended_s - run.began_s
            taken[run.name] = energy_j + run.energy_j, node_s + ran_s
        by_queue.setdefault(each.queue, []).append(list(taken.values()))
    # Rounds of both queues are the same, the second of one beside the second of the other.
    pairs = [
        (one, other)
        for ours, theirs in zip(by_queue["coplace"], by_queue["plain"], strict=True)
        for one, other in zip(ours, theirs, strict=True)
    ]
    for number, (what, unit) in enumerate((("energy", "J"), ("node time", "s"))):
        changes = [one[number] - other[number] for one, other in pairs]
        before = sum(other[number] for _, other in pairs) / len(pairs)
        low, high = interval(changes)
        mean = sum(changes) / len(changes)
        print(
            f"coplace - plain, {what} a Workload: {mean:.1f} ({low:.1f} to {high:.1f}) {unit}, "
            f"{mean / before:+.1%} ({low / before:+.1%} to {high / before:+.1%})",
            flush=True,
        )


def _print_costs(rounds: Sequence[Round], fleet: Fleet, arguments: argparse.Namespace) -> None:
    """What the site pays for energy: of pods on their nodes, and of all nodes in the makespan."""
    idle_w = sum(arguments.nodes * IDLE_POWER_W[model] for model in WORKERS.values())
    a_joule = arguments.price / _JOULES_A_KWH
    for each in rounds:
        runs = fleet.runs(each.submitted)
        of_pods_j = sum(run.energy_j for run in runs)
        above_j = sum(
            (run.power_w - IDLE_POWER_W[WORKERS[run.worker]]) * (run.ended_s - run.began_s)
            for run in runs
        )
        all_j = idle_w * each.makespan_s + above_j
        print(
            f"{each.queue}: at {arguments.price:g} a kWh pods cost {of_pods_j * a_joule:.4f}, all "
            f"nodes in the makespan {all_j * a_joule:.4f} ({all_j / 1e3:.1f} kJ)",
            flush=True,
        )


def main() -> int:
    """Run the command."""
    parser = play_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=60, help="in each turn")
    parser.add_argument("--others", type=int, default=60, help="in each round behind the turns")
    parser.add_argument("--rate", type=float, default=1.0, help="Workloads a second")
    parser.add_argument("--nodes", type=int, default=8, help="of each worker")
    parser.add_argument("--price", type=float, default=0.25, help="of a kWh at the site, in money")
    parser.add_argument("--run-s", type=float, default=6.0, help="of a Workload, in the mean")
    parser.add_argument("--no-turns", dest="turns", action="store_false", help="by turns")
    parser.add_argument("--cap", type=float, default=0.0, help="of what idle nodes draw; 0: none")
    parser.add_argument("--cut-s", type=float, default=0.0, help="for how long a worker is cut off")
    parser.add_argument("--cut-plain", action="store_true", help="under Kueue's dispatcher too")
    parser.add_argument("--earlier", default="", help="a commit to be upgraded from in flight")
    parser.add_argument("--ways-out", action="store_true", help="then be uninstalled")
    return run_play(play, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
