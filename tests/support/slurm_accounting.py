"""A Slurm that keeps accounts: LocalSlurm with MariaDB and slurmdbd, which starts jobs itself."""

import getpass
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.local.ports import free_ports
from tests.support.patience import PATIENCE_S
from tests.support.slurm import LocalSlurm

_NODES: Final = """\
NodeName=n[1-4] CPUs=8 RealMemory=4096
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_ACCOUNTS: Final = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStorageTRES=license/matlab
Licenses=matlab:4
"""
_DAEMON_CONF: Final = """\
AuthType=auth/none
DbdHost=localhost
DbdPort={port}
SlurmUser={user}
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""
_MARIADB_CONF: Final = """\
[client]
socket={folder}/mysql.sock
[mariadbd]
datadir={folder}/mysql
socket={folder}/mysql.sock
pid-file={folder}/mysql.pid
skip-networking
innodb-buffer-pool-size=64M
"""
_SCHEMA: Final = """\
CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost IDENTIFIED BY 'slurm';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost"""
# What each writes its own addresses and files into.
_COMMANDS: Final = ("sacct", "sacctmgr", "sprio", "sshare")


@contextmanager
def open_folder(root: Path | None = None) -> Iterator[Path]:
    """A folder for a Slurm whose jobs are of several users: pytest's own is closed to others."""
    within = root / "tmp" if root else None
    with TemporaryDirectory(
        prefix="coplace-slurm-", dir=within, ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


class AccountingSlurm(LocalSlurm):
    """LocalSlurm with accounts. Four nodes of eight cores, unless it says others; it starts jobs
    itself, unless it `holds` them for Coplace."""

    def __init__(
        self,
        folder: Path,
        root: Path | None = None,
        more: str = "",
        nodes: str = _NODES,
        select: str = "CR_Core",
        *,
        holds: bool = False,
    ) -> None:
        """As LocalSlurm."""
        self._dbd_port = free_ports(1)[0]
        accounts = _ACCOUNTS.format(port=self._dbd_port)
        super().__init__(folder, root, accounts + more, nodes, select, holds=holds)
        # Of the database: Debian's own has another one.
        self.environment["MYSQL_UNIX_PORT"] = str(self.inside / "mysql.sock")

    @property
    def _my_conf(self) -> Path:
        return self.inside / "my.cnf"

    def __enter__(self) -> "AccountingSlurm":
        try:
            self._start_accounts()
        except BaseException:
            self.__exit__()
            raise
        super().__enter__()
        return self

    def _start_accounts(self) -> None:
        conf = _DAEMON_CONF.format(port=self._dbd_port, user=getpass.getuser(), folder=self.inside)
        (self.folder / "slurmdbd.conf").write_text(conf)
        (self.folder / "slurmdbd.conf").chmod(0o600)
        (self.folder / "my.cnf").write_text(_MARIADB_CONF.format(folder=self.inside))
        self.run("mariadb-install-db", f"--defaults-file={self._my_conf}", "--user=root")
        self._start("mariadbd", f"--defaults-file={self._my_conf}", "--user=root")
        self._until("mariadb-admin", f"--defaults-file={self._my_conf}", "ping")
        self.run("mariadb", f"--defaults-file={self._my_conf}", "-e", _SCHEMA)
        self._write()
        self._start("slurmdbd", "-D")
        self._until("sacctmgr", "-n", "list", "cluster")
        self.run("sacctmgr", "-i", "add", "cluster", "alpha")
        self.run("sacctmgr", "-i", "add", "account", "physics")
        self.run("sacctmgr", "-i", "add", "user", getpass.getuser(), "account=physics")

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command where the daemons are. Raises CalledProcessError."""
        conf = f"SLURM_CONF={self.environment['SLURM_CONF']}"
        inside = ("chroot", str(self._root), "/usr/bin/env", conf) if self._root else ("env", conf)
        return subprocess.run(
            [*inside, *command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        )

    def _until(self, *command: str) -> None:
        """Until a command succeeds."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.run(*command)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                if time.monotonic() > deadline_s:
                    raise
            else:
                return
            time.sleep(0.2)

    def _write(self) -> None:
        super()._write()
        if self._root:  # slurmd of 24.11 starts without cgroups only where this says so
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        file = self.folder / "slurm.conf"
        text = file.read_text()
        file.write_text(text.replace("sched_interval=1", "sched_interval=1,bf_interval=1"))

    def _wrap(self, root: Path) -> None:
        super()._wrap(root)
        for command in _COMMANDS:
            sibling = self.folder / "bin" / "squeue"
            file = self.folder / "bin" / command
            file.write_text(sibling.read_text().replace(" squeue ", f" {command} "))
            file.chmod(0o755)
