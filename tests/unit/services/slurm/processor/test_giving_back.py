"""Jobs that wait go back to Slurm with the nodes that their users asked for."""

from typing import Any

from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from services.slurm.model.jobs import GIVEN_BACK, SlurmJob
from services.slurm.processor.giving_back import GivenBack, given_back
from services.slurm.processor.orders import Decline, orders
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S


def job(number: int, **changes: Any) -> SlurmJob:
    return SlurmJob({**JOB, "job_id": number, "priority": 0, **changes})


def test_what_waits_is_given_back_and_what_its_user_holds_stays() -> None:
    word = f"coplace grant=2 started freq_ghz=2.1 submit={SUBMIT_S}"
    found = given_back(
        [
            job(1),
            job(2, required_nodes="n7"),
            job(3, admin_comment=f"{word} wanted=n[1-2]", priority=9, required_nodes="n1"),
            job(8, admin_comment=f"{word} most_nodes=4", node_count=2, max_nodes=2),
            job(4, admin_comment="coplace held by its user"),
            job(5, **RUNS),
            job(6, priority=7),
            job(7, array_job_id=7, array_task_string="1-3%2"),
        ]
    )
    assert found == [
        GivenBack(("1", "2", "7_[1-3]")),
        GivenBack(("3",), "n[1-2]", "1-100000"),
        GivenBack(("8",), "", "2-4"),
    ]
    assert found[0].changes == (f"AdminComment={GIVEN_BACK}",)
    assert found[2].changes == ("ReqNodeList=", "NumNodes=2-4", f"AdminComment={GIVEN_BACK}")


def test_a_command_has_a_hundred_of_them_at_most() -> None:
    found = given_back(job(number) for number in range(1, 251))
    assert [len(group.jobs) for group in found] == [100, 100, 50]


def test_a_job_that_was_given_back_is_started_under_no_grant() -> None:
    decision = PlacementDecided(job_id="x", verdict=VERDICT_START, grant=3)
    assert orders(decision, job(1, admin_comment=GIVEN_BACK), 0) == [
        Decline("it was given back to Slurm")
    ]
