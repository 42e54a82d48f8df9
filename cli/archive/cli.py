"""`coplace archive`: what the archive holds, whether it is whole, and whether it is what Kafka
has."""

from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from cli import completion
from cli.archive.rebuilding import Comparison, Sameness, archived_records, rebuild
from cli.notes import note, utc
from cli.output import Output, OutputName, Row, write
from cli.progress import progress_of
from coplace_client.errors import RejectedError
from shared.archive.errors import ArchiveError
from shared.archive.index import FileEntry, Index
from shared.archive.reading import read_archive, require_index
from shared.archive.record import ArchivedRecord
from shared.archive.storage import Storage, open_storage
from shared.archive.verifying import archived_partitions, damages
from shared.catalogue.event_json import plain
from shared.catalogue.record import Record, TopicPartition
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(no_args_is_help=True, help="List, read, verify and rebuild the archive.")

_COLUMNS: Final = (
    *("topic", "kafka_partition", "from", "to", "records", "files", "MB"),
    *("earliest (UTC)", "latest (UTC)"),
)
_FILE_COLUMNS: Final = ("path", "from", "to", "records", "MB", "earliest (UTC)", "latest (UTC)")
_MB: Final = 1e6

Where = Annotated[
    str,
    typer.Option(
        "--archive",
        envvar="COPLACE_ARCHIVE_WHERE",
        metavar="WHERE",
        help="Folder or object store of the archive.",
        show_default=False,
    ),
]


@app.command("list")
def list_archive(
    where: Where,
    files: Annotated[bool, typer.Option("--files", help="Each file, with its checksums.")] = False,
    output: OutputName = Output.TABLE,
) -> None:
    """List what is archived of each Kafka partition."""
    storage = open_storage(where)
    indexes = [require_index(storage, *place) for place in archived_partitions(storage)]
    if files:
        rows = [_of_file(storage, index, each) for index in indexes for each in index.entries]
        write(rows, _FILE_COLUMNS, output)
    else:
        write([_of_index(index) for index in indexes], _COLUMNS, output)


def _of_index(index: Index) -> Row:
    entries = index.entries
    return {
        "topic": index.topic,
        "kafka_partition": index.kafka_partition,
        "from": index.begins_at,
        "to": index.ends_at,
        "records": sum(each.records for each in entries),
        "files": len(entries),
        "MB": round(sum(each.bytes for each in entries) / _MB, 3),
        "earliest (UTC)": _time(min((each.first_time_ms for each in entries), default=None)),
        "latest (UTC)": _time(max((each.last_time_ms for each in entries), default=None)),
    }


def _of_file(storage: Storage, index: Index, entry: FileEntry) -> Row:
    return {
        "path": f"{storage.where}/{index.path(entry.name)}",
        "from": entry.from_offset,
        "to": entry.to_offset,
        "records": entry.records,
        "MB": round(entry.bytes / _MB, 3),
        "earliest (UTC)": _time(entry.first_time_ms),
        "latest (UTC)": _time(entry.last_time_ms),
        "sha256": entry.sha256,
        "records_sha256": entry.records_sha256,
        "writer": entry.writer,
        "is_full": entry != index.tail,
    }


def _time(time_ms: int | None) -> str | None:
    """A client may have sent any number."""
    try:
        return None if time_ms is None else utc(time_ms * 1_000)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


@app.command()
def show(
    topic: Annotated[
        str,
        typer.Argument(help="As `coplace topics list` names it.", autocompletion=completion.topics),
    ],
    where: Where,
    key: Annotated[str, typer.Option(help="One key only: the id of a job, for one.")] = "",
) -> None:
    """Print the events of a topic as JSON lines, and what is wrong with the rest."""
    storage = open_storage(where)
    codec = Deployment.from_settings(settings()).codec
    places = [place for place in archived_partitions(storage) if place[0] == topic]
    if not places:
        raise ArchiveError(f"{storage.where} holds no {topic}: see `coplace archive list`")
    is_shown = not key
    for place in places:
        begins_at = require_index(storage, *place).begins_at
        for found in read_archive(where, *place, begins_at):
            if key and found.key != key.encode():
                continue
            is_shown, record = True, _record(found)
            try:
                line = plain(codec.decode(record, of_any_count=True))
            except RejectedError as error:
                line = {"rejected": f"{topic}/{place[1]}/{found.offset}", "problem": str(error)}
            typer.echo(orjson.dumps(line).decode())
    if not is_shown:
        raise ArchiveError(f"{storage.where} holds nothing of {topic} under the key {key!r}")


def _record(found: ArchivedRecord) -> Record:
    place = TopicPartition(found.topic, found.kafka_partition)
    return Record(place, found.offset, found.key or b"", found.value, found.headers)


@app.command()
def verify(where: Where, output: OutputName = Output.TABLE) -> None:
    """Check every file: its checksum, its offsets and its contents. Exit code 1: one is damaged."""
    storage = open_storage(where)
    found: list[Row] = [{"path": each.path, "problem": each.problem} for each in damages(storage)]
    if found or output is not Output.TABLE:
        write(found, ("path", "problem"), output)
    if found:
        note([f"{len(found)} damaged: docs/how-to/archive.md, 'A file is damaged'"])
        raise typer.Exit(1)
    note([f"{storage.where} is whole"])


@app.command("rebuild")
def rebuild_archive(
    where: Where,
    to: Annotated[Path, typer.Option(help="New folder of the archive that is built from Kafka.")],
    output: OutputName = Output.TABLE,
) -> None:
    """Build the archive anew from Kafka and compare both. Exit code 1: a file differs."""
    deployment = Deployment.from_settings(settings())
    storage = open_storage(where)
    with progress_of(archived_records(storage), "records") as on_records:
        found = rebuild(deployment, storage, to, on_records)
    differing = [each for each in found if each.sameness is Sameness.DIFFERENT]
    if output is Output.TABLE:
        for sameness in Sameness:
            if count := sum(each.sameness is sameness for each in found):
                typer.echo(f"{count} files: {sameness}")
        if differing:
            write([_of_comparison(each) for each in differing], ("path", "from", "to"), output)
    else:
        write([_of_comparison(each) for each in found], (), output)
    if differing:
        raise typer.Exit(1)


def _of_comparison(compared: Comparison) -> Row:
    entry = compared.entry
    return {
        "path": compared.path,
        "from": entry.from_offset,
        "to": entry.to_offset,
        "is": str(compared.sameness),
    }
