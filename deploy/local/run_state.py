"""What `state.json` of a run folder records, so that another process finds the servers."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from deploy.local.errors import NotRunningError

_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class RunState:
    """The addresses of the servers, and the URL that says that a program is ready, by its name."""

    kafka_bootstrap: str
    redis_url: str
    ready_urls: Mapping[str, str | None]

    def save(self, run_dir: Path) -> None:
        """Write it whole or not at all."""
        scratch = run_dir / f"{_FILE}.new"
        scratch.write_text(json.dumps(asdict(self), indent=2) + "\n")
        scratch.rename(run_dir / _FILE)

    @classmethod
    def load(cls, run_dir: Path) -> Self:
        """Read it. Raises NotRunningError if nothing was started in the folder."""
        file = run_dir / _FILE
        if not file.exists():
            raise NotRunningError(
                f"no local servers run in {run_dir}: start them with `coplace local up`"
            )
        return cls(**json.loads(file.read_text()))

    @staticmethod
    def remove(run_dir: Path) -> None:
        """Forget the servers, which are stopped."""
        (run_dir / _FILE).unlink(missing_ok=True)
