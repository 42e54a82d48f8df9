"""What a process does with a database of any kind before it works on it."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from coplace_client.errors import CannotStartError


def upgrade(connection: Connection, folder: Path, database: object, remedy: str) -> None:
    """Bring the schema to what this release has. Raises CannotStartError for one of a later
    release, with what an operator may do."""
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise CannotStartError(
            f"the schema of {database} is of a later release: run that one, or {remedy} ({error})"
        ) from None


def written_by_another(database: object, variable: str) -> CannotStartError:
    """Return what to say to who comes second; a database is chosen by an environment variable."""
    problem = f"another process writes {database}: stop it, or choose another {variable}"
    return CannotStartError(problem)
