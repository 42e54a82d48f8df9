"""How fast the placement processor decides with 10,000 jobs queued: python -m
lab.benchmarks.placement_rounds [rounds] [clusters] [asking] [capped] [in_parts] [planned]
[solving] [draining] [repeats] [partitions] [predicted] [reserved] [arrays]
[reordered] [looking]

Clusters of 512 nodes of two models, eight applications with signatures and coefficients over all
P-states, a degradation model, rounds of 50 submissions. Every job has an entry on every cluster. As
many jobs end in a round as come, in the order of their limits, so that nodes come free and the
queue stays as long as it is.

With `draining` 1 as many jobs end as started in the round before: some 85 start a round where 50
come, so that after 100 rounds 7,000 are queued.

With `repeats` N all is played N times, with the same result, and of each round the least time
counts: what else is at work on the machine makes single rounds half as long again.

With `asking` 1, a caller asks over gRPC why waiting jobs wait, one after the other and all the
time: the loop answers between rounds, and the forecasts run in their thread.

With `capped` 1, every cluster, the site and the region have caps of power with a step an hour,
under which about two thirds of the nodes can be used.

With `in_parts` 1, half of the jobs are of units of 6 or 12 cores and accept neighbours.

With `partitions` N each cluster has as many partitions of half of its nodes, which overlap, and
each job asks for one of them.

With `reserved` N, so many parts of each cluster are maintained for half a day, one after the other.
With `arrays` N, so many arrays of 100 tasks wait among the first jobs, as wide as these are.
With `reordered` N, resource managers own the order, and in each round N of the jobs that wait get
another priority; 1: all of them get older by as much, which leaves them in their order.

With `looking` 1, Slurm's backfill looks at each cluster in each round, by its defaults.

With `planned` N, a plan of the queue as the planner's look-ahead makes it is in every Nth round.
The planner is another process: what it takes to search is not counted, what placement does with
its plan is. With `solving` 1 CP-SAT makes the plans, and another process solves all the time, for
the same queue, as a planner does beside placement.

With `predicted` 1, rounds by requests and rounds by predicted run times come by turns, of the same
jobs: of 40 users, some of whose runs have ended. Nobody shares nodes: beside such jobs requests
count.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection

import grpc
import numpy as np
from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    Partition,
)
from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.placement_service_pb2 import ExplainRequest, ExplainResponse

from coplace_client import facts
from services.placement.app import QUICK_SWITCH_S
from services.placement.service import NAME, Duty, PlacementService
from services.planner.settings import PlannerSettings
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.energy_tariff import Tariff
from shared.domain.queue_discipline import QueueDiscipline
from shared.domain.queue_order import QueueOrder
from shared.domain.runtimes import Runtimes
from shared.placement.processor.placement import Placement
from shared.planning.decomposition import DecompositionPlanner
from shared.planning.region_order import RegionOrder, Scheduling
from shared.planning.searches import Searches
from shared.pricing.settings import RateSettings
from shared.pricing.terms import PriceTerms
from shared.process.memory import collect_rarely
from shared.scheduling.list_scheduling import PriorityRule
from shared.scheduling.lookahead import LookAhead, Objective
from shared.scheduling.plan_evaluation import PlannedEntry
from shared.streams.stages.stage import Round
from tests.unit.shared.placement import region

QUEUED, PER_ROUND, PERIOD_US = 10_000, 50, 30_000_000
# Of each cluster, as `region` declares them.
NODES = 512
USERS, RUNS_OF_USER = 40, 3
# The loop has time for its callers and for Kafka between two rounds.
PAUSE_S = 0.1


def clusters(count: int, partitions: int = 0, nodes: int = NODES) -> Iterator[Event]:
    """Yield what a region of so many clusters knows: each is of one of the two node models."""
    yield from region.models(nodes)
    for number in range(3, count + 1):
        yield region.declared(f"p{2 - number % 2}", nodes, cluster=f"p{number}")
    for number in range(1, count + 1) if partitions else ():
        name = f"p{number}"
        parts = list(overlapping(name, partitions))
        later_us = region.T0_US + 1
        yield region.declared(
            f"p{2 - number % 2}", time_us=later_us, cluster=name, partitions=parts
        )


def overlapping(cluster: str, count: int) -> Iterator[Partition]:
    """Yield partitions of half of a cluster's nodes, each of which begins some nodes later."""
    for number in range(count):
        first = number * (NODES // 2) // count
        last = first + NODES // 2 - 1
        yield Partition(name=f"part-{number}", nodes=[f"{cluster}-[{first:04d}-{last:04d}]"])


def maintained(count: int, times: int) -> Iterator[Event]:
    """Yield maintenance of parts of each cluster, which overlap, one every six hours."""
    part = NODES // 8
    for number, time_ in ((n, t) for n in range(1, count + 1) for t in range(times)):
        name, first, from_s = f"p{number}", time_ * part % NODES, (time_ + 1) * 6 * 3600.0
        nodes = [f"{name}-[{first:04d}-{first + part - 1:04d}]"]
        yield region.reserved(
            f"{name}-{time_}", from_s, from_s + 12 * 3600.0, cluster=name, nodes=nodes
        )


def caps(count: int) -> Iterator[Event]:
    """Yield a cap of each cluster, one of their site, one of the region: watts a node and hour,
    idle power included, by turns more and less."""
    covered = [(POWER_SCOPE_CLUSTER, f"p{number}", 1) for number in range(1, count + 1)]
    covered += [(POWER_SCOPE_SITE, "site", count), (POWER_SCOPE_REGION, "", count)]
    for scope, name, of in covered:
        node_w = 300 if scope == POWER_SCOPE_CLUSTER else 280
        steps = [(hour * 3600, 512.0 * of * (node_w - 20 * (hour % 2))) for hour in range(24)]
        yield region.capped(scope, name, *steps)


def submissions(
    first: int, count: int, rng: np.random.Generator, *, in_parts: bool, partitions: int = 0
) -> Iterator[Event]:
    """Yield jobs of 1 to 256 nodes, powers of two, 30 % shareable; `in_parts`, every second one is
    of as many units that are part of a node each. With `partitions` each is in one of them."""
    for number in range(first, first + count):
        is_part = in_parts and number % 2 == 1
        yield region.submitted(
            f"job-{number:06d}",
            time_us=region.T0_US + number,
            app_id=region.APPS[int(rng.integers(len(region.APPS)))],
            nodes=int(2 ** rng.integers(0, 9)),
            walltime_s=float(rng.uniform(600, 86_400)),
            shareable=bool(rng.random() < 0.3) or is_part,
            cores_per_unit=6 + 6 * (number % 4 // 2) if is_part else 0,
            partitions=[f"part-{number * 7 % partitions}"] if partitions else [],
        )


def with_arrays(jobs: Iterable[Event], every: int, rng: np.random.Generator) -> Iterator[Event]:
    """Yield submissions, and behind each of so many an array of a hundred such tasks."""
    for number, event in enumerate(jobs):
        yield event
        if number % every == 0:
            yield region.submitted(
                f"array-{number:06d}",
                time_us=event.time_us,
                app_id=region.APPS[int(rng.integers(len(region.APPS)))],
                nodes=int(2 ** rng.integers(0, 9)),
                walltime_s=float(rng.uniform(600, 86_400)),
                array="0-99",
            )


def of_users(jobs: Iterable[Event]) -> Iterator[Event]:
    """Yield submissions of users by turns, of jobs that share no nodes."""
    for number, event in enumerate(jobs):
        payload = event.payload
        assert isinstance(payload, JobSubmitted)
        payload.user, payload.shareable = f"user-{number % USERS}", False
        yield event


def ended_runs(started: Iterable[PlacementDecided], rng: np.random.Generator) -> Iterator[Event]:
    """Yield the ends of jobs that ran for 2 s at least, as long as a round at most."""
    for decided in started:
        end_us = decided.decided_at_us + int(rng.integers(2_000_000, PERIOD_US))
        began_us = decided.decided_at_us
        yield region.finished(decided.job_id, end_us, grant=decided.grant, started_at_us=began_us)


class Site:
    """Ends the jobs whose limits come first, as many as are asked for."""

    def __init__(self) -> None:
        self._running: list[tuple[float, str]] = []
        self._confirmed: list[Event] = []

    def start(self, decided: list[PlacementDecided], now_us: int) -> int:
        """Take starts; how many there were."""
        starts = [d for d in decided if d.verdict == VERDICT_START]
        self._running += [(now_us / 1e6 + d.walltime_s, d.job_id) for d in starts]
        self._confirmed = [region.started(d, node_units=d.node_units) for d in starts]
        return len(starts)

    def finish(self, count: int, now_us: int) -> Iterator[Event]:
        """Yield confirmations of what was started, then the next jobs that end."""
        yield from self._confirmed
        self._running.sort()
        ended, self._running = self._running[:count], self._running[count:]
        for _, job_id in ended:
            payload = JobFinished(job_id=job_id, attempt=1, ended_at_us=now_us)
            yield Event(f"site/finished/{job_id}/1", "site", now_us, "region", payload)


class Planner:
    """Makes plans of what a placement leaves waiting, with the defaults of the planner, by CP-SAT
    where it is `solving`."""

    def __init__(self, clusters_: int, *, solving: bool = False) -> None:
        settings = PlannerSettings()
        self.searches = Searches()

        def solver(rule: PriorityRule) -> Scheduling:
            limit_s, longest_s = settings.solve_s, settings.longest_solve_s
            return DecompositionPlanner(rule, self.searches, limit_s, longest_s=longest_s)

        self._solver = RegionOrder(solver) if solving else None
        self._objective = Objective((Tariff(),) * clusters_, settings.prices)
        self._bounds, self._most_jobs = settings.bounds, settings.most_jobs

    def plan(self, placement: Placement, number: int) -> Iterator[Event]:
        """Plan after a round, if there is a better plan than the policy's order."""
        problem = placement.planning.problem(region.end_us(number) / 1e6, 1.0, self._most_jobs)
        found: list[PlannedEntry] | None
        if self._solver is not None:
            found = self._solver.plan(problem.situation, problem.waiting)
        else:
            search = LookAhead(self._objective, self._bounds)
            found = search.plan(problem.situation, problem.waiting, 1.0)
        if found is not None:
            yield region.proposed(number, *problem.items(found))


class Rounds:
    """Plays rounds and times them."""

    def __init__(
        self,
        count: int,
        *,
        is_capped: bool,
        in_parts: bool = False,
        planned: int = 0,
        solving: bool = False,
        draining: bool = False,
        partitions: int = 0,
        reserved: int = 0,
        runtimes: Runtimes | None = None,
        arrays: int = 0,
        reordered: int = 0,
        looking: bool = False,
        queued: int = QUEUED,
        nodes: int = NODES,
        kept: Callable[[Mapping[str, bytes | None]], object] = id,
    ) -> None:
        self._kept = kept
        self._next_job = max(10**5, 2 * queued)
        self._reordered = reordered
        self._draining, self._partitions = draining, partitions
        self._has_users = runtimes is not None
        self._rng, self._site = np.random.default_rng(1), Site()
        self._in_parts, self._planned = in_parts, planned
        self.planner = Planner(count, solving=solving)
        order = QueueOrder.MANAGER if reordered else QueueOrder.COPLACE
        discipline = QueueDiscipline.SLURM if looking else QueueDiscipline.EASY
        expected = runtimes or Runtimes.REQUESTED
        rules = PolicySettings(runtimes=expected, order=order, discipline=discipline)
        self.placement = Placement({}, rules, 7.0)
        region.feed(self.placement, clusters(count, partitions, nodes))
        if is_capped:
            region.feed(self.placement, caps(count))
        region.feed(self.placement, maintained(count, reserved))
        self.queued, self._before = 0, 0
        if self._has_users:
            self._run_before()
        first = self._submissions(0, queued + 100 * count)
        if arrays:
            first = with_arrays(first, max(1, queued // arrays), np.random.default_rng(2))
        region.feed(self.placement, first)
        self.seconds: list[float] = []
        self.cpu_s: list[float] = []
        self.starts = self.plans = self.passed = 0
        self._start(self._decide(0), self._now_us(0))

    def play(self, number: int) -> None:
        """Play one round: confirmations, ends and submissions come, and it is decided."""
        now_us = self._now_us(number)
        new = self._submissions(self._next_job + number * 100, PER_ROUND)
        is_planned = self._planned and not number % self._planned
        plans = [*self.planner.plan(self.placement, number - 1)] if is_planned else []
        ending = self._started if self._draining else PER_ROUND
        events = [*self._site.finish(ending, now_us), *new, *plans]
        events += self._new_priorities(now_us)
        began, began_cpu = time.perf_counter(), time.thread_time()
        region.feed(self.placement, events)
        decided = self._decide(number)
        self.seconds.append(time.perf_counter() - began)
        self.cpu_s.append(time.thread_time() - began_cpu)
        self._start(decided, now_us)
        self.passed += sum(each.predicted_runtime_s > 0 for each in decided)
        self.starts += self._started
        self.plans += len(plans)

    def _new_priorities(self, now_us: int) -> Iterator[Event]:
        """Yield new priorities of jobs that wait, as many a message as one takes."""
        if not self._reordered:
            return
        waiting = [job for job in self.placement.layers.state.jobs.waiting() if job.waits]
        if self._reordered == 1:
            said = {
                job.job.job_id: (job.manager_priority or 10**6 - job.arrival) + 30
                for job in waiting
            }
        else:
            chosen = self._rng.permutation(len(waiting))[: self._reordered].tolist()
            drawn = self._rng.integers(1, 10**6, len(chosen)).tolist()
            said = {
                waiting[at].job.job_id: priority for at, priority in zip(chosen, drawn, strict=True)
            }
        clusters_ = sorted(self.placement.layers.state.models.clusters)
        for each in facts.reordered("site", "slurm", clusters_, said, now_us):
            yield Event(each.id, "site", now_us, "slurm", each.jobs_reordered)

    def _run_before(self) -> None:
        """Play a round before all others, in which jobs of every user run."""
        runs = [
            region.submitted(f"before-{number:03d}", user=f"user-{number % USERS}")
            for number in range(USERS * RUNS_OF_USER)
        ]
        region.feed(self.placement, runs)
        decided = self._decide(0)
        self._before = 1
        started = [each for each in decided if each.verdict == VERDICT_START]
        region.feed(self.placement, map(region.started, started))
        region.feed(self.placement, ended_runs(started, self._rng))

    def take_least(self, same: "Rounds") -> None:
        """Take of each round the time of that run of it which took less."""
        self.seconds = list(map(min, self.seconds, same.seconds))
        self.cpu_s = list(map(min, self.cpu_s, same.cpu_s))

    def _start(self, decided: list[PlacementDecided], now_us: int) -> None:
        self._started = self._site.start(decided, now_us)
        self.queued -= self._started

    def _submissions(self, first: int, count: int) -> Iterator[Event]:
        self.queued += count
        parts = self._partitions
        found = submissions(first, count, self._rng, in_parts=self._in_parts, partitions=parts)
        return of_users(found) if self._has_users else found

    def _decide(self, number: int) -> list[PlacementDecided]:
        number += self._before
        decided = region.decisions(self.placement.end_round(Round(number, self._now_us(number))))
        self._kept(self.placement.changes())
        return decided

    @staticmethod
    def _now_us(number: int) -> int:
        return region.T0_US + (number + 1) * PERIOD_US


def play_by_turns(clusters_: int, count: int) -> None:
    """Play rounds by requests and by predicted run times by turns, and print the times of both."""
    both = {each: Rounds(clusters_, is_capped=False, runtimes=each) for each in Runtimes}
    queued = {each: rounds.queued for each, rounds in both.items()}
    for number in range(1, count + 1):
        for rounds in both.values():
            rounds.play(number)
    for each, rounds in both.items():
        print(f"{each}, {rounds.passed} starts passed by their predictions")
        tell(rounds, clusters_, queued[each], [])


def solve_for_ever(count: int, is_capped: bool, told: Connection) -> None:
    """Solve for the first queue again and again, as a planner beside placement, and report how long
    each solve took."""
    rounds = Rounds(count, is_capped=is_capped, solving=True)
    while True:
        began = time.perf_counter()
        deque(rounds.planner.plan(rounds.placement, 0), maxlen=0)
        told.send(time.perf_counter() - began)


async def ask(channel: grpc.aio.Channel, answered: list[float]) -> None:
    """Ask about one waiting job after the other, for ever."""
    call: grpc.aio.UnaryUnaryMultiCallable[ExplainRequest, ExplainResponse] = channel.unary_unary(
        f"/{NAME}/Explain",
        request_serializer=ExplainRequest.SerializeToString,
        response_deserializer=ExplainResponse.FromString,
    )
    number = QUEUED
    while True:
        number -= 1
        began = time.perf_counter()
        await call(ExplainRequest(job_id=f"job-{number:06d}"))
        answered.append(time.perf_counter() - began)


async def play(rounds: Rounds, count: int, *, asking: bool) -> list[float]:
    """Play rounds on the loop; how long each answer took."""
    duty, answered = Duty(), list[float]()
    duty.begin(rounds.placement.queries)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (PlacementService(duty, 20_000, PriceTerms(RateSettings().rate_su_per_core_s)).handlers(),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        asker = asyncio.create_task(ask(channel, answered)) if asking else None
        for number in range(1, count + 1):
            rounds.play(number)
            await asyncio.sleep(PAUSE_S)
        if asker is not None:
            asker.cancel()
            with suppress(asyncio.CancelledError):
                await asker
    await server.stop(None)
    return answered


def tell(rounds: Rounds, clusters_: int, queued: int, answered: list[float]) -> None:
    """Print the times of the rounds, before which so many jobs waited."""
    count = len(rounds.seconds)
    print(
        f"{count} rounds of {PER_ROUND} submissions, {queued} queued before and {rounds.queued} "
        f"after, {clusters_} clusters, {rounds.starts} starts, {rounds.plans} plans"
    )
    named = {"a round": rounds.seconds, "its CPU time": rounds.cpu_s, "an answer": answered}
    for name, seconds in named.items():
        if seconds:
            p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
            print(f"{name}: p50 {p50:.0f} ms, p99 {p99:.0f} ms of {len(seconds)}")
    jobs = count * PER_ROUND
    print(f"jobs decided: {jobs / sum(rounds.seconds):.0f} /s")


def main(
    count: int = 200,
    clusters_: int = 8,
    asking: int = 0,
    capped: int = 0,
    in_parts: int = 0,
    planned: int = 0,
    solving: int = 0,
    draining: int = 0,
    repeats: int = 1,
    partitions: int = 0,
    predicted: int = 0,
    reserved: int = 0,
    arrays: int = 0,
    reordered: int = 0,
    looking: int = 0,
) -> None:
    """Print milliseconds a round and jobs decided a second, and what an answer takes."""
    collect_rarely()
    sys.setswitchinterval(QUICK_SWITCH_S)
    if predicted:
        play_by_turns(clusters_, count)
        return
    new_rounds = partial(
        Rounds,
        clusters_,
        is_capped=bool(capped),
        in_parts=bool(in_parts),
        planned=planned,
        solving=bool(solving),
        draining=bool(draining),
        partitions=partitions,
        reserved=reserved,
        arrays=arrays,
        reordered=reordered,
        looking=bool(looking),
    )
    rounds = new_rounds()
    queued = rounds.queued
    spawned, (told, telling) = get_context("spawn"), Pipe(duplex=False)
    beside = spawned.Process(
        target=solve_for_ever, args=(clusters_, bool(capped), telling), daemon=True
    )
    solved = list[float]()
    if solving:
        beside.start()
        solved.append(told.recv())
    answered = asyncio.run(play(rounds, count, asking=bool(asking)))
    for _ in range(repeats - 1):
        again = new_rounds()
        asyncio.run(play(again, count, asking=False))
        rounds.take_least(again)
    if solving:
        while told.poll():
            solved.append(told.recv())
        beside.kill()
        print(f"solves beside it: {len(solved)}, {sum(solved) / len(solved):.1f} s in the mean")
        print(f"plans in the rounds: {rounds.planner.searches}")
    tell(rounds, clusters_, queued, answered)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
