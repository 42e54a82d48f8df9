"""What happens to a job between its submission and its end, as lines of its story. Pure."""

from typing import Any, Final, NamedTuple

from coplace.v1.history_service_pb2 import (
    STORY_EVENT_ANSWERED,
    STORY_EVENT_ASKED,
    STORY_EVENT_DECIDED,
    STORY_EVENT_HELD,
    STORY_EVENT_WAITS,
)
from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobHeld,
    JobLimitChanged,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobResumed,
    JobSeized,
    JobSuspended,
)
from coplace.v1.placement_pb2 import (
    VERDICT_ACTION,
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_START,
    ActionKind,
    PlacementDecided,
    Verdict,
)

from services.history.changes import entry_id
from shared.catalogue.codec import format_time
from shared.catalogue.event import Event

StoryRequest = (
    JobCancelled
    | JobHeld
    | JobPrioritized
    | JobReleased
    | JobRequeueAsked
    | JobResumed
    | JobSeized
    | JobSuspended
)
StoryAnswer = JobActionDone | JobActionRefused | JobDeclined | JobLimitChanged
_ASKED: Final[dict[type[StoryRequest], str]] = {
    JobCancelled: "to be cancelled",
    JobHeld: "to be held",
    JobPrioritized: "to have priority",
    JobReleased: "to be released",
    JobRequeueAsked: "to be requeued",
    JobResumed: "to run on",
    JobSeized: "to be taken from its resource manager",
    JobSuspended: "to be suspended",
}
REQUESTS: Final = tuple(_ASKED)
ANSWERS: Final = (JobActionDone, JobActionRefused, JobDeclined, JobLimitChanged)


class StoryRow(NamedTuple):
    """A line of a job's story, as in the table `stories`; of no attempt where `attempt` is 0."""

    job_id: str
    event_id: str
    at_us: int
    attempt: int
    event: int
    details: str


def story_row(event: Event, said: PlacementDecided | StoryRequest | StoryAnswer) -> StoryRow:
    """Return the line that an event is."""
    kind, details = _told(event.source, said)
    attempt = getattr(said, "attempt", 0)
    return StoryRow(said.job_id, entry_id(event.id), event.time_us, attempt, kind, details)


def _told(source: str, said: PlacementDecided | StoryRequest | StoryAnswer) -> tuple[int, str]:
    match said:
        case PlacementDecided(verdict=verdict) if verdict == VERDICT_QUEUED:
            return STORY_EVENT_WAITS, _with_promise(said)
        case PlacementDecided(verdict=verdict) if verdict == VERDICT_HELD:
            return STORY_EVENT_HELD, said.reason
        case PlacementDecided():
            return STORY_EVENT_DECIDED, _decided(said)
        case JobActionDone() | JobActionRefused() | JobDeclined() | JobLimitChanged():
            return STORY_EVENT_ANSWERED, _answered(said)
        case JobPrioritized():
            asked = f"{source} asked it {_ASKED[JobPrioritized]} {said.priority}"
            return STORY_EVENT_ASKED, _why(asked, said.reason)
        case _:
            asked = f"{source} asked it {_ASKED[type(said)]}"
            return STORY_EVENT_ASKED, _why(asked, getattr(said, "reason", ""))


def _answered(said: StoryAnswer) -> str:
    """What a resource manager says of a start, of an action or of a run."""
    match said:
        case JobActionDone():
            clock = f", it runs at {said.freq_ghz:g} GHz" if said.freq_ghz else ""
            return f"did action {said.number}{clock}"
        case JobActionRefused():
            return _why(f"refused action {said.number}", said.reason)
        case JobDeclined():
            return _why(f"declined the start (grant {said.grant})", said.reason)
        case JobLimitChanged():
            return f"changed its limit: it may run until {format_time(said.ends_by_us)}"


def _with_promise(said: PlacementDecided) -> str:
    """A job that waits for no reason of its own waits for its turn."""
    why = said.reason or "for its turn"
    if not said.HasField("reservation"):
        return why
    promised = said.reservation
    start = format_time(promised.start_at_us)
    return f"{why}; promised {promised.nodes} nodes of {promised.cluster} by {start}"


def _decided(said: PlacementDecided) -> str:
    if said.verdict == VERDICT_START:
        clock = f" at {said.freq_ghz:g} GHz" if said.freq_ghz else ""
        beside = f", beside {said.co_runner_job_id}" if said.co_runner_job_id else ""
        return f"to start on {len(said.node_indices)} nodes of {said.cluster}{clock}{beside}"
    if said.verdict == VERDICT_ACTION:
        asked = f"asked to {word_of(ActionKind, said.action.kind)} (action {said.action.number})"
        return _why(asked, said.reason)
    return _why(word_of(Verdict, said.verdict), said.reason)


def _why(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what


def word_of(enum: Any, number: int) -> str:
    """Return an enum's value in words, its number where this release has none."""
    names = dict(zip(enum.values(), enum.keys(), strict=True))
    prefix = names[0].removesuffix("UNSPECIFIED")
    return str(names.get(number, number)).removeprefix(prefix).lower().replace("_", " ")
