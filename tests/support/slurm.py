"""A Slurm of Debian's packages on loopback: slurmctld and two nodes.

It is the one of this machine, or that of a root folder (`deploy/build-slurm.sh`), whose daemons and
commands run in there."""

import getpass
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from deploy.local.ports import free_ports
from shared.domain.hostlist import expand
from tests.support.patience import PATIENCE_S
from tests.support.snippets import REPOSITORY

NODES: Final = ("n1", "n2")
PLAIN: Final = """\
NodeName=n[1-2] CPUs=2 RealMemory=1024
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_GLUE: Final = REPOSITORY / "deploy" / "slurm"
_CONF: Final = """\
ClusterName=alpha
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/task_prolog.sh
SelectType=select/cons_tres
SelectTypeParameters={select}
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
ReturnToService=2
MinJobAge=86400
MpiDefault=none
"""
_HOLDS: Final = "JobSubmitPlugins=lua\nCliFilterPlugins=cli_filter/lua\n"
_KEEPS_ENDS: Final = "JobCompType=jobcomp/lua\n"
# Where its plugins leave word.
_LEFT: Final = "/var/lib/coplace-slurm"
# What deploy/build-slurm.sh makes from packages of other Debians.
BUILT: Final = ("24.11", "newest")
_HOSTS: Final = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
_COMMANDS: Final = ("scontrol", "scancel", "sinfo", "sbatch", "squeue")
_WRAPPER: Final = """\
#!/bin/bash
exec chroot {root} /usr/bin/env SLURM_CONF={conf} {command} "$@"
"""
# The mounts go with the daemon.
_DAEMON: Final = """\
mount -t proc proc {root}/proc
mount --bind /sys {root}/sys
exec chroot {root} /usr/bin/env "$@"
"""


def built_slurm(release: str) -> Path:
    """The root that has a release of Slurm, `BUILT`; it is built once."""
    script = REPOSITORY / "deploy" / "build-slurm.sh"
    built = subprocess.run([script, release], stdout=subprocess.PIPE, text=True, check=True)
    return Path(built.stdout.strip())


def require_installed() -> None:
    """Skip where there is no Slurm; never in continuous integration."""
    if not is_installed() and os.environ.get("CI") != "true":
        pytest.skip("no Slurm on this machine: make system-slurm")


def is_installed() -> bool:
    """Whether Slurm's daemons are on this machine."""
    return shutil.which("slurmctld") is not None and shutil.which("slurmd") is not None


class LocalSlurm:
    """Its daemons, with the project's files in place. A context manager."""

    def __init__(
        self,
        folder: Path,
        root: Path | None = None,
        more: str = "",
        nodes: str = PLAIN,
        select: str = "CR_Core",
        *,
        holds: bool = True,
    ) -> None:
        """`folder` is below the root, where there is one; `more` is appended to slurm.conf. `nodes`
        are its lines of nodes, which get their ports here, and of partitions. New jobs are held for
        Coplace where it `holds`."""
        self.folder, self._root, self._more = folder, root, more
        self._nodes, self._select, self._holds = nodes, select, holds
        self.names = [name for line in _HOSTS.findall(nodes) for name in expand(line)]
        self.inside = Path("/", folder.relative_to(root)) if root else folder
        self.environment = {**os.environ, "SLURM_CONF": str(self.inside / "slurm.conf")}
        if root:
            self.environment["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
        self._daemons: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "LocalSlurm":
        self._write()
        if self._root:
            self._wrap(self._root)
        (self.folder / "state").mkdir()
        try:
            self._start("slurmctld", "-D")
            self._start_nodes()
            self._wait("idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_nodes(self) -> None:
        for node in self.names:
            (self.folder / f"spool-{node}").mkdir()
            self._start("slurmd", "-D", "-N", node)

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in self._daemons.values():
            daemon.wait(PATIENCE_S)

    @property
    def ended(self) -> Path:
        """Where it keeps the runs that ended."""
        return self.folder / "left" / "ended"

    @property
    def submitted(self) -> Path:
        """The file whose time is when it last saw a job."""
        return self.folder / "left" / "submitted"

    def pid(self, program: str) -> int:
        """The process id of the first daemon of a program."""
        return next(each.pid for command, each in self._daemons.items() if command[0] == program)

    def kill(self, program: str) -> None:
        """End the daemons of a program hard, and start them again."""
        for command in [each for each in self._daemons if each[0] == program]:
            self._daemons[command].kill()
            self._daemons[command].wait(PATIENCE_S)
            self._start(*command)

    def say(self, *command: str) -> str:
        """What a command of Slurm says."""
        done = subprocess.run(
            command,
            cwd=self.folder,  # where Slurm writes what nobody asked for
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def release(self, number: int) -> None:
        """Let a job in that its user held."""
        self.say("scontrol", "release", str(number))

    def _wrap(self, root: Path) -> None:
        """Commands that are those of the root."""
        (self.folder / "bin").mkdir()
        for command in _COMMANDS:
            file = self.folder / "bin" / command
            conf = self.inside / "slurm.conf"
            file.write_text(_WRAPPER.format(root=root, conf=conf, command=command))
            file.chmod(0o755)

    def submit(self, script: str, *options: str) -> int:
        """Slurm's number of a new batch job."""
        file = self.folder / "job.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        named = str(self.inside / file.name)
        return int(self.say("sbatch", "--parsable", f"--output={os.devnull}", *options, named))

    def _write(self) -> None:
        for name in ("task_prolog.sh", "cli_filter.lua"):
            shutil.copy(_GLUE / name, self.folder)
        self.ended.mkdir(parents=True, exist_ok=True)
        for name in ("job_submit.lua", "jobcomp.lua"):
            text = (_GLUE / name).read_text().replace(_LEFT, str(self.inside / "left"))
            (self.folder / name).write_text(text)
        port, *of_nodes = free_ports(1 + len(self.names))
        text = _CONF.format(
            folder=self.inside, port=port, user=getpass.getuser(), select=self._select
        )
        text += _HOLDS if self._holds else ""
        text += _KEEPS_ENDS if self._holds and "JobCompType" not in self._more else ""
        left = iter(of_nodes)

        def with_ports(line: re.Match[str]) -> str:
            ports = ",".join(str(next(left)) for _ in expand(line[1]))
            return f"{line[0]} NodeAddr=127.0.0.1 NodeHostname=localhost Port=[{ports}]"

        nodes = _HOSTS.sub(with_ports, self._nodes)
        (self.folder / "slurm.conf").write_text(text + nodes + self._more)

    def _start(self, *command: str) -> None:
        key = command
        log = (self.folder / f"{'-'.join(command).replace('/', '_')}.log").open("ab")
        if self._root:
            inside = (f"SLURM_CONF={self.environment['SLURM_CONF']}", *command)
            script = _DAEMON.format(root=self._root)
            command = ("unshare", "--mount", "sh", "-c", script, "sh", *inside)
        with log:
            daemon = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self._daemons[key] = daemon

    def _wait(self, state: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            done = subprocess.run(
                ["sinfo", "--noheader", "--Node", "--format=%N %t"],
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            shown = done.stdout.replace("*", "").splitlines()
            if {*shown} == {f"{name} {state}" for name in self.names}:
                return
            time.sleep(0.2)
        logs = "".join(log.read_text() for log in self.folder.glob("*.log"))
        raise AssertionError(f"no {state} nodes after {PATIENCE_S:g} s: {logs[-2000:]}")
