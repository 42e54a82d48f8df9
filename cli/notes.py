"""Notes and figures as commands print them."""

from collections.abc import Iterable
from datetime import UTC, datetime

import typer

# A row of a table stays on one line, in a pipe or a narrow terminal too.
TABLE_WIDTH = 400


def note(lines: Iterable[str]) -> None:
    """Print what a reader should know beside the result."""
    for line in lines:
        typer.echo(f"note: {line}", err=True)


def utc(time_us: int) -> str:
    """Format a time to the second."""
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def with_deviation(value: float, digits: str, relative_sd: float) -> str:
    """Format the value, with one standard deviation where it has one that is known."""
    text = f"{value:{digits}}"
    return f"{text} ± {value * relative_sd:{digits}}" if relative_sd > 0 else text
