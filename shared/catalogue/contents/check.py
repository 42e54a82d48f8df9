"""What each field of each event must be, wherever it comes from.

Ingest asks at the door, and the codec asks of each record that a stage reads, since records can be
written straight to topics. What only an operator's clock or a fold can know is asked there.
"""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from shared.catalogue.contents.billing import BILLING
from shared.catalogue.contents.clusters import CLUSTERS
from shared.catalogue.contents.jobs import JOBS
from shared.catalogue.contents.models import MODELS
from shared.catalogue.contents.rules import RULES
from shared.catalogue.contents.telemetry import TELEMETRY
from shared.catalogue.field_checks import Check

MOST_UNKNOWN_BYTES: Final = 16_384
_BY_NAME: Final[Mapping[str, Check]] = {
    kind.DESCRIPTOR.full_name: check
    for checks in (JOBS, CLUSTERS, RULES, BILLING, TELEMETRY, MODELS)
    for kind, check in checks.items()
}


def check_contents(message: Message) -> None:
    """Raise RejectedError, naming the field, for a message of impossible contents."""
    if message.ByteSize() > MOST_UNKNOWN_BYTES:
        _require_few_unknown(message)
    check = _BY_NAME.get(message.DESCRIPTOR.full_name)
    if check is not None:
        check(message)


def _require_few_unknown(message: Message) -> None:
    """Fields of a later version are carried and counted: by a stage after the other."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    size_bytes = message.ByteSize() - known.ByteSize()
    if size_bytes > MOST_UNKNOWN_BYTES:
        problem = f"fill {size_bytes} bytes, the limit is {MOST_UNKNOWN_BYTES}"
        raise RejectedError("fields that this version does not know", problem)
