"""Programs between their first start and their first readiness, as many restarts as that takes.

The supervisor never gives up a program, so that one which ended once is waited for. One that ends
again and again with the same error is not.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.local.errors import NotReadyError
from deploy.local.log_lines import decisive_line, log_size
from deploy.local.program import Program
from deploy.local.readiness import is_ready, waits_for
from deploy.local.supervision import ProcessState

# After so many ends of its own with the same error a program will not become ready.
_MOST_ENDS: Final = 3
_POLL_S: Final = 0.1
# What a process waits for is asked this often: it has a start to make.
_ASKED_EVERY_S: Final = 1.0

# Gets the name of a program and how it is, whenever that changes; READY is the last.
OnState = Callable[[str, str], object]
READY: Final = "ready"


@dataclass(slots=True)
class _Start:
    """One program that is not ready yet."""

    program: Program
    log: Path
    from_byte: int
    pid: int = 0
    ends: list[str] = field(default_factory=list)
    shown: str = ""
    asked_s: float = 0.0

    @property
    def line(self) -> str:
        """Return the line of its log that matters since its start."""
        return decisive_line(self.log, self.from_byte)


class Starts:
    """Waits for programs that were put under supervision. `log_of` is where each writes, `states`
    how they are now, `on_state` is notified of changes."""

    def __init__(
        self,
        programs: Sequence[Program],
        log_of: Callable[[str], Path],
        states: Callable[[], Sequence[ProcessState]],
        on_state: OnState,
    ) -> None:
        self._states, self._on_state = states, on_state
        self._last_ready_s = time.monotonic()
        self._starts = [
            _Start(program, log_of(program.name), log_size(log_of(program.name)))
            for program in programs
        ]

    def wait(self) -> None:
        """Return when each was ready once, or is done. Raises NotReadyError naming the first that
        takes too long or ends again and again, with the line that matters and its log."""
        waiting = self._starts
        while waiting:
            found = {state.name: state for state in self._states()}
            waiting = [each for each in waiting if not self._is_over(each, found)]
            for each in waiting:
                self._require_time(each)
            if waiting:
                time.sleep(_POLL_S)

    def _is_over(self, start: _Start, found: dict[str, ProcessState]) -> bool:
        state = found[start.program.name]
        self._count_ends(start, state)
        url = start.program.ready_url
        if state.is_done or (state.pid and (url is None or is_ready(url))):
            self._show(start, READY)
            self._last_ready_s = time.monotonic()
            return True
        self._show(start, self._how(start, state))
        return False

    def _count_ends(self, start: _Start, state: ProcessState) -> None:
        """Note an end of the process that ran last; a signal from outside is no error of its."""
        if start.pid and state.pid != start.pid:
            start.ends.append("" if state.exit_status < 0 else start.line)
            last = start.ends[-_MOST_ENDS:]
            if len(last) == _MOST_ENDS and last[0] and len(set(last)) == 1:
                problem = f"{start.program.name} ended {len(start.ends)} times before it was ready"
                raise NotReadyError(_message(problem, start))
        start.pid = state.pid

    def _how(self, start: _Start, state: ProcessState) -> str:
        times = f"ended {len(start.ends)} times, " if start.ends else ""
        times = times.replace("1 times", "once")
        if not state.pid:
            return f"{times}starts again" if start.ends else "starts"
        url, now_s = start.program.ready_url, time.monotonic()
        if url is None or now_s - start.asked_s < _ASKED_EVERY_S:
            return start.shown or "starts"
        start.asked_s = now_s
        awaited = waits_for(url)
        return f"{times}waits for {awaited}" if awaited else f"{times}starts"

    def _require_time(self, start: _Start) -> None:
        # Each that becomes ready leaves more of the processor to the others.
        within_s = start.program.ready_within_s
        if time.monotonic() - self._last_ready_s > within_s:
            problem = f"{start.program.name} is not ready within {within_s:g} s"
            shown = start.shown if start.shown.startswith("waits") else ""
            raise NotReadyError(_message(": it ".join(filter(None, (problem, shown))), start))

    def _show(self, start: _Start, how: str) -> None:
        if how != start.shown:
            start.shown = how
            self._on_state(start.program.name, how)


def _message(problem: str, start: _Start) -> str:
    line = start.line or "it wrote nothing"
    return f"{problem}: {line} (log: {start.log})"
