"""`python -m tests.distributions`: what each distribution and extra installs, as a table."""

import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.distributions.environments import EXTRAS, Environment, build_wheels


def main() -> None:
    """Install each from its wheel and print the results."""
    table = Table("distribution", "packages beside ours", "MiB")
    wanted = (
        "coplace-client",
        "coplace-agent",
        "coplace",
        *(f"coplace[{each}]" for each in EXTRAS),
    )
    with tempfile.TemporaryDirectory() as scratch:
        wheels = build_wheels(Path(scratch) / "wheels")
        for name in wanted:
            made = Environment.of(Path(scratch) / name, wheels, name)
            table.add_row(escape(name), f"{len(made.packages())}", f"{made.size_mib():.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
