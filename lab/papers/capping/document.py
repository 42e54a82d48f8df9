"""The document that holds the tables of `make bench-capping`, and what it takes to fill them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from coplace_client.errors import UnusableError
from lab.papers.placement.markdown import filled

Solvers = Annotated[
    bool, typer.Option("--solvers", help="DEC and DEC+RAPL too, which solve for about an hour.")
]


def require_solvers(into: Path | None, solvers: bool) -> None:
    """Raise UnusableError where a document would lose the results of DEC and DEC+RAPL."""
    if into is not None and not solvers:
        raise UnusableError(f"tables of {into} hold DEC and DEC+RAPL too: say --solvers")


def put(tables: Mapping[str, str], into: Path | None) -> None:
    """Put each table into its place in the document, where there is one. Raises as `filled`."""
    if into is not None:
        into.write_text(filled(into.read_text(encoding="utf-8"), tables), encoding="utf-8")
