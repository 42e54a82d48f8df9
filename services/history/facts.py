"""Records of topics as facts for the tables. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import Final, NamedTuple

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.authority_pb2 import AccessAudited
from coplace.v1.control_pb2 import COMMAND_RESULT_EARLY, ClusterDeclared, CommandOutcome
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.history.auditing import AuditRow, add, of_access, of_change
from services.history.changes import CHANGES, ChangeRow, OutcomeRow, changes_of, entry_id
from services.history.charges import ChargeRow
from services.history.model import RunFact
from services.history.story import ANSWERS, REQUESTS, StoryRow, story_row
from shared.catalogue.event import Event
from shared.catalogue.record import Record
from shared.catalogue.schemas import descriptor_of, names_of

TOPICS: Final = (
    "jobs.events",
    "placement.decisions",
    "prices.charges",
    "accounts.standings",
    "commands",
    "billing",
    "authority",
    "command.outcomes",
    "audit",
)
_RUN_FACTS: Final = (JobSubmitted, JobStarted, JobFinished, JobRequeued, PlacementDecided)
_STORY: Final = (PlacementDecided, *REQUESTS, *ANSWERS)
_OTHERS: Final = (ChargeMade, AccountStanding, AccessAudited, CommandOutcome)
KINDS: Final = frozenset(
    name.encode() for name in names_of(*_RUN_FACTS, *_STORY, *_OTHERS) | CHANGES
)
_DECISION: Final = descriptor_of(PlacementDecided)
_REALS: Final = ("freq_ghz", "energy_j", "runtime_s")
_MOST_WHOLE: Final = 2**63 - 1


@dataclass(slots=True)
class Facts:
    """What a batch of records says, each kind in the order of its topic."""

    runs: dict[str, list[RunFact]] = field(default_factory=lambda: defaultdict(list))
    charges: dict[str, list[ChargeRow]] = field(default_factory=lambda: defaultdict(list))
    standings: dict[str, AccountStanding] = field(default_factory=dict)
    sites: dict[str, str] = field(default_factory=dict)
    audited: dict[str, AuditRow] = field(default_factory=dict)
    changes: dict[str, list[ChangeRow]] = field(default_factory=dict)
    outcomes: dict[str, OutcomeRow] = field(default_factory=dict)
    stories: dict[str, dict[str, StoryRow]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, event: Event, record: Record) -> None:
        """Take what the event of a record says. Raises RejectedError; then nothing of it was
        taken."""
        _require_storable(event.payload, record)
        if event.type in CHANGES:
            self._change(event, record.offset)
        else:
            self._take(event)
        if isinstance(event.payload, _STORY):
            line = story_row(event, event.payload)
            self.stories[line.job_id].setdefault(line.event_id, line)

    def _take(self, event: Event) -> None:
        match event.payload:
            case ChargeMade() as charge:
                row = ChargeRow.from_charge(charge)
                self.charges[row.job_id].append(row)
                self.runs[row.job_id].append(row)
            case AccountStanding() as standing:
                known = self.standings.get(standing.account)
                if known is None or standing.number > known.number:
                    self.standings[standing.account] = standing
            case AccessAudited() as audited:
                add(self.audited, of_access(event.id, audited))
            case CommandOutcome() as outcome:
                self._take_outcome(outcome)
            case fact if isinstance(fact, _RUN_FACTS):
                self.runs[fact.job_id].append(fact)

    def _change(self, event: Event, offset: int) -> None:
        if isinstance(event.payload, ClusterDeclared):
            self.sites[event.payload.cluster] = event.payload.site
        rows = changes_of(event, offset)
        for row in rows[:1]:
            add(self.audited, of_change(event.id, row))
            self.changes.setdefault(row.event_id, rows)

    def _take_outcome(self, outcome: CommandOutcome) -> None:
        found = OutcomeRow(entry_id(outcome.command_id), outcome.result, outcome.reason)
        self.outcomes[found.id] = newer_outcome(self.outcomes.get(found.id), found)


def newer_outcome(known: OutcomeRow | None, found: OutcomeRow) -> OutcomeRow:
    """Return which counts: the first one that is not early."""
    return known if known and known.result != COMMAND_RESULT_EARLY else found


def _require_storable(payload: Message, record: Record) -> None:
    """Raise RejectedError for what no column takes."""
    for name in _REALS:
        if not isfinite(getattr(payload, name, 0.0)):
            raise RejectedError(name, "must be a finite number")
    if isinstance(payload, AccountStanding) and payload.number > _MOST_WHOLE:
        raise RejectedError("number", f"must be at most {_MOST_WHOLE}")
    # Of many records the bytes say that no text has one.
    if b"\0" in (record.value or b"") and _has_nul(payload):
        raise RejectedError("value", "must have no text with NUL")


def _has_nul(message: Message) -> bool:
    """Return whether a text has NUL; of a decision not those of what it evaluated."""
    of = _fields_of(descriptor_of(message))
    texts = [getattr(message, name) for name in of.texts]
    for name in of.lists:
        texts += getattr(message, name)
    if "\0" in "".join(texts):
        return True
    return any(
        _has_nul(inner)
        for name, is_list in of.messages.items()
        if is_list or message.HasField(name)
        for inner in (getattr(message, name) if is_list else [getattr(message, name)])
    )


class _TextFields(NamedTuple):
    """The fields of a message that texts are in: alone, as lists, and in messages, which may be
    lists too."""

    texts: Sequence[str]
    lists: Sequence[str]
    messages: Mapping[str, bool]


@cache
def _fields_of(message: Descriptor) -> _TextFields:
    fields = message.fields
    texts = [each for each in fields if each.type == each.TYPE_STRING]
    inner = [each for each in fields if each.message_type and message is not _DECISION]
    return _TextFields(
        [each.name for each in texts if not each.is_repeated],
        [each.name for each in texts if each.is_repeated],
        {
            each.name: each.is_repeated
            for each in inner
            if each.message_type and not each.message_type.GetOptions().map_entry
        },
    )
