"""Publications as rows of the cache: the pure part, the same with and without Redis."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureUpdated

from shared.catalogue.digest import require_sha256
from shared.catalogue.event import Event
from shared.catalogue.payloads.coefficients import coefficients_of
from shared.catalogue.payloads.domain_types import signatures_of

SIGNATURES: Final = "energy.signatures"
COEFFICIENTS: Final = "energy.coefficients"


@dataclass(frozen=True, slots=True)
class CachedRow:
    """The whole state of a row at `time_us`: its message in protobuf."""

    key: str
    time_us: int
    state: bytes


def row_of(event: Event) -> CachedRow | None:
    """Return the row that an event replaces; None for a round's barrier.

    Raises RejectedError for one that could not be projected with: nobody finds it in the cache.
    """
    match event.payload:
        case SignatureUpdated() as message:
            signatures_of(message)
        case CoefficientsPublished() as message:
            require_sha256(message)
            coefficients_of(message)
        case _:
            return None
    return CachedRow(event.key, event.time_us, message.SerializeToString(deterministic=True))


def newest(rows: Iterable[CachedRow]) -> Mapping[str, CachedRow]:
    """Return the cache's rows after rows came in this order: of equal times the last."""
    found: dict[str, CachedRow] = {}
    for row in rows:
        known = found.get(row.key)
        if known is None or row.time_us >= known.time_us:
            found[row.key] = row
    return found
