"""Heterogeneous jobs from Slurm to placement and back, with what users do to them and a process
that is killed at any moment: each starts whole, once, and holds its nodes once."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from coplace.v1.control_pb2 import ClusterDeclared, Partition
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_CANCELLED,
    JOB_STANDING_FINISHED,
    ListJobsRequest,
)
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.model import Intake
from services.slurm.adapters.looks import SlurmLooks
from services.slurm.adapters.notes import JobNotes
from services.slurm.adapters.obedience import Obedience
from services.slurm.adapters.publisher import SlurmPublisher
from services.slurm.adapters.runs import RunsSeen
from services.slurm.model.het_jobs import as_a_whole, with_gangs
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.select_rules import SelectRules
from services.slurm.model.shapes import NodeShapes
from services.slurm.processor.orders import Release
from shared.catalogue.event import Event
from shared.catalogue.options import ranks
from shared.catalogue.topics import Topics
from shared.domain.hostlist import expand
from shared.slurm.facts import identify
from shared.slurm.grant_answer import GrantAnswer
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError, Round
from tests.unit.services.slurm.fields import JOB
from tests.unit.services.slurm.region import SITE, TERMS, PlayedRegion
from tests.unit.shared.placement import region

NODES: Final = 3
NAMES: Final = tuple(f"n{number}" for number in range(1, NODES + 1))
# Each takes two nodes, so that the second waits for the first.
FIRSTS: Final = (17, 27)
_ALL: Final = 10**9
_CORES: Final = 2


class KilledError(Exception):
    """The process was killed behind a command."""


class PlayedSlurm:
    """Two heterogeneous jobs of two parts, on which Slurm acts as it likes."""

    def __init__(self) -> None:
        # A start that is too late by this machine's clock is not made.
        self.now_s = self.began_s = int(time.time())
        self.left = _ALL
        self.starts = dict.fromkeys(FIRSTS, 0)
        self.all: dict[int, dict[str, Any]] = {}
        for first in FIRSTS:
            for offset in (0, 1):
                own = {"job_id": first + offset, "het_job_id": first, "het_job_offset": offset}
                whole = {"het_job_id_set": f"{first}-{first + 1}", "priority": 0}
                whole |= {
                    "submit_time": self.began_s,
                    "required_nodes": "",
                    "excluded_nodes": "",
                    "partition": "all",
                    "cpus": _CORES,
                    "tres_req_str": f"cpu={_CORES},node=1",
                }
                self.all[first + offset] = {**JOB, **own, **whole}

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        return with_gangs([SlurmJob(dict(fields)) for fields in self.all.values()])

    def prepare_first(self, job: str, release: Release, excluded: str) -> None:
        said = {"admin_comment": str(release.word), "excluded_nodes": excluded}
        self._change(*self.parts(int(job)), **said, time_limit=release.limit_min)

    def prepare_part(self, job: str, release: Release, excluded: str) -> None:
        said = {"required_nodes": ",".join(release.nodes), "excluded_nodes": excluded}
        self._change(int(job), **said, time_limit=release.limit_min)

    def let_go(self, job: str) -> None:
        self._change(*self.parts(int(job)), priority=9)

    def hold(self, job: str) -> None:
        self._change(*self.parts(int(job)), priority=0)

    def leave(self, job: str, word: GrantAnswer | str, _changes: Iterable[str] = ()) -> None:
        self._change(*self.parts(int(job)), admin_comment=str(word))

    def cancel(self, job: str) -> None:
        for number in self.parts(int(job)):
            if self._waits(number) or self._runs(number):
                self.all[number].update(job_state="CANCELLED", end_time=self.now_s)

    def comment(self, jobs: str, field: str, note: str) -> None:
        self._change(*self.parts(int(jobs)), system_comment=note)

    def requeue(self, first: int) -> None:
        self.now_s += 1
        for number in self.parts(first) if self._runs(first) else ():
            waits = {"job_state": "PENDING", "nodes": "", "start_time": 0, "end_time": 0}
            self.all[number].update(waits, submit_time=self.now_s, restart_cnt=1, priority=0)

    def start(self) -> None:
        self.now_s += 1
        for first in FIRSTS:
            of_first, of_other = (self.all[number] for number in self.parts(first))
            without = {*NAMES} - {*expand(of_first["excluded_nodes"] or "none")}
            asked = [min(without), of_other["required_nodes"]]
            is_free = self.taken.isdisjoint(asked) and all(asked)
            if self._waits(first) and is_free and self.all[first]["priority"]:
                self.starts[first] += 1
                for number, node in zip(self.parts(first), asked, strict=True):
                    began = {"start_time": self.now_s, "tres_alloc_str": f"cpu={_CORES},node=1"}
                    self.all[number].update(job_state="RUNNING", nodes=node, **began)

    def end(self, number: int) -> None:
        self.now_s += 1
        if self._runs(number):
            self.all[number].update(job_state="COMPLETED", end_time=self.now_s)

    @property
    def taken(self) -> set[str]:
        return {str(each["nodes"]) for number, each in self.all.items() if self._runs(number)}

    @property
    def is_over(self) -> bool:
        return not any(self._waits(number) or self._runs(number) for number in self.all)

    @staticmethod
    def parts(first: int) -> list[int]:
        return [first, first + 1] if first in FIRSTS else [first]

    def _waits(self, number: int) -> bool:
        return bool(self.all[number]["job_state"] == "PENDING")

    def _runs(self, number: int) -> bool:
        return bool(self.all[number]["job_state"] == "RUNNING")

    def _change(self, *numbers: int, **changes: Any) -> None:
        """Slurm gives all parts what the first gets."""
        for number in numbers:
            if self._waits(number):
                self.all[number].update(changes)
        self.left -= 1
        if self.left < 0:
            raise KilledError


class Course:
    """What takes place between a Slurm and placement. Where nodes are shared the parts are equal
    units, of as many cores as a node has."""

    def __init__(self, *, is_shared: bool) -> None:
        shape = {"cpus": _CORES, "partitions": ["all"]}
        self.shapes = NodeShapes([{"name": name, **shape} for name in NAMES])
        self._terms = replace(TERMS, select=SelectRules(shares_nodes=is_shared), shapes=self.shapes)
        self.slurm, self.told = PlayedSlurm(), PlayedRegion()
        self.placement = region.placement()
        self.asked: deque[PlacementDecided] = deque()
        self.rounds, self._folded = 0, 0
        self._early: list[Event] = []
        cluster = ClusterDeclared(
            cluster="alpha",
            site="north",
            node_model="gold-6254",
            nodes=NODES,
            node_names=[f"n[1-{NODES}]"],
            cores_per_node=_CORES,
            pstates_ghz=[1.2, 2.1],
            idle_power_w=100.0,
            peak_bandwidth_gbps=140.0,
            nameplate_power_w=300.0,
            architecture="alpha",
            shares_unpredicted=True,
            partitions=[Partition(name="all", nodes=NAMES)],
        )
        time_us = self.slurm.began_s * 1_000_000 - 1
        region.feed(self.placement, [region.event("alpha", cluster, time_us)])
        self.begin()

    def begin(self) -> None:
        """Start the process anew."""
        self.slurm.left = _ALL
        looks, notes = SlurmLooks(self.slurm), JobNotes(self.slurm)  # type: ignore[arg-type]
        runs = RunsSeen.beside(self.told, SITE)
        self.publisher = SlurmPublisher(self.told, self._terms, runs)
        self.obedience = Obedience(
            self.slurm,  # type: ignore[arg-type]
            *(self.told, SITE, notes, looks),
            shapes=lambda: self.shapes,
        )

    def go_on(self) -> None:
        """Do what is to be done."""
        for step in (self.look, self.fold, self.obey, self.obey, self.slurm.start):
            step()

    def be_killed_behind_a_start(self, *ended: int) -> None:
        """Be killed before the decision is known to be obeyed, which takes three commands."""
        self.look()
        self.fold()
        self.obey(killed_behind=2)
        self.slurm.start()
        for number in ended:
            self.slurm.end(number)
        self.obey()

    def look(self) -> None:
        """Publish what is shown."""
        listed = self.placement.queries.jobs(ListJobsRequest(cluster="alpha"))
        self.told.listed = list(listed.jobs)
        self.publisher.tell(self.slurm.jobs())

    def fold(self) -> None:
        """Let placement take what was published, and decide."""
        intake = Intake(Topics())
        told, self._folded = self.told.told[self._folded :], len(self.told.told)
        events = [intake.accept(each, self.slurm.now_s + 60.0).event for each in told]
        events, self._early = [*self._early, *sorted(events, key=order)], []
        for event in events:
            with suppress(AlreadyAppliedError):
                try:
                    assert list(self.placement.handle(event)) == []
                except EarlyError:
                    self._early.append(event)
        self.rounds += 1
        ended_us = self.slurm.now_s * 1_000_000 + self.rounds
        self.asked += region.decisions(self.placement.end_round(Round(self.rounds, ended_us)))

    def obey(self, killed_behind: int = _ALL) -> None:
        """Obey the next decision; the process may be killed behind so many commands."""
        if self.asked:
            self.slurm.left = killed_behind
            try:
                self.obedience.obey(self.asked[0])
            except KilledError:
                self.begin()
                return
            self.asked.popleft()


def order(event: Event) -> tuple[int, int]:
    """As placement takes what comes at once."""
    return event.time_us, ranks()[event.payload.DESCRIPTOR.full_name]


@given(st.data())
def test_each_starts_whole_and_holds_its_nodes_once_wherever_the_process_is_killed(
    data: st.DataObject,
) -> None:
    course = Course(is_shared=data.draw(st.booleans()))
    slurm = course.slurm
    steps: dict[str, Callable[[], object]] = {
        "go on": course.go_on,
        "look": course.look,
        "fold": course.fold,
        "obey": course.obey,
        "obey and be killed": lambda: course.obey(data.draw(st.integers(0, 6))),
        "be killed behind a start": course.be_killed_behind_a_start,
        "be killed behind a run": lambda: course.be_killed_behind_a_start(17, 18, 27, 28),
        "start": slurm.start,
        "kill": course.begin,
        "end": lambda: slurm.end(data.draw(st.sampled_from([17, 18, 27, 28]))),
        "requeue": lambda: slurm.requeue(data.draw(st.sampled_from(FIRSTS))),
        "cancel": lambda: slurm.cancel(str(data.draw(st.sampled_from(FIRSTS)))),
    }
    names = st.sampled_from([*["go on"] * len(steps), *steps])
    for name in data.draw(st.lists(names, max_size=30)):
        steps[name]()
        running = [node for number in slurm.all if (node := slurm.all[number]["nodes"])]
        assert len(slurm.taken) <= NODES, running
    for _ in range(30):
        course.go_on()
        course.look()
        course.fold()
        for number in slurm.all:
            slurm.end(number)
        if slurm.is_over and not course.asked:
            break
    assert slurm.is_over
    course.look()
    course.fold()
    [shown] = [
        each for each in course.placement.queries.clusters().clusters if each.name == "alpha"
    ]
    assert (shown.free_nodes, shown.running, shown.waiting) == (NODES, 0, 0)
    over = {JOB_STANDING_FINISHED, JOB_STANDING_CANCELLED}
    parts = slurm.jobs()
    for job in [*parts, *as_a_whole(parts)]:
        answer = region.answered(course.placement, identify(job.message(), SITE))
        assert answer.standing in over
