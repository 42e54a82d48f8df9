"""A Workload is a job of its namespace and LocalQueue, and its end says all that a price needs."""

from dataclasses import replace

import pytest
from coplace.v1.jobs_pb2 import (
    HOLDER_MANAGER,
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
)

from coplace_client.errors import RejectedError
from services.kueue.model.facts import (
    answers,
    finish,
    finished_end,
    hold_word,
    submission_of,
)
from services.kueue.model.records import PastRun
from shared.catalogue.contents.check import check_contents
from shared.kubernetes.claims import GrantClaim
from shared.kubernetes.facts import RunEnd
from shared.kueue.workloads import identified
from tests.unit.services.kueue.objects import (
    CREATED,
    LIVE,
    NOW_US,
    TERMS,
    pod_set,
    recorded,
    workload,
)

BEGUN = replace(LIVE, run_uid="x", nodes=("n[1-3]",), node_units=(2, 2, 1))


def test_it_is_submitted_as_kueue_has_it() -> None:
    spec = {"priority": 5, "maximumExecutionTimeSeconds": 60}
    found = submission_of(workload(None, pod_set(count=3), spec=spec), ["alpha"], TERMS)
    assert found.job_id == "north/alpha/physics/job-lu-1a2b/00000001/1767225600"
    assert (found.user, found.account) == ("physics", "physics/main")
    assert (found.nodes, found.cores_per_unit, found.walltime_s) == (3, 2, 60)
    assert (found.home_cluster, list(found.clusters)) == ("alpha", ["alpha"])
    assert found.app_id == "lu"


def test_the_application_is_that_of_its_pods_or_its_own() -> None:
    """Of pods that are a group Kueue copies labels to the Workload alone."""
    app, other = {"coplace.io/app": "lu.C"}, {"coplace.io/app": "ep.D"}
    found = workload()
    assert isinstance(found.fields, dict)
    found.fields["metadata"]["labels"] = app
    kept = identified("alpha", found.fields)
    assert submission_of(kept, ["alpha"], TERMS).app_id == "lu.C"
    kept.fields["spec"]["podSets"][0]["template"]["metadata"]["labels"] = other
    assert submission_of(kept, ["alpha"], TERMS).app_id == "ep.D"


def test_priorities_keep_their_order() -> None:
    told = [
        submission_of(workload(spec={"priority": p}), ["alpha"], TERMS).manager_priority
        for p in (-(1 << 31), -1, 0, 7, (1 << 31) - 1)
    ]
    assert told == sorted(set(told))
    assert told[0] >= 1


def test_one_that_is_sent_away_is_at_home_nowhere() -> None:
    found = submission_of(workload(), ["beta", "gamma"], TERMS)
    assert (found.home_cluster, found.reference_cluster) == ("", "beta")
    assert list(found.clusters) == ["beta", "gamma"]


def test_one_without_a_limit_has_that_of_the_site() -> None:
    assert submission_of(workload(), ["alpha"], TERMS).walltime_s == 3600


def test_a_limit_beyond_all_bounds_is_refused() -> None:
    spec = {"maximumExecutionTimeSeconds": 1 << 31}
    with pytest.raises(RejectedError, match="walltime_s"):
        submission_of(workload(spec=spec), ["alpha"], TERMS)


def test_its_end_has_the_cores_of_its_pods() -> None:
    found = workload(None, pod_set("driver", 1, cpu="1"), pod_set("workers", 4, cpu="4"))
    record = recorded(found, claim=BEGUN)
    end = RunEnd(JOB_OUTCOME_COMPLETED, NOW_US + 5)
    told = finish(record, found, TERMS, end, NOW_US + 9).job_finished
    assert (told.cores, told.nodes, told.cores_per_node) == (17, 3, 8)
    assert (told.started_at_us, told.ended_at_us) == (NOW_US, NOW_US + 5)


def test_pods_of_parts_of_cores_are_units_of_the_largest_and_end_with_their_own() -> None:
    sets = pod_set("driver", 1, cpu="100m"), pod_set("workers", 4, cpu="250m")
    found = workload(None, *sets)
    record = recorded(found, claim=BEGUN)
    asked = record.submitted
    assert (asked.nodes, asked.cores_per_unit, asked.millicores_per_unit) == (5, 1, 250)
    end = RunEnd(JOB_OUTCOME_COMPLETED, NOW_US + 5)
    told = finish(record, found, TERMS, end, NOW_US + 9).job_finished
    assert (told.cores_per_node, told.cores, told.millicores) == (1, 2, 1_100)
    check_contents(told)


@pytest.mark.parametrize(("at_us", "expected"), [(0, 9), (99, 9), (-5, 9), (3, 5), (7, 7)])
def test_an_end_is_neither_before_its_begin_nor_to_come(at_us: int, expected: int) -> None:
    record = recorded(claim=replace(BEGUN, at_us=NOW_US + 5))
    at = at_us and NOW_US + at_us
    end = RunEnd(JOB_OUTCOME_COMPLETED, at if at_us >= 0 else 0)
    told = finish(record, workload(), TERMS, end, NOW_US + 9).job_finished
    assert told.ended_at_us == NOW_US + expected


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("Succeeded", JOB_OUTCOME_COMPLETED),
        ("Failed", JOB_OUTCOME_FAILED),
        ("OwnerNotFound", JOB_OUTCOME_CANCELLED),
    ],
)
def test_kueue_says_how_it_ended(reason: str, outcome: int) -> None:
    done = {"type": "Finished", "status": "True", "reason": reason, "lastTransitionTime": CREATED}
    found = workload({"conditions": [done]})
    assert finished_end(found, 0) == (outcome, 1_767_225_600_000_000)
    assert finished_end(found, 7) == (outcome, 7)


def test_what_became_of_a_grant_is_published_from_the_record() -> None:
    over = BEGUN.over()
    ran = recorded(claim=over, past=PastRun(BEGUN, "Preempted: x", NOW_US + 5))
    again, ended = answers(ran, workload(), TERMS, NOW_US + 9)
    assert (again.job_requeued.attempt, again.job_requeued.reason) == (2, "Preempted: x")
    assert (ended.job_finished.attempt, ended.job_finished.ended_at_us) == (1, NOW_US + 5)
    declined = recorded(claim=LIVE.declining(3, 1), past=PastRun(LIVE, "no pods"))
    [told] = answers(declined, workload(), TERMS, NOW_US)
    assert (told.job_declined.grant, told.job_declined.reason) == (3, "no pods")
    assert answers(recorded(), workload(), TERMS, NOW_US) == []
    later = recorded(claim=GrantClaim(declined=4), past=PastRun(BEGUN, "Preempted", NOW_US))
    [told] = answers(later, workload(), TERMS, NOW_US)
    assert told.job_declined.grant == 4


def test_a_hold_is_that_of_the_manager() -> None:
    held = recorded().held("r", NOW_US)
    assert hold_word(held, TERMS).job_held.holder == HOLDER_MANAGER
    released = hold_word(held.released("s", NOW_US + 1), TERMS).job_released
    assert list(released.holders) == [HOLDER_MANAGER]
