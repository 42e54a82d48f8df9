"""Jobs: what a user asked for, and the life that their events tell."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shared.domain.checks import (
    require_duration_s,
    require_not_negative,
    require_positive,
    require_text,
)


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt of a job as it was submitted. Raises RejectedError on construction.

    `walltime_s` relates to `reference_cluster` at its nominal P-state.
    """

    job_id: str
    attempt: int
    app_id: str
    user: str
    account: str
    nodes: int
    walltime_s: float
    reference_cluster: str
    shareable: bool
    submit_s: float

    def __post_init__(self) -> None:
        for field in ("job_id", "user", "account", "reference_cluster"):
            require_text(field, getattr(self, field))
        if self.app_id:
            require_text("app_id", self.app_id)
        for field in ("attempt", "nodes"):
            require_positive(field, getattr(self, field))
        require_duration_s("walltime_s", self.walltime_s)
        require_not_negative("submit_s", self.submit_s)


def job_id(site: str, cluster: str, local_id: str, submit_s: float) -> str:
    """The natural key of a job; it holds the time since resource managers use local ids again."""
    return f"{site}/{cluster}/{local_id}/{round(submit_s)}"


class JobState(StrEnum):
    """Where one attempt of a job stands."""

    UNKNOWN = "unknown"
    SUBMITTED = "submitted"
    RUNNING = "running"
    FINISHED = "finished"


class JobFact(StrEnum):
    """What a resource manager says happened to an attempt."""

    SUBMITTED = "submitted"
    STARTED = "started"
    FINISHED = "finished"


# What each fact makes of each state. A pair that is missing changes nothing: it is a copy, or a
# fact that arrived after a later one (a start after its finish). A finish carries all that a price
# needs, so it is accepted from every state but its own; without a submission it is bad input.
TRANSITIONS: Final[dict[tuple[JobState, JobFact], JobState]] = {
    (JobState.UNKNOWN, JobFact.SUBMITTED): JobState.SUBMITTED,
    (JobState.UNKNOWN, JobFact.STARTED): JobState.RUNNING,
    (JobState.SUBMITTED, JobFact.STARTED): JobState.RUNNING,
    (JobState.SUBMITTED, JobFact.FINISHED): JobState.FINISHED,
    (JobState.RUNNING, JobFact.FINISHED): JobState.FINISHED,
}


def next_state(state: JobState, fact: JobFact) -> JobState:
    """The state after `fact`; the same state when the fact is a copy or comes late."""
    return TRANSITIONS.get((state, fact), state)
