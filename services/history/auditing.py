"""What was declared, ordered and asked, an entry each. Pure.

A command that was published is one entry, under the id of its event: of its topic are time and
source, of the audit whoever a door let in with it. What else the audit holds is an entry of its
own each.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coplace.v1.authority_pb2 import AccessAudited

from services.history.changes import ChangeRow, entry_id


class AuditRow(NamedTuple):
    """An entry, as in the table `audit`."""

    id: str
    at_us: int
    who: str
    action: str
    about: str
    refused: bool
    reason: str
    event_id: str
    door: str
    version: int
    published: bool


def of_access(event_id: str, audited: AccessAudited) -> AuditRow:
    """Return the entry of a record of the audit."""
    is_of_event = audited.event_id and not audited.refused
    return AuditRow(
        entry_id(audited.event_id if is_of_event else event_id),
        *(audited.at_us, entry_id(audited.who), audited.action, audited.about, audited.refused),
        *(audited.reason, audited.event_id, audited.door, audited.version, False),
    )


def of_change(event_id: str, change: ChangeRow) -> AuditRow:
    """Return the entry of a command of this id."""
    entry = change.event_id, change.at_us, entry_id(change.who), change.action
    return AuditRow(*entry, "", False, "", event_id, "", 0, True)


def merged(known: AuditRow, found: AuditRow) -> AuditRow:
    """Return one entry of two, whichever was read first; of two alike the first counts."""
    if known.published == found.published:
        return known
    command, access = (known, found) if known.published else (found, known)
    if command.door:
        return command
    return command._replace(
        who=access.who or command.who,
        about=access.about,
        reason=access.reason,
        door=access.door,
        version=access.version,
    )


def add(entries: dict[str, AuditRow], found: AuditRow) -> None:
    """Add an entry to others."""
    known = entries.get(found.id)
    entries[found.id] = merged(known, found) if known else found


def changed(
    known: Mapping[str, AuditRow], found: Mapping[str, AuditRow]
) -> tuple[list[AuditRow], list[AuditRow]]:
    """Return entries that are new, and those that are others than before."""
    entries = dict(known)
    for row in found.values():
        add(entries, row)
    fresh = [row for id_, row in entries.items() if id_ not in known]
    return fresh, [row for id_, row in entries.items() if id_ in known and row != known[id_]]
