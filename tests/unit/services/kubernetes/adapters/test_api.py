"""Jobs and records have their paths."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from services.kubernetes.adapters.api import JobServer
from services.kubernetes.model.jobs import JobKey
from shared.kueue.workloads import WorkloadKey

KEY = JobKey("alpha", "physics", "lu")
JOBS = "/apis/batch/v1/namespaces/physics/jobs"
COPY = WorkloadKey("alpha", "physics", "job-lu")
RECORDS = "/apis/coplace.io/v1/jobrecords"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/physics/workloads"


@pytest.mark.parametrize(
    ("method", "given", "asked"),
    [
        ("get", (KEY,), ("GET", f"{JOBS}/lu")),
        ("patch", (KEY, {}), ("PATCH", f"{JOBS}/lu")),
        ("create", (KEY, {}), ("POST", JOBS)),
        ("delete", (KEY, "7", "8"), ("DELETE", f"{JOBS}/lu")),
        ("get_record", ("a b",), ("GET", f"{RECORDS}/a%20b")),
        ("patch_record", ("ab", {}), ("PATCH", f"{RECORDS}/ab")),
        ("create_record", ({},), ("POST", RECORDS)),
        ("delete_record", ("ab", "7"), ("DELETE", f"{RECORDS}/ab")),
        ("get_workload", (COPY,), ("GET", f"{WORKLOADS}/job-lu")),
        ("patch_workload", (COPY, {}), ("PATCH", f"{WORKLOADS}/job-lu")),
        ("answer_check", (COPY, {}), ("PATCH", f"{WORKLOADS}/job-lu/status")),
    ],
)
def test_each_object_is_asked_for_at_its_path(
    method: str, given: tuple[Any, ...], asked: tuple[str, str]
) -> None:
    answer = Mock(status=200, read=AsyncMock(return_value=b"{}"))
    answer.__aenter__, answer.__aexit__ = (
        AsyncMock(return_value=answer),
        AsyncMock(return_value=None),
    )
    client = Mock(asked=Mock(return_value=answer))
    asyncio.run(getattr(JobServer("alpha", client), method)(*given))
    verb, path = client.asked.call_args.args
    assert (verb, path) == asked
