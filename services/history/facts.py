"""Records of topics as facts for the tables. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.authority_pb2 import AccessAudited
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade

from services.history.charges import ChargeRow
from services.history.model import RunFact
from shared.catalogue.event import Event
from shared.catalogue.schemas import names_of

TOPICS: Final = (
    "jobs.events",
    "placement.decisions",
    "prices.charges",
    "accounts.standings",
    "commands",
    "audit",
)
_RUN_FACTS: Final = (JobSubmitted, JobStarted, JobFinished, JobRequeued, PlacementDecided)
KINDS: Final = frozenset(
    name.encode()
    for name in names_of(*_RUN_FACTS, ChargeMade, AccountStanding, ClusterDeclared, AccessAudited)
)


@dataclass(slots=True)
class Facts:
    """What a batch of records says, each kind in the order of its topic."""

    runs: dict[str, list[RunFact]] = field(default_factory=lambda: defaultdict(list))
    charges: dict[str, list[ChargeRow]] = field(default_factory=lambda: defaultdict(list))
    standings: dict[str, AccountStanding] = field(default_factory=dict)
    sites: dict[str, str] = field(default_factory=dict)
    audited: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, events: Iterable[Event]) -> None:
        """Take what some events say. Raises RejectedError."""
        for event in events:
            self._take(event)

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
            case ClusterDeclared() as declared:
                self.sites[declared.cluster] = declared.site
            case AccessAudited() as audited:
                self.audited.setdefault(event.id, audit_row(event.id, audited))
            case fact if isinstance(fact, _RUN_FACTS):
                self.runs[fact.job_id].append(fact)


def audit_row(event_id: str, audited: AccessAudited) -> dict[str, Any]:
    """Return the row of a record of the audit."""
    return {
        "id": event_id,
        "at_us": audited.at_us,
        "who": audited.who,
        "action": audited.action,
        "about": audited.about,
        "refused": audited.refused,
        "reason": audited.reason,
        "event_id": audited.event_id,
        "door": audited.door,
        "version": audited.version,
    }
