"""Libraries that not everybody installs: which extra of the distribution brings one."""

from typing import Final

from coplace_client.errors import UnusableError

_EXTRAS: Final = {
    "aiohttp": "webhooks",
    "alembic": "history",
    "fastapi": "rest",
    "faust": "server",
    "matplotlib": "lab",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "ortools": "planner",
    "psycopg": "history",
    "pyarrow": "archive",
    "rustworkx": "lab",
    "scipy": "lab",
    "sklearn": "prediction",
    "sqlalchemy": "history",
    "standardwebhooks": "webhooks",
    "starlette": "rest",
    "uvicorn": "rest",
    "yarl": "server",
}


class NotInstalledError(UnusableError):
    """A command needs a library that is not installed; the message names the extra."""


def not_installed(error: ModuleNotFoundError) -> NotInstalledError:
    """Return the error that names the missing extra. Raises the error itself where no extra brings
    the module."""
    library = (error.name or "").partition(".")[0]
    if library not in _EXTRAS:
        raise error
    return NotInstalledError(f"this needs {library}: install coplace[{_EXTRAS[library]}]")
