"""Decisions have the same effect however often they are read; a grant's first answer is final."""

from typing import Any

import pytest
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_REQUEUE,
    ACTION_KIND_SET_PSTATE,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Action,
    PlacementDecided,
)

from services.kubernetes.model.claims import GrantClaim
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import CLAIM, FINALIZER
from services.kubernetes.model.names import JOB_ID as JOB_ID_ANNOTATION
from services.kubernetes.processor.decisions import obeying
from services.kubernetes.processor.effects import JobEffect, PatchJob
from tests.support.kubernetes_api import merged
from tests.unit.services.kubernetes.objects import JOB_ID, LIVE, NOW_US, job


def taken(claim: GrantClaim | None = None, patch: dict[str, Any] | None = None) -> KubernetesJob:
    annotations = {JOB_ID_ANNOTATION: JOB_ID, CLAIM: claim.to_json() if claim else None}
    metadata = {"finalizers": [FINALIZER], "annotations": annotations}
    return job(merged({"metadata": metadata}, patch or {}))


def decision(verdict: int, grant: int = 1, cluster: str = "alpha", **more: Any) -> PlacementDecided:
    return PlacementDecided(
        job_id=JOB_ID,
        attempt=1,
        verdict=verdict,  # type: ignore[arg-type]
        cluster=cluster,
        grant=grant,
        **more,
    )


def start(grant: int = 1, **more: Any) -> PlacementDecided:
    how = {"node_names": ["n[1-2]"], "freq_ghz": 2.1, "walltime_s": 60.5, **more}
    return decision(VERDICT_START, grant, **how)


def words(wanted: PlacementDecided, of: KubernetesJob | None) -> list[str]:
    return list(map(str, obeying(wanted, of, "north", NOW_US)))


def test_a_start_claims_its_grant_and_lets_the_job_run_in_one_patch() -> None:
    [patch] = obeying(start(), taken(), "north", NOW_US)
    assert isinstance(patch, PatchJob)
    spec, metadata = patch.body["spec"], patch.body["metadata"]
    assert metadata["resourceVersion"] == "7"
    assert (spec["suspend"], spec["activeDeadlineSeconds"]) == (False, 61)
    terms = spec["template"]["spec"]["affinity"]["nodeAffinity"]
    [values] = {len(each) for each in terms.values()}
    assert values == 1
    assert '"n1"' in str(terms).replace("'", '"')
    annotations = spec["template"]["metadata"]["annotations"]
    assert annotations["coplace.io/frequency-ghz"] == "2.1"
    assert GrantClaim.parse(metadata["annotations"][CLAIM]).is_live


def test_a_start_elsewhere_claims_its_grant_and_leaves_the_job_suspended() -> None:
    [patch] = obeying(start(cluster="beta"), taken(), "north", NOW_US)
    assert isinstance(patch, PatchJob)
    assert "spec" not in patch.body


@pytest.mark.parametrize(
    ("wanted", "of", "why"),
    [
        (start(start_by_us=NOW_US - 1), taken(), "too late"),
        (start(), taken(patch={"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "dele"),
        (start(2), taken(LIVE), "the run under grant 1 has not ended yet"),
        (start(), job(), "not in Coplace's queue"),
        (start(), taken(patch={"spec": {"suspend": False}}), "not suspended"),
        (start(node_names=[]), taken(), "names no nodes"),
    ],
)
def test_what_cannot_start_is_declined_once_and_for_all(
    wanted: PlacementDecided, of: KubernetesJob, why: str
) -> None:
    patch, told, _ = obeying(wanted, of, "north", NOW_US)
    assert isinstance(patch, PatchJob)
    kept = GrantClaim.parse(patch.body["metadata"]["annotations"][CLAIM])
    assert kept.declined == wanted.grant
    assert why in told.event.job_declined.reason  # type: ignore[union-attr]
    again = taken(kept)
    assert words(start(wanted.grant), again) == ["published job_declined"]


def test_what_the_api_server_refuses_is_declined() -> None:
    [patch] = obeying(start(), taken(), "north", NOW_US)
    assert isinstance(patch, PatchJob)
    assert patch.otherwise is not None
    otherwise: list[JobEffect] = list(patch.otherwise("field is immutable"))
    assert list(map(str, otherwise))[:2] == ["declined grant 1", "published job_declined"]


def test_a_start_that_was_made_is_not_made_again() -> None:
    assert words(start(), taken(LIVE)) == []
    assert words(start(), taken(LIVE.over())) == []
    assert words(start(), None) == ["published job_declined"]


def test_a_start_that_is_withdrawn_is_given_back_unless_it_took_place() -> None:
    back, void = decision(VERDICT_WITHDRAWN), decision(VERDICT_WITHDRAWN, is_void=True)
    assert words(back, taken())[:2] == ["declined grant 1", "published job_declined"]
    assert words(back, taken(GrantClaim(declined=1))) == ["published job_declined"]
    assert words(back, taken(LIVE)) == []
    assert words(void, taken(LIVE))[0] == "stops, to forget"
    assert words(void, taken(LIVE.over())) == []
    assert words(back, None) == ["published job_declined"]


@pytest.mark.parametrize("verdict", [VERDICT_CANCELLED, VERDICT_REJECTED])
def test_what_shall_not_run_is_let_go_or_stops(verdict: int) -> None:
    assert words(decision(verdict, 0, ""), taken())[0] in ("cancelled", "rejected")
    assert words(decision(verdict), taken())[1] == "published job_declined"
    assert words(decision(verdict), taken(LIVE))[0] == "stops, to cancel"
    ended = taken(patch={"metadata": {"annotations": {"coplace.io/outcome": "completed"}}})
    assert words(decision(verdict, 0, ""), ended) == []
    assert words(decision(verdict, 0, ""), None) == []


def test_an_action_ends_a_run_or_is_refused() -> None:
    def act(kind: int, grant: int = 1) -> PlacementDecided:
        return decision(VERDICT_ACTION, grant, action=Action(kind=kind, number=1))  # type: ignore[arg-type]

    assert words(act(ACTION_KIND_END), taken(LIVE))[0] == "stops, to cancel"
    assert words(act(ACTION_KIND_REQUEUE), taken(LIVE))[0] == "stops, to requeue"
    assert words(act(ACTION_KIND_SET_PSTATE), taken(LIVE)) == ["published job_action_refused"]
    assert words(act(ACTION_KIND_END, 2), taken(LIVE)) == []
    assert words(act(ACTION_KIND_END), taken()) == []


def test_other_verdicts_ask_for_nothing() -> None:
    assert words(decision(VERDICT_QUEUED, 0, ""), taken()) == []
