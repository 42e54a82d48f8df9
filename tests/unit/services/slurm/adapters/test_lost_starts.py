"""A start that Slurm forgot is made again, on the same nodes and under the same grant; no other."""

import asyncio
from typing import Any

import pytest
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_RUNNING,
    Allocation,
    JobStanding,
    ListedJob,
    NodeGroup,
    ShowNodesResponse,
)

from services.slurm.adapters.lost_starts import LostStarts
from services.slurm.model.het_jobs import with_gangs
from services.slurm.model.jobs import SlurmJob
from services.slurm.processor.orders import Release, orders
from shared.process.clock import now_us
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, PlayedRegion

NAME = f"north/alpha/17/{SUBMIT_S}"
HELD = {**JOB, "priority": 0}
STARTED_US = SUBMIT_S * 1_000_000


class _Region(PlayedRegion):
    """Knows which nodes jobs have."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = [
            NodeGroup(cluster="alpha", nodes=["n1"], job_ids=[NAME, "north/alpha/3/1"]),
            NodeGroup(cluster="alpha", nodes=["n[3-4]"], job_ids=[NAME]),
        ]

    def nodes(self, cluster: str) -> ShowNodesResponse:
        """What is set."""
        return ShowNodesResponse(groups=self.groups)


class _Beside:
    def __init__(self, standing: JobStanding.ValueType = JOB_STANDING_RUNNING, **of: Any) -> None:
        self.region, self.made = _Region(), list[PlacementDecided]()
        values: dict[str, Any] = {
            "cluster": "alpha",
            "grant": 3,
            "freq_ghz": 2.1,
            "since_us": STARTED_US,
            "ends_by_us": STARTED_US + 90_000_000,
            "start_by_us": STARTED_US + 1,
        }
        allocation = Allocation(**(values | of))
        self.region.listed = [
            ListedJob(job_id=NAME, attempt=1, standing=standing, allocation=allocation)
        ]
        self.lost = LostStarts(self.region, SITE, ["alpha"], self._obey)

    async def _obey(self, decision: PlacementDecided) -> None:
        self.made.append(decision)

    def look(self, *shown: dict[str, Any]) -> None:
        asyncio.run(self.lost.look([SlurmJob(each) for each in shown]))


def test_a_start_that_slurm_forgot_is_made_again_as_it_was() -> None:
    beside = _Beside()
    beside.look(HELD)
    assert beside.made == [], "it may have been requeued a moment ago"
    beside.look(HELD)
    [made] = beside.made
    assert made == PlacementDecided(
        job_id=NAME,
        attempt=1,
        verdict=VERDICT_START,
        grant=3,
        cluster="alpha",
        node_names=["n1", "n[3-4]"],
        freq_ghz=2.1,
        walltime_s=90,
        decided_at_us=made.decided_at_us,
        changed_at_us=made.decided_at_us,
    )
    held = SlurmJob({**HELD, "comment": "coplace held by its user"})
    assert isinstance(orders(made, held, now_us(), SUBMIT_S * 1_000_000)[0], Release)


@pytest.mark.parametrize(("tasks", "is_made"), [("1-3", True), ("2,5", True), ("1,3", False)])
def test_a_task_waits_again_with_the_others_of_its_array(tasks: str, is_made: bool) -> None:
    beside, array = _Beside(), {**HELD, "array_job_id": 17, "array_task_string": tasks}
    beside.region.listed[0].job_id = f"{NAME}_2"
    beside.region.groups[0].job_ids.append(f"{NAME}_2")
    beside.look(array)
    beside.look(array)
    assert [each.job_id for each in beside.made] == [f"{NAME}_2"] * is_made


def test_a_heterogeneous_job_is_started_again_on_the_nodes_of_its_parts() -> None:
    beside, parts = _Beside(grant=0), []
    beside.region.listed = []
    for offset, node in enumerate(("n7", "n[8-9]")):
        het = {"het_job_id": 17, "het_job_offset": offset, "het_job_id_set": "17-18"}
        parts.append({**HELD, "job_id": 17 + offset, **het})
        job_id = f"north/alpha/17+{offset}/{SUBMIT_S}"
        allocation = Allocation(
            cluster="alpha", since_us=1, ends_by_us=1 + (offset + 1) * 60_000_000
        )
        run = ListedJob(
            job_id=job_id, attempt=1, standing=JOB_STANDING_RUNNING, allocation=allocation
        )
        beside.region.listed.append(run)
        beside.region.groups.append(NodeGroup(nodes=[node], job_ids=[job_id]))
    gang = with_gangs([SlurmJob(each) for each in parts])
    for _ in range(2):
        asyncio.run(beside.lost.look(gang))
    [made] = beside.made
    assert (made.job_id, made.grant, made.walltime_s) == (NAME, 1, 120)
    assert [list(each.node_names) for each in made.parts] == [["n7"], ["n[8-9]"]]
    beside.region.listed.pop()
    for _ in range(2):
        asyncio.run(beside.lost.look(gang))
    assert beside.made == [made], "of one part nothing is known"


def test_a_part_that_cannot_be_read_holds_up_no_other_job() -> None:
    beside = _Beside()
    odd = {**HELD, "job_id": 21, "het_job_id": 20, "het_job_offset": 1, "submit_time": "soon"}
    first = {**HELD, "job_id": 20, "het_job_id": 20, "het_job_offset": 0}
    shown = with_gangs([SlurmJob(each) for each in (first, odd, HELD)])
    for _ in range(2):
        asyncio.run(beside.lost.look(shown))
    assert [each.job_id for each in beside.made] == [NAME]


def test_a_start_that_was_decided_long_ago_and_has_left_no_word_is_made_within_its_time() -> None:
    beside = _Beside(JOB_STANDING_DECIDED)
    beside.look(HELD)
    beside.look(HELD)
    [again] = beside.made
    assert again.start_by_us == STARTED_US + 1


@pytest.mark.parametrize(
    "shown",
    [
        {**JOB, **RUNS},
        {**HELD, "admin_comment": f"coplace grant=3 started freq_ghz=2.1 submit={SUBMIT_S}"},
        {**HELD, "admin_comment": f"coplace grant=3 declined submit={SUBMIT_S}"},
        {**HELD, "admin_comment": "coplace given back"},
        {**HELD, "submit_time": SUBMIT_S + 9},
        {**HELD, "job_id": 18},
        {**HELD, "submit_time": "soon"},
    ],
)
def test_a_job_that_runs_has_a_word_or_is_another_one_is_let_be(shown: dict[str, Any]) -> None:
    beside = _Beside()
    beside.look(shown)
    beside.look(shown)
    assert beside.made == []


def test_what_is_in_hand_or_was_started_by_slurm_itself_is_let_be() -> None:
    for beside in (_Beside(JOB_STANDING_DECIDED, since_us=now_us()), _Beside(grant=0)):
        beside.look(HELD)
        beside.look(HELD)
        assert beside.made == []


def test_a_job_whose_nodes_are_not_named_is_let_be() -> None:
    beside = _Beside()
    beside.region.groups = [NodeGroup(cluster="alpha", nodes=["n1"], jobs_left_out=40)]
    beside.look(HELD)
    beside.look(HELD)
    assert beside.made == []


def test_a_job_that_was_seen_so_once_and_ran_since_begins_anew() -> None:
    beside = _Beside()
    beside.look(HELD)
    beside.look({**JOB, **RUNS})
    beside.look(HELD)
    assert beside.made == []
