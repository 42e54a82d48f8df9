"""`coplace why` of a job that placement has forgotten, and history has not."""

from typing import Final

import grpc
from coplace.v1.history_service_pb2 import (
    RUN_STATE_CANCELLED,
    RUN_STATE_COMPLETED,
    RUN_STATE_FAILED,
    RUN_STATE_TIMED_OUT,
    Run,
    ShowStoryRequest,
)
from coplace.v1.history_service_pb2_grpc import HistoryServiceStub
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
)
from coplace.v1.placement_service_pb2 import JOB_STANDING_FINISHED, EndedRun, ExplainResponse

from cli import why
from cli.asking import asking
from coplace_client.calls import UnansweredError

_WITHIN_S: Final = 30.0
_ENDED: Final = {
    RUN_STATE_COMPLETED: JOB_OUTCOME_COMPLETED,
    RUN_STATE_FAILED: JOB_OUTCOME_FAILED,
    RUN_STATE_TIMED_OUT: JOB_OUTCOME_TIMED_OUT,
    RUN_STATE_CANCELLED: JOB_OUTCOME_CANCELLED,
}


def ask(placement: str, history: str, job_id: str) -> ExplainResponse:
    """Ask placement about a job, and history about one that placement knows no more. Raises
    UnansweredError."""
    try:
        return why.ask(placement, job_id)
    except UnansweredError as error:
        if error.code is not grpc.StatusCode.NOT_FOUND:
            raise
        run = _past_run(history, job_id)
        if run is None:
            raise
    return explained(run)


def _past_run(history: str, job_id: str) -> Run | None:
    """The last run of a job, where it has ended; None where nobody there knows one."""
    try:
        with asking(history) as channel:
            request = ShowStoryRequest(job_id=job_id)
            runs = HistoryServiceStub(channel).ShowStory(request, timeout=_WITHIN_S).runs
    except UnansweredError as error:
        if error.code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE):
            return None
        raise
    last = max(runs, key=lambda run: run.attempt, default=None)
    return last if last is not None and last.state in _ENDED else None


def explained(run: Run) -> ExplainResponse:
    """Return what is kept of a run that has ended, in the form of an answer of placement."""
    ended = EndedRun(
        cluster=run.cluster,
        nodes=run.node_names,
        started_at_us=run.started_at_us,
        ended_at_us=run.ended_at_us,
        outcome=_ENDED[run.state],
        ended_as=run.ended_as,
        exit_code=run.exit_code,
        signal=run.signal,
    )
    return ExplainResponse(
        job_id=run.job_id,
        attempt=run.attempt,
        standing=JOB_STANDING_FINISHED,
        reason="by its history: placement knows it no more",
        ended=ended,
    )
