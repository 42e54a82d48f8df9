"""docs/bounds.md says what the code checks."""

from pathlib import Path

from coplace_client.bounds import LENGTHS, QUANTITIES
from coplace_client.checks import readable

DOCUMENT = Path(__file__).parents[3] / "docs" / "bounds.md"


def quantities() -> list[str]:
    """A row a field."""
    rows = ["| field | least | most | unit | why |", "|---|---|---|---|---|"]
    for name, bound in QUANTITIES.items():
        figures = f"{readable(bound.least)} | {readable(bound.most)} | {bound.unit}"
        rows.append(f"| `{name}` | {figures} | {bound.why} |")
    return rows


def lengths() -> list[str]:
    """A row a list."""
    rows = ["| list | most | why |", "|---|---|---|"]
    return rows + [f"| `{name}` | {one.most:,} | {one.why} |" for name, one in LENGTHS.items()]


def test_the_tables_are_those_of_the_code() -> None:
    text = DOCUMENT.read_text()
    for table in (quantities(), lengths()):
        assert "\n".join(table) in text, "put this into docs/bounds.md:\n" + "\n".join(table)
