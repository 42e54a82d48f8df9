"""The runs that ended, as deploy/slurm/jobcomp.lua keeps them: one file each, until it is
published."""

import json
import pwd
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import structlog
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.errors import RejectedError
from services.slurm.adapters.published_facts import PublishedFacts
from services.slurm.adapters.region import AskedRegion
from services.slurm.adapters.sending import latest_us, send
from shared.domain.printable import printable
from shared.slurm.facts import Site, envelopes
from shared.slurm.message import Message

_AT_ONCE: Final = 100
# What cannot be used stays for whoever looks.
_REFUSED: Final = "refused"

log = structlog.get_logger(__name__)


class EndedRuns:
    """Publishes what is kept, the oldest first, but what was `published`: also the start of a run
    that no look at Slurm has shown. After a crash some of it is published again, as copies that
    nobody counts."""

    def __init__(
        self,
        folder: Path,
        region: AskedRegion,
        site: Callable[[], Site],
        published: PublishedFacts | None = None,
    ) -> None:
        self._folder, self._region, self._site = folder, region, site
        self._published = published or PublishedFacts()

    def publish(self) -> None:
        """Publish all that is kept now. Raises UnansweredError: the rest stays."""
        while files := sorted(self._folder.glob("*.json"))[:_AT_ONCE]:
            found = [(file, event) for file in files for event in self._facts(file)]
            told = [each for each in found if not self._published.has(each[1])]
            events = [event for _, event in told]
            for at, why in (send(self._region, events) if events else {}).items():
                file, event = told[at]
                self._set_aside(file, f"ingest refused {event.id}: {why}")
            self._published.note(events)
            for file in files:
                file.unlink(missing_ok=True)

    def _facts(self, file: Path) -> Sequence[Envelope]:
        """Return what a file says; none where it cannot be used."""
        try:
            fields = json.loads(file.read_bytes().decode(errors="replace"))
            if not isinstance(fields, dict):
                raise RejectedError("record", "must be a JSON object")
            message = Message(_named(fields))
            asked, *ends = envelopes(message, self._site(), latest_us())
            return [asked, *self._starts(message, ends), *ends]
        except (RejectedError, ValueError, RecursionError) as error:
            self._set_aside(file, str(error))
            return ()

    def _starts(self, message: Message, ends: Iterable[Envelope]) -> Iterator[Envelope]:
        """Yield the start of a run that has ended, as a look would have shown it while it ran."""
        if any(event.job_finished.started_at_us for event in ends):
            running = message.but(**{"state": None, "@end": None})
            facts = envelopes(running, self._site(), latest_us())
            yield from (event for event in facts if event.HasField("job_started"))

    def _set_aside(self, file: Path, why: str) -> None:
        kept = self._folder / _REFUSED
        kept.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):  # of two facts of one file each was refused
            file.rename(kept / file.name)
        log.warning("set aside", file=str(kept / file.name), problem=printable(why, 1_000))


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the name of its user: without accounts Slurm knows only the number."""
    number = fields.get("user_id")
    if fields.get("username") or not isinstance(number, int):
        return fields
    with suppress(KeyError, OverflowError):
        return {**fields, "username": pwd.getpwuid(number).pw_name}
    return fields
