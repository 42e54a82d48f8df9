"""Records of topics as facts for the tables. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.authority_pb2 import AccessAudited
from coplace.v1.control_pb2 import COMMAND_RESULT_EARLY, ClusterDeclared, CommandOutcome
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.history.auditing import AuditRow, add, of_access, of_change
from services.history.changes import CHANGES, ChangeRow, OutcomeRow, changes_of, entry_id
from services.history.charges import ChargeRow
from services.history.model import RunFact
from services.history.story import ANSWERS, REQUESTS, StoryRow, story_row
from shared.catalogue.event import Event
from shared.catalogue.schemas import names_of

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

    def add(self, event: Event, offset: int) -> None:
        """Take what an event says, at its offset in its topic. Raises RejectedError; then nothing
        of it was taken."""
        _require_storable(event.payload)
        if event.type in CHANGES:
            self._change(event, offset)
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


def _require_storable(payload: Message) -> None:
    """Raise RejectedError for what no column takes."""
    for name in _REALS:
        if not isfinite(getattr(payload, name, 0.0)):
            raise RejectedError(name, "must be a finite number")
    if isinstance(payload, AccountStanding) and payload.number > _MOST_WHOLE:
        raise RejectedError("number", f"must be at most {_MOST_WHOLE}")
    if any("\0" in text for text in _texts(payload)):
        raise RejectedError("value", "must have no text with NUL")


def _texts(message: Message) -> Iterator[str]:
    """Yield the texts of a message; of a decision not those of what it evaluated."""
    for each, value in message.ListFields():
        if isinstance(value, str):
            yield value
        elif each.message_type is None:
            if each.is_repeated:
                yield from (text for text in value if isinstance(text, str))
        elif not (
            each.message_type.GetOptions().map_entry or isinstance(message, PlacementDecided)
        ):
            for inner in value if each.is_repeated else [value]:
                yield from _texts(inner)
