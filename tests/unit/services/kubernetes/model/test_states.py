"""What an assignment says, and the Job that runs for it, is a state."""

from typing import Any

import pytest

from services.kubernetes.model.assignments import JobAssignment, claimed, refused, removed
from services.kubernetes.model.states import CopyState, copy_state
from shared.kueue.names import QUEUE_LABEL
from tests.support.kubernetes_api import EPOCH
from tests.unit.services.kubernetes.objects import job

_COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}

_QUEUED = {"metadata": {"labels": {QUEUE_LABEL: "main"}}}


def assignment(status: dict[str, Any]) -> JobAssignment:
    identity = {"uid": "a", "resourceVersion": "1", "creationTimestamp": EPOCH}
    metadata = {"name": "physics.lu", "namespace": "site", **identity}
    fields = {"metadata": metadata, "spec": {"job": {}}, "status": status}
    return JobAssignment.parse("beta", fields)


@pytest.mark.parametrize(
    ("status", "run", "state"),
    [
        ({}, None, CopyState.ASSIGNED),
        (claimed(), None, CopyState.CLAIMED),
        ({**claimed(), **refused("quota")}, None, CopyState.REFUSED),
        (claimed(), job(), CopyState.RUNS),
        (claimed(), job(_QUEUED), CopyState.WAITS),
        ({"uid": "u"}, job(_QUEUED), CopyState.RUNS),
        ({"uid": "u"}, job(), CopyState.RUNS),
        ({"uid": "u"}, job({"status": _COMPLETE}), CopyState.ENDED),
        ({"uid": "u", "final": True}, job(), CopyState.ENDED),
        ({"uid": "u", **removed(1)}, None, CopyState.ENDED),
    ],
)
def test_the_state_of_a_copy_is_what_its_executor_knows(
    status: dict[str, Any], run: Any, state: CopyState
) -> None:
    assert copy_state(assignment(status), run) is state
