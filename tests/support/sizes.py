"""Whether records can carry what a processor makes."""

from collections.abc import Iterable

from shared.catalogue.event import Publish
from shared.streams.stages.stage import Processor
from tests.support.messaging import CODEC

# As long as a name may be, in characters that JSON doubles, or that UTF-8 writes in four bytes.
DOUBLED = '"' * 256
WIDE = "\N{MUSICAL SYMBOL G CLEF}" * 256


def require_carried(processor: Processor, published: Iterable[Publish]) -> int:
    """Raise RejectedError or OversizeError for an output or state that no record holds; the size of
    the largest of both, bytes."""
    outputs = [CODEC.encode(publish).value or b"" for publish in published]
    changes = processor.changes()
    for key, value in changes.items():
        CODEC.check_state(key, value)
    return max(map(len, (*outputs, *filter(None, changes.values()))), default=0)
