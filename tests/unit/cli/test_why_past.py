"""`coplace why` of a job that placement knows no more asks history."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc
import pytest
from coplace.v1.history_service_pb2 import (
    RUN_STATE_FAILED,
    RUN_STATE_REQUEUED,
    RUN_STATE_WAITING,
    Run,
    ShowStoryRequest,
    ShowStoryResponse,
)
from coplace.v1.history_service_pb2_grpc import (
    add_HistoryServiceServicer_to_server,
)

from cli import why, why_past
from coplace_client.calls import UnansweredError
from tests.unit.cli.command_line import coplace
from tests.unit.services.slurm.region import unanswered

_T0_US = 1_767_225_600_000_000
FAILED = Run(
    job_id="j",
    attempt=2,
    state=RUN_STATE_FAILED,
    cluster="alpha",
    node_names=["n[1-2]"],
    started_at_us=_T0_US,
    ended_at_us=_T0_US + 61_000_000,
    ended_as="FAILED",
    exit_code=3,
)
RUNS = {
    "j": [Run(job_id="j", attempt=1, state=RUN_STATE_REQUEUED), FAILED],
    "waits": [Run(job_id="waits", attempt=1, state=RUN_STATE_WAITING)],
}


class Kept:
    """What history has of two jobs; it is asked nothing else."""

    def __getattr__(self, name: str) -> object:
        return name

    def ShowStory(  # noqa: N802
        self, request: ShowStoryRequest, context: Any
    ) -> ShowStoryResponse:
        """Answer, or say that nothing is known."""
        if request.job_id not in RUNS:
            context.abort(grpc.StatusCode.NOT_FOUND, "is unknown")
        return ShowStoryResponse(runs=RUNS[request.job_id])


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a history, beside a placement that knows no job."""

    def forgotten(_address: str, job_id: str) -> None:
        raise unanswered(grpc.StatusCode.NOT_FOUND, f"{job_id} is unknown")

    monkeypatch.setattr(why, "ask", forgotten)
    server = grpc.server(ThreadPoolExecutor(1))
    add_HistoryServiceServicer_to_server(cast(Any, Kept()), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_a_job_that_history_alone_knows_says_where_it_ran_and_how_it_ended(history: str) -> None:
    said = coplace("why", "j", "--history", history).stdout.splitlines()
    assert said == [
        "j (attempt 2) has ended",
        "why: by its history: placement knows it no more",
        "ran on n[1-2] of alpha for 00:01:01: from 2026-01-01 00:00:00 UTC until "
        "2026-01-01 00:01:01 UTC",
        "end: failed, exit code 3",
    ]


@pytest.mark.parametrize("job_id", ["waits", "nobody"])
def test_what_history_does_not_know_to_have_ended_is_unknown(history: str, job_id: str) -> None:
    with pytest.raises(UnansweredError, match=f"{job_id} is unknown"):
        why_past.ask("", history, job_id)


def test_without_a_history_a_job_is_unknown(history: str) -> None:
    del history
    with pytest.raises(UnansweredError, match="j is unknown"):
        why_past.ask("", "127.0.0.1:1", "j")
