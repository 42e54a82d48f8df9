"""Decisions have the same effect however often they are read; a grant's first answer is final."""

from dataclasses import replace
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

from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import FINALIZER
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.decisions import obeying
from services.kubernetes.processor.effects import JobEffect, PatchRecord
from shared.kubernetes.claims import GrantClaim
from tests.support.kubernetes_api import EPOCH, merged
from tests.unit.services.kubernetes.objects import JOB_ID, LIVE, job, recorded
from tests.unit.shared.kubernetes.objects import NOW_US


def taken(patch: dict[str, Any] | None = None) -> KubernetesJob:
    return job(merged({"metadata": {"finalizers": [FINALIZER]}}, patch or {}))


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


def words(wanted: PlacementDecided, record: KubernetesRecord | None) -> list[str]:
    of = taken() if record else None
    return list(map(str, obeying(wanted, of, record, "north", NOW_US)))


def kept(effect: JobEffect) -> GrantClaim:
    assert isinstance(effect, PatchRecord)
    assert effect.body["metadata"] == {"uid": "00000009-record", "resourceVersion": "8"}
    return GrantClaim.of_fields(effect.body["status"]["claim"])


@pytest.mark.parametrize("cluster", ["alpha", "beta"])
def test_a_start_claims_its_grant_in_the_record_alone(cluster: str) -> None:
    [patch] = obeying(start(cluster=cluster), taken(), recorded(), "north", NOW_US)
    claim = kept(patch)
    assert (claim.is_live, claim.cluster, claim.run_uid) == (True, cluster, "")
    assert (claim.walltime_s, claim.nodes) == (60.5, ("n[1-2]",))


@pytest.mark.parametrize(
    ("wanted", "of", "record", "why"),
    [
        (start(start_by_us=NOW_US - 1), taken(), recorded(), "too late"),
        (start(), taken({"metadata": {"deletionTimestamp": EPOCH}}), recorded(), "dele"),
        (start(), taken(), replace(recorded(), released_at_us=NOW_US), "was released"),
        (start(2), taken(), recorded(LIVE), "the run under grant 1 has not ended yet"),
        (start(), taken({"spec": {"suspend": False}}), recorded(), "not suspended"),
        (start(node_names=[]), taken(), recorded(), "names no nodes"),
        (start(freq_ghz=-1), taken(), recorded(), "freq_ghz"),
        (start(), taken({"spec": {"template": {"spec": {"containers": 1}}}}), recorded(), "a list"),
        (start(), taken(), recorded(outcome="completed"), "has ended"),
    ],
)
def test_what_cannot_start_is_declined_once_and_for_all(
    wanted: PlacementDecided, of: KubernetesJob, record: KubernetesRecord, why: str
) -> None:
    patch, told, _ = obeying(wanted, of, record, "north", NOW_US)
    claim = kept(patch)
    assert claim.declined == wanted.grant
    assert why in told.event.job_declined.reason  # type: ignore[union-attr]
    assert words(start(wanted.grant), recorded(claim)) == ["published job_declined"]


def test_a_start_of_a_job_without_a_record_is_declined() -> None:
    [told] = obeying(start(), job(), None, "north", NOW_US)
    assert "not in Coplace's queue" in told.event.job_declined.reason  # type: ignore[union-attr]


def test_a_start_that_was_made_is_not_made_again() -> None:
    assert words(start(), recorded(LIVE)) == []
    assert words(start(), recorded(LIVE.over())) == []
    assert words(start(), None) == ["published job_declined"]


def test_a_start_that_is_withdrawn_is_given_back_unless_it_took_place() -> None:
    back, void = decision(VERDICT_WITHDRAWN), decision(VERDICT_WITHDRAWN, is_void=True)
    assert words(back, recorded())[:2] == ["declined grant 1", "published job_declined"]
    assert words(back, recorded(GrantClaim(declined=1))) == ["published job_declined"]
    assert words(back, recorded(LIVE)) == []
    assert words(void, recorded(LIVE))[0] == "stops, to forget"
    assert words(void, recorded(LIVE.over())) == []
    assert words(back, None) == ["published job_declined"]


@pytest.mark.parametrize("verdict", [VERDICT_CANCELLED, VERDICT_REJECTED])
def test_what_shall_not_run_is_let_go_or_stops(verdict: int) -> None:
    assert words(decision(verdict, 0, ""), recorded())[0] in ("cancelled", "rejected")
    assert words(decision(verdict), recorded())[1] == "published job_declined"
    assert words(decision(verdict), recorded(LIVE))[0] == "stops, to cancel"
    ended = recorded(outcome="completed")
    assert words(decision(verdict, 0, ""), ended) == []
    assert words(decision(verdict, 0, ""), None) == []


def test_an_action_ends_a_run_or_is_refused() -> None:
    def act(kind: int, grant: int = 1) -> PlacementDecided:
        return decision(VERDICT_ACTION, grant, action=Action(kind=kind, number=1))  # type: ignore[arg-type]

    assert words(act(ACTION_KIND_END), recorded(LIVE))[0] == "stops, to cancel"
    assert words(act(ACTION_KIND_REQUEUE), recorded(LIVE))[0] == "stops, to requeue"
    assert words(act(ACTION_KIND_SET_PSTATE), recorded(LIVE)) == ["published job_action_refused"]
    assert words(act(ACTION_KIND_END, 2), recorded(LIVE)) == []
    assert words(act(ACTION_KIND_END), recorded()) == []


def test_other_verdicts_ask_for_nothing() -> None:
    assert words(decision(VERDICT_QUEUED, 0, ""), recorded()) == []
