"""What the emulated operators declare, as events."""

from typing import Final

from coplace.v1.control_pb2 import LicencesDeclared, PowerCapDeclared, ReservationDeclared

from lab.emulator.facts import COMMANDS
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import EMULATED_SITE

# Of the site whose resource managers are emulated too: one certificate speaks for all of them.
OPERATOR: Final = f"{EMULATED_SITE}/operator"


def declaration(
    message: PowerCapDeclared | ReservationDeclared | LicencesDeclared, subject: str, key: str
) -> Publish:
    """Return the event that an operator declared something of a subject, when it says."""
    time_us = message.declared_at_us
    event = Event(
        id=f"{OPERATOR}/{message.DESCRIPTOR.full_name}/{subject}/{time_us}",
        source=OPERATOR,
        time_us=time_us,
        key=key,
        payload=message,
    )
    return Publish(COMMANDS, event)
