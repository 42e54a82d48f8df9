"""However Kueue, users, watches, cuts and kills fall, nothing starts and nothing is nominated
without a grant, every run is charged once, and every end is published.

A whole region is behind it: what it refuses would be a dead letter. What is counted is what the API
servers were written, and what pods really did.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from random import Random

import pytest
from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.jobs_pb2 import JobCancelled, JobFinished, JobRequeueAsked
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.kueue.adapters import reconciler
from shared.kueue.workloads import WorkloadKey
from tests.support.fated_api import KilledError
from tests.support.kueue_api import MemoryKueue
from tests.unit.services.kueue.play import CORES, Play

REASONS = ("Preempted", "PodsReadyTimeout", "ClusterQueueStopped", "NodeFailures")


@pytest.fixture(autouse=True, scope="module")
def impatient() -> Iterator[None]:
    """What is tried again is tried at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconciler, "_RETRY_S", 0)
        yield


class Course:
    """Random steps."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        clusters, manager, gated = rng.choice(COMPOSED)
        self.play = Play(clusters, manager, gated=gated)
        self.submitted = 0

    def some(self, server: MemoryKueue) -> WorkloadKey | None:
        keys = sorted(server.workloads)
        return self.rng.choice(keys) if keys else None

    def some_server(self) -> MemoryKueue:
        return self.play.servers[self.rng.choice(sorted(self.play.servers))]

    async def step(self) -> None:
        """Anything happens."""
        try:
            await self.rng.choice(KINDS)(self)
        except KilledError:
            await kill(self)

    async def settle(self) -> None:
        """Nothing goes wrong any more: what is left runs to its end."""
        self.play.fate.strikes.clear()
        await self.play.fate.arrive()
        for _ in range(12):
            for _ in range(30):
                await self.play.second()
            for server in self.play.workers.values():
                for key in list(server.workloads):
                    server.finish(key)
        for _ in range(140):
            await self.play.second()
        self.play.region.advance(300)

    def check_rest(self) -> None:
        """What is over was let go, and nothing waits for ever."""
        self.play.check_charges()
        letters = [each for each in self.play.region.dead_letters() if not _crossed_a_grant(each)]
        assert [each.reason for each in letters if "cannot be requeued" not in each.reason] == []
        for server in self.play.servers.values():
            for key, body in server.workloads.items():
                is_over = server.is_over(key) or not body["spec"]["active"]
                assert is_over, f"{key} never ran: {body['status']}"
                if server.is_over(key):
                    assert body["metadata"]["uid"] not in server.records, body
            there = {body["metadata"]["uid"] for body in server.workloads.values()}
            assert server.records.keys() <= there


def _crossed_a_grant(letter: DeadLetter) -> bool:
    """Whether it is the end of a run that Kueue began in silence, while its job was granted
    elsewhere: such a run replaces no grant, and is charged (see `check_charges`)."""
    if "does not hold the run" not in letter.reason:
        return False
    return JobFinished.FromString(letter.value).grant == 0


COMPOSED = [
    (("alpha",), "", False),
    (("alpha", "beta"), "manager", False),
    (("alpha", "beta"), "manager", True),
]


async def submit(course: Course) -> None:
    if course.submitted < 6:
        course.submitted += 1
        pods, cpu = course.rng.choice([(1, 1), (2, 2), (2, CORES), (1, CORES), (3, 4)])
        priority = course.rng.randint(-1, 1)
        name = f"lu-{course.submitted}"
        kind = "Pod" if course.submitted % 2 else "Job"
        course.play.home.submit(name, pods=pods, cpu=cpu, priority=priority, kind=kind)


async def kueue(course: Course) -> None:
    course.play.kueue()


async def watch(course: Course) -> None:
    name = course.some_server().server
    most, again = course.rng.randint(1, 6), course.rng.randint(0, 3)
    course.play.deliver(name, most, again=again)
    await course.play.adapter.work_off()


async def gap(course: Course) -> None:
    course.play.slack_s = 30.0
    course.play.relist(course.some_server().server)
    await course.play.adapter.work_off()


async def obey(course: Course) -> None:
    await course.play.obey(course.rng.randint(1, 3))


async def seconds(course: Course) -> None:
    for _ in range(course.rng.choice([1, 1, 2, 8])):
        await course.play.second(readies=course.rng.choice((False, True)))


async def time_alone(course: Course) -> None:
    course.play.region.advance(course.rng.choice([1, 7]))


async def ready(course: Course) -> None:
    server = course.play.workers[course.rng.choice(sorted(course.play.workers))]
    if key := course.some(server):
        server.make_ready(key)


async def finish(course: Course) -> None:
    server = course.play.workers[course.rng.choice(sorted(course.play.workers))]
    if key := course.some(server):
        server.finish(key, course.rng.choice(["Succeeded", "Failed"]))


async def evict(course: Course) -> None:
    server = course.some_server()
    if key := course.some(server):
        server.evict(key, course.rng.choice(REASONS), "for another one")


async def delete(course: Course) -> None:
    if (key := course.some(course.play.home)) and course.rng.choice((False, True)):
        course.play.home.remove(key)


async def order(course: Course) -> None:
    """An operator cancels a job, or asks for a requeue."""
    play = course.play
    jobs = sorted({e.job_submitted.job_id for e in play.facts.values()} - {""})
    if not jobs or not course.rng.choice((False, True)):
        return
    job_id, now_us = course.rng.choice(jobs), play.region.now_us
    if course.rng.choice((False, True)):
        play.region.send(JobCancelled(job_id=job_id, cancelled_at_us=now_us))
        return
    with suppress(RejectedError):  # placement has not heard of it yet
        attempt = play.region.explain(job_id).attempt
        asked = JobRequeueAsked(job_id=job_id, attempt=attempt, reason="why", asked_at_us=now_us)
        play.region.send(asked)


async def strike(course: Course) -> None:
    """Something goes wrong at one of the next calls."""
    what = ["killed before", "killed after", "cut before", "cut after", "late"]
    at = course.play.fate.calls + course.rng.randint(1, 4)
    course.play.fate.strikes[at] = course.rng.choice(what)


async def arrive(course: Course) -> None:
    """What the adapter was cut off from arrives all the same."""
    await course.play.fate.arrive()


async def silence(course: Course) -> None:
    """The adapter does nothing for some time, and Kueue goes on by its own rules."""
    for _ in range(course.rng.choice([1, 2, 6])):
        await course.play.silent_second()
    course.play.slack_s = 30.0


async def kill(course: Course) -> None:
    course.play.slack_s = 30.0
    course.play.began()
    course.play.began_releaser()


KINDS: list[Callable[[Course], Awaitable[None]]] = [
    *(submit, submit, kueue, kueue, watch, watch, gap, obey, obey, seconds, seconds, seconds),
    *(time_alone, ready, finish, evict, delete, order, strike, strike, kill),
    *(arrive, silence),
]


async def course(rng: Random, steps: int) -> None:
    found = Course(rng)
    for _ in range(steps):
        await found.step()
    await found.settle()
    found.check_rest()


@given(st.integers(0, 1 << 32), st.integers(1, 60))
@example(637145, 29)
@example(100000000, 23)
@example(3407950073, 29)
@example(2069180556, 60)
@example(3917998139, 22)
@example(2153009609, 35)
@example(1344259828, 44)
@example(4195058968, 39)
@settings(max_examples=25, deadline=None)
def test_every_run_has_a_grant_and_is_charged_once(seed: int, steps: int) -> None:
    asyncio.run(course(Random(seed), steps))
