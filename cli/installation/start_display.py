"""One line a process while they start."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from deploy.local.starting import READY


class StartDisplay:
    """How each process is: in a terminal all of them, changed in place, elsewhere a line for each
    that is ready and for each end."""

    def __init__(self, console: Console) -> None:
        self._console, self._how = console, dict[str, str]()
        self._live = Live(console=console, transient=True) if console.is_terminal else None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show them meanwhile."""
        if self._live is None:
            yield
            return
        with self._live:
            yield

    def begin(self, names: Sequence[str]) -> None:
        """Show these, of which none has started."""
        self._how = dict.fromkeys(names, "")
        self._draw()

    def on_state(self, name: str, how: str) -> None:
        """Show how a process is now."""
        before, self._how[name] = self._how.get(name, ""), how
        if self._live is not None:
            self._draw()
            return
        event, _, _ = how.partition(", ")
        if event == READY or (event.startswith("ended") and not before.startswith(event)):
            self._console.print(f"{name}: {event}", highlight=False, soft_wrap=True)

    def _draw(self) -> None:
        if self._live is not None:
            lines = Table.grid(padding=(0, 2))
            for name, how in self._how.items():
                lines.add_row(name, how)
            self._live.update(lines, refresh=True)
