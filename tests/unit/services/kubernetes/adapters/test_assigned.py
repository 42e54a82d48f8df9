"""A cluster that has an executor is seen through the home cluster alone."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock, Mock

import orjson
import pytest

from services.kubernetes.adapters.api import JOBS, RECORDS
from services.kubernetes.adapters.assigned import SILENT_S, AssignedJobs
from services.kubernetes.adapters.home import HomeServer
from services.kubernetes.model.assignments import assignment_body, said_of
from services.kubernetes.model.jobs import JobKey, identified
from services.kubernetes.model.names import FINALIZER
from shared.kubernetes.api import ApiMissingError, ApiUnavailableError
from tests.support.kubernetes_api import EPOCH, merged, suspended_job

KEY = JobKey("beta", "physics", "lu-00000009-1")
OWN = "/apis/coplace.io/v1/namespaces/site-beta"
NAMED = f"{OWN}/jobassignments/physics.lu-00000009-1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/site-beta/leases"


def shown(status: Mapping[str, Any] | None = None, **job: Any) -> Any:
    manifest = suspended_job(KEY.name, suspend=False, **job)
    manifest["metadata"] |= {"finalizers": [FINALIZER]}
    identity = {"uid": "4", "resourceVersion": "7", "creationTimestamp": EPOCH}
    more = {"metadata": {**identity, "namespace": "site-beta"}, "status": status or {}}
    return merged(assignment_body(KEY, manifest), more)


def server(of: type[Any], *answers: Any) -> tuple[Any, Mock]:
    """A client of the home cluster, which answers so."""
    found = [Mock(status=200, read=AsyncMock(return_value=orjson.dumps(each))) for each in answers]

    @asynccontextmanager
    async def asked(*_words: Any, **_more: Any) -> AsyncIterator[Mock]:
        yield found.pop(0) if len(found) > 1 else found[0]

    client = Mock(asked=Mock(side_effect=asked))
    return of("beta", client, "site-beta"), client


@pytest.mark.parametrize(
    ("of", "method", "given", "asked"),
    [
        (AssignedJobs, "get", (KEY,), ("GET", NAMED)),
        (AssignedJobs, "patch", (KEY, {"metadata": {}}), ("PATCH", NAMED)),
        (AssignedJobs, "patch_status", (KEY, {}), ("GET", NAMED)),
        (
            AssignedJobs,
            "create",
            (KEY, suspended_job(KEY.name)),
            ("POST", f"{OWN}/jobassignments"),
        ),
        (AssignedJobs, "delete", (KEY, "4", "7"), ("DELETE", NAMED)),
        (HomeServer, "get_assignment", (KEY,), ("GET", NAMED)),
        (HomeServer, "say", (KEY, {}), ("PATCH", f"{NAMED}/status")),
        (HomeServer, "create_node", ({},), ("POST", f"{OWN}/executornodes")),
        (HomeServer, "patch_node", ("n1", {}), ("PATCH", f"{OWN}/executornodes/n1")),
        (HomeServer, "delete_node", ("n1",), ("DELETE", f"{OWN}/executornodes/n1")),
        (HomeServer, "renew", (30,), ("PATCH", f"{LEASES}/executor")),
    ],
)
def test_each_object_is_asked_for_at_its_path(
    of: type[Any], method: str, given: tuple[Any, ...], asked: tuple[str, str]
) -> None:
    api, client = server(of, shown())
    asyncio.run(getattr(api, method)(*given))
    assert client.asked.call_args.args == asked


async def test_an_assignment_is_the_job_that_its_executor_reports() -> None:
    status = {"claimed": True, "uid": "run", "job": {"active": 1, "startTime": EPOCH}}
    api, _ = server(AssignedJobs, shown({**status, "pods": [{"uid": "p", "readyUs": 7}]}))
    job = identified("beta", await api.get(KEY))
    assert (job.key, job.uid, job.resource_version) == (KEY, "4", "7")
    assert (job.is_suspended, job.is_taken, job.status["active"]) == (False, True, 1)
    said = said_of(job)
    assert said is not None
    assert (said.run_uid, said.pods[0].ready_us) == ("run", 7)


@pytest.mark.parametrize("of", [{"job": {"suspend": True}}, None])
async def test_it_is_suspended_where_that_was_asked_for_or_somebody_did_it(of: Any) -> None:
    found = merged(shown({"suspended": of is None}), {"spec": of or {}})
    api, _ = server(AssignedJobs, found)
    assert identified("beta", await api.get(KEY)).is_suspended


async def test_a_patch_of_a_job_changes_what_was_assigned() -> None:
    api, client = server(AssignedJobs, shown())
    await api.patch(KEY, {"metadata": {"uid": "4"}, "spec": {"suspend": True}})
    body = client.asked.call_args.kwargs["body"]
    assert body == {"metadata": {"uid": "4"}, "spec": {"job": {"suspend": True}}}


async def test_jobs_are_listed_as_they_were_assigned_and_there_are_no_records() -> None:
    page = {"items": [shown()], "metadata": {"resourceVersion": "9"}}
    api, client = server(AssignedJobs, page)
    [job], version = await api.list(JOBS, "a=b")
    assert (job["metadata"]["name"], version) == (KEY.name, "9")
    assert client.asked.call_args.args == ("GET", f"{OWN}/jobassignments")
    assert await api.list(RECORDS, "a=b") == ((), "")
    with pytest.raises(ApiMissingError):
        await api.get_record("any")


async def test_jobs_are_watched_as_they_were_assigned() -> None:
    events = [
        {"type": "MODIFIED", "object": shown()},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
    ]
    api, client = server(AssignedJobs, {})

    async def lines() -> AsyncIterator[bytes]:
        for each in events:
            yield orjson.dumps(each)

    @asynccontextmanager
    async def asked(*_words: Any, **_more: Any) -> AsyncIterator[Mock]:
        yield Mock(status=200, content=lines())

    client.asked = Mock(side_effect=asked)
    found = [each async for each in api.watch(JOBS, "", "7")]
    assert [kind for kind, _ in found] == ["MODIFIED", "BOOKMARK"]
    assert found[0][1]["metadata"]["name"] == KEY.name
    assert client.asked.call_args.args == ("GET", f"{OWN}/jobassignments")


async def test_a_cluster_answers_while_its_executor_says_so() -> None:
    renewed = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
    api, _ = server(AssignedJobs, {}, renewed)
    await api.answer()
    assert api.begun.is_set()
    silent, _ = server(AssignedJobs, {}, {"spec": {}})
    with pytest.raises(ApiUnavailableError, match=f"Lease site-beta/executor for {SILENT_S:g} s"):
        await silent.answer()
    assert not silent.begun.is_set(), "it never renewed it"
