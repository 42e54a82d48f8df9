"""Tables as Markdown, and documents that hold them between marks."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coplace_client.errors import UnusableError
from coplace_client.files import write_whole


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its first column is text, the others are figures."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(document: str, tables: Mapping[str, str]) -> str:
    """Fill the document with each table between `<!-- NAME -->` and `<!-- /NAME -->`.

    Raises UnusableError for a table that the document has no place for.
    """
    for name, text in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = document.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise UnusableError(f"the document has no place for {name}: add its two marks")
        document = f"{before}{begin}{text}\n{end}{after}"
    return document


def write_tables(tables: Mapping[str, str], out: Path, into: Path | None) -> str:
    """Write tables below their names to `tables.md` in a folder, and each into its place in a
    document if there is one; what was written. Raises UnusableError: see `filled`."""
    text = "\n\n".join(f"## {name}\n\n{shown}" for name, shown in tables.items())
    with write_whole(out / "tables.md") as path:
        path.write_text(text + "\n", encoding="utf-8")
    if into is not None:
        into.write_text(filled(into.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return text
