"""Workloads and checks have their paths and field managers."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from services.kueue.adapters.api import WorkloadServer
from shared.kueue.workloads import WorkloadKey

KEY = WorkloadKey("alpha", "physics", "job-lu")
PATH = "/apis/kueue.x-k8s.io/v1beta2/namespaces/physics/workloads/job-lu"
RECORD = "/apis/coplace.io/v1/workloadrecords"
CHECK = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks/placement/status"


def answering(body: bytes) -> Mock:
    """A client whose API server answers everything so."""
    answer = Mock(status=200, read=AsyncMock(return_value=body))
    answer.__aenter__ = AsyncMock(return_value=answer)
    answer.__aexit__ = AsyncMock(return_value=None)
    return Mock(asked=Mock(return_value=answer))


@pytest.mark.parametrize(
    ("method", "given", "verb", "path", "manager"),
    [
        ("get", (KEY,), "GET", PATH, ""),
        ("patch", (KEY, {}), "PATCH", PATH, ""),
        ("answer_checks", (KEY, {}), "PATCH", f"{PATH}/status", "coplace-placement"),
        ("nominate", (KEY, {}), "PATCH", f"{PATH}/status", "kueue-admission"),
        ("get_record", ("u",), "GET", f"{RECORD}/u", ""),
        ("create_record", ({},), "POST", RECORD, ""),
        ("patch_record", ("u", {}), "PATCH", f"{RECORD}/u", ""),
        ("delete_record", ("u", "7"), "DELETE", f"{RECORD}/u", ""),
        ("activate", ("placement", {}), "PATCH", CHECK, "coplace-placement"),
    ],
)
def test_each_object_is_asked_for_at_its_path(
    method: str, given: tuple[Any, ...], verb: str, path: str, manager: str
) -> None:
    client = answering(b"{}")
    asyncio.run(getattr(WorkloadServer("alpha", client), method)(*given))
    asked = client.asked.call_args
    assert asked.args == (verb, path)
    query = asked.kwargs["query"] or {}
    assert query == ({"fieldManager": manager, "force": "true"} if manager else {})


def test_pods_of_a_group_are_those_of_its_label() -> None:
    body = b'{"items": [{"metadata": {"name": "lu-0"}}], "metadata": {"resourceVersion": "9"}}'
    client = answering(body)
    [pod] = asyncio.run(WorkloadServer("alpha", client).group_pods(KEY))
    assert pod["metadata"]["name"] == "lu-0"
    asked = client.asked.call_args
    assert asked.args == ("GET", "/api/v1/namespaces/physics/pods")
    assert asked.kwargs["query"]["labelSelector"] == "kueue.x-k8s.io/pod-group-name=job-lu"
