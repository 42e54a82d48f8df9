"""How commands write what a service answered."""

from collections.abc import Iterable, Sequence

import typer
from google.protobuf.message import Message

from cli.notes import note
from cli.output import Output, Row, write
from shared.catalogue.answer_json import answer_json


def write_answer(
    answer: Message, rows: Sequence[Row], columns: Sequence[str], output: Output
) -> None:
    """Write the answer of a service: as JSON the document that HTTP has, else its rows."""
    if output is Output.JSON:
        typer.echo(answer_json(answer))
    else:
        write(rows, columns, output)


def write_page(answer: Message, rows: Iterable[Row], output: Output) -> None:
    """Write an answer that may be a page, by rows with the columns of the first, and how to ask for
    what comes behind it."""
    found = list(rows)
    write_answer(answer, found, list(found[0]) if found else (), output)
    token = getattr(answer, "next_page_token", "")
    if token and output is not Output.JSON:
        note([f"there are more: --page {token}"])
