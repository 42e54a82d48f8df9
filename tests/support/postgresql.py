"""A real PostgreSQL of the system's package, on loopback, whose data end with it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy import NullPool, create_engine, make_url, text

from deploy.local.errors import PrerequisiteError
from deploy.local.ports import free_ports
from tests.support.patience import PATIENCE_S

PASSWORD: Final = "a secret"
_USER: Final = "coplace"
# Of the package: as root PostgreSQL does not run.
_SYSTEM_USER: Final = "postgres"
_IS_ROOT: Final = os.geteuid() == 0


class PostgreSql:
    """A server. Each database that is asked for is a fresh one."""

    def __init__(self, folder: Path) -> None:
        self.folder, [self._port] = folder, free_ports(1)
        self._programs = _programs()
        self._numbers = count(1)

    def start(self) -> None:
        """Start it, and return when it answers."""
        data = self.folder / "data"
        if not data.exists():
            password = self.folder / "password"
            password.write_text(PASSWORD)
            if _IS_ROOT:
                shutil.chown(self.folder, _SYSTEM_USER)
                shutil.chown(password, _SYSTEM_USER)
            self._run("initdb", "--pgdata", data, "--username", _USER, "--encoding=UTF8",
                      "--locale=C.UTF-8", "--auth=scram-sha-256", "--pwfile", password,
                      "--no-sync")  # fmt: skip
        # As it is shipped but for what a power failure takes: the tests have none.
        options = (
            f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
            " -c fsync=off -c max_connections=400"
        )
        self._run("pg_ctl", "--pgdata", data, "--wait", "--timeout", int(PATIENCE_S),
                  "--log", self.folder / "log", "--options", options, "start")  # fmt: skip

    def stop(self, mode: str = "fast") -> None:
        """Stop it; `immediate` is as if it was killed."""
        self._run("pg_ctl", "--pgdata", self.folder / "data", "--mode", mode, "stop")

    def url(self, database: str = "postgres", password: str = f":{PASSWORD}") -> str:
        """Return where a database is."""
        return f"postgresql://{_USER}{password}@127.0.0.1:{self._port}/{database}"

    def fresh(self, password: str = f":{PASSWORD}") -> str:
        """Create a database, and return where it is."""
        name = f"history_{os.getpid()}_{next(self._numbers)}"
        where = make_url(self.url()).set(drivername="postgresql+psycopg")
        engine = create_engine(where, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        return self.url(name, password)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        if _IS_ROOT:
            user = f"--reuid={_SYSTEM_USER}", f"--regid={_SYSTEM_USER}"
            command = ["setpriv", *user, "--init-groups", *command]
        with (self.folder / "programs.log").open("a") as log:
            done = subprocess.run(
                command, cwd=self.folder, stdout=log, stderr=log, check=False, timeout=120
            )
        if done.returncode:
            raise RuntimeError((self.folder / "programs.log").read_text())


def _programs() -> Path:
    """Return the folder of its programs: Debian has one for each release. Raises
    PrerequisiteError."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: each.parent.name)
    if not found:
        raise PrerequisiteError("PostgreSQL is missing. On Debian: apt-get install postgresql")
    return found[-1]


@contextmanager
def postgresql() -> Iterator[PostgreSql]:
    """Run a server, in a folder of its own: its user may not go through those of the tests."""
    with TemporaryDirectory(prefix="coplace-postgresql-") as folder:
        server = PostgreSql(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
