"""What is wrong with an archive: which file, and what to do."""

from coplace_client.errors import UnusableError


class ArchiveError(UnusableError):
    """An archive cannot be used as asked."""


class BrokenArchiveError(ArchiveError):
    """A file of the archive is missing, damaged, or does not fit the others."""

    def __init__(self, where: str, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"{where}/{path} {problem}: restore it from a copy, or build the archive anew "
            "from Kafka by `coplace archive rebuild` (docs/how-to/archive.md, 'A file is damaged')"
        )


class NotArchivedError(ArchiveError):
    """The archive has nothing of a Kafka partition: it never took it up."""

    def __init__(self, where: str, topic: str, kafka_partition: int) -> None:
        super().__init__(
            f"{where} holds no {topic}/{kafka_partition}: `coplace archive list` prints what it "
            "holds, COPLACE_ARCHIVE_TOPICS names what is archived"
        )


class ArchiveBeginsLaterError(ArchiveError):
    """The archive does not hold an offset: it began later, or its retention removed the file."""

    def __init__(self, place: str, offset: int, begins_at: int) -> None:
        self.begins_at = begins_at
        super().__init__(
            f"the archive of {place} begins at {begins_at}, {offset} was asked for: read from "
            f"{begins_at} on, or use a copy of the older files"
        )
