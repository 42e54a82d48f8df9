"""How commands write what a service answered."""

from collections.abc import Sequence

import typer
from google.protobuf.message import Message

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
