"""The runs that have ended, a line each, appended as they end: a campaign goes on behind them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from cli.profile.campaign import Campaign
from cli.profile.running import TimedRun
from coplace_client.errors import UnusableError

_LINES: Final = TypeAdapter(list[TimedRun])


class Journal:
    """A file of measured runs of one campaign."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        """Raises UnusableError where it is of another campaign, or no journal."""
        self._path = path
        self.measured: list[TimedRun] = []
        if not path.exists() or not path.stat().st_size:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"campaign": campaign.digest})
            return
        first, *rest = self._lines()
        if first != {"campaign": campaign.digest}:
            raise UnusableError(
                f"{path} is of another campaign, or of this one before it was changed: "
                "choose another --out, or remove it"
            )
        try:
            self.measured = _LINES.validate_python(rest)
        except ValidationError as error:
            raise self._unreadable(error) from None

    def add(self, measured: TimedRun) -> None:
        """Returns when it outlives a crash. Raises OSError."""
        self._append(measured._asdict())
        self.measured.append(measured)

    def _append(self, line: object) -> None:
        with self._path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _lines(self) -> Sequence[object]:
        """What a kill cut short is taken off, and measured again."""
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))
        try:
            return [json.loads(line) for line in whole.splitlines()] or [None]
        except ValueError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> UnusableError:
        problem = " ".join(str(error).split())[:300]
        return UnusableError(f"{self._path} is not a valid journal of a campaign: {problem}")
