"""What is run: one process with its environment, its readiness and its way to stop."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Program:
    """A process to keep running.

    `ready_url` says when it is ready: `http://` answers 200, `tcp://` accepts, `redis://` answers a
    PING, `kafka://` answers with its metadata; None is ready as soon as it runs.
    A `one_shot` program is done, not restarted, when it ends with exit status 0.

    Raises ValueError if the name is not fit for a file or the command is empty.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    ready_url: str | None = None
    ready_within_s: float = 180.0
    one_shot: bool = False
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: int = 15

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"program name {self.name!r}: use a-z, 0-9 and '-'")
        if not self.argv:
            raise ValueError(f"program {self.name}: argv is empty")
