"""Whether somebody may hand ingest something: the table in force, and what is known of the region.
Pure."""

from typing import Final

from coplace.v1.authority_pb2 import AuthorityDeclared

from coplace_client.errors import RejectedError
from services.ingest.region import KnownRegion
from shared.authority.door import AccessRequest
from shared.authority.naming import about_of
from shared.authority.rules import About, AccessVerdict
from shared.authority.table import TableInForce
from shared.catalogue.event import Publish

DECLARE: Final = "authority_declared"
DECLARE_CLUSTER: Final = "cluster_declared"


class Judge:
    """Judges by the table and the region as they are; both are folded by somebody else."""

    def __init__(self, table: TableInForce, known: KnownRegion) -> None:
        self._table = table
        self._known = known

    def request(self, who: str, action: str, publish: Publish) -> AccessRequest:
        """Return what somebody wants, and what it is about. A table is about the whole region."""
        event = publish.event
        is_table = isinstance(event.payload, AuthorityDeclared)
        about = About(is_region=True) if is_table else about_of(event.payload, self._known)
        return AccessRequest(who, action, about, event.id)

    def judge(self, who: str, action: str, publish: Publish) -> tuple[AccessRequest, AccessVerdict]:
        """Return what somebody wants, and whether they may. The first table anybody may declare who
        is known by name and is its operator. Raise RejectedError for a table that would not
        count."""
        request, payload = self.request(who, action, publish), publish.event.payload
        verdict = self._may(request)
        if verdict.is_allowed and isinstance(payload, AuthorityDeclared):
            try:
                self._table.successor(payload, who)
            except RejectedError as error:
                raise error.inside(DECLARE) from None
        return request, verdict

    def _may(self, request: AccessRequest) -> AccessVerdict:
        if self._table.now is not None:
            return self._table.now.may(request.who, request.action, request.about)
        if request.who:
            return AccessVerdict(True, "the first table")
        reason = "nobody is known by name here: ingest must ask for client certificates"
        return AccessVerdict(False, reason)


def needs_newest(request: AccessRequest) -> bool:
    """Return whether a permission must not rest on what was known a moment ago: whose a name is,
    and who was granted a job that is not known."""
    about = request.about
    is_unknown = about.job is not None and not about.job.user and about.claim.grant > 0
    return request.action == DECLARE_CLUSTER or is_unknown
