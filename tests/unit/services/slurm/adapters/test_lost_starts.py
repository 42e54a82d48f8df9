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
from services.slurm.model.jobs import SlurmJob
from shared.process.clock import now_us
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, PlayedRegion

NAME = f"north/alpha/17/{SUBMIT_S}"
HELD = {**JOB, "priority": 0}
STARTED_US = SUBMIT_S * 1_000_000


class _Region(PlayedRegion):
    """Knows which nodes jobs have."""

    groups: tuple[NodeGroup, ...] = (
        NodeGroup(cluster="alpha", nodes=["n1"], job_ids=[NAME, "north/alpha/3/1"]),
        NodeGroup(cluster="alpha", nodes=["n[3-4]"], job_ids=[NAME]),
    )

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
    assert beside.made == [
        PlacementDecided(
            job_id=NAME,
            attempt=1,
            verdict=VERDICT_START,
            grant=3,
            cluster="alpha",
            node_names=["n1", "n[3-4]"],
            freq_ghz=2.1,
            walltime_s=90,
        )
    ]


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
    beside.region.groups = (NodeGroup(cluster="alpha", nodes=["n1"], jobs_left_out=40),)
    beside.look(HELD)
    beside.look(HELD)
    assert beside.made == []


def test_a_job_that_was_seen_so_once_and_ran_since_begins_anew() -> None:
    beside = _Beside()
    beside.look(HELD)
    beside.look({**JOB, **RUNS})
    beside.look(HELD)
    assert beside.made == []
