"""supervisord as the keeper of the programs: its files, its start and its XML-RPC interface.

Each child is tied to its supervisord, and on request supervisord to the process that started it,
by the kernel's parent-death signal: whatever happens to the parent, kill -9 included, the kernel
then kills the child. It acts when the starting *thread* ends, so start from one that lives on.
"""

import os
import shlex
import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import SupervisorTransport

from deploy.local.errors import LocalServersError, NotRunningError
from deploy.local.program import Program

_TIE_TO_PARENT = ["setpriv", "--pdeathsig", "KILL"]
# The limit of a Unix socket's path, less the suffix of the file that supervisord makes first.
_LONGEST_SOCKET_PATH = 95


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What supervisord knows of one program. `pid` is 0 while it does not run."""

    name: str
    state: str
    pid: int
    exit_status: int
    uptime_s: int

    @property
    def is_done(self) -> bool:
        """Return whether it ended with exit status 0 and is not restarted."""
        return self.state == "exited" and self.exit_status == 0


class Supervisor:
    """The supervisord of one run folder."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._socket = run_dir / "supervisor.sock"
        self._config = run_dir / "supervisord.conf"
        self._pid_file = run_dir / "supervisord.pid"
        self._programs = run_dir / "programs"
        self._logs = run_dir / "log"

    def log_file(self, name: str) -> Path:
        """Return where the program's output goes."""
        return self._logs / f"{name}.log"

    def launch(self, tied_to_caller: bool) -> subprocess.Popen[bytes]:
        """Start supervisord with no program yet; it keeps running on its own unless tied.

        Raises LocalServersError if the run folder's path is too long for a Unix socket.
        """
        self._write_config()
        # In the foreground, since it is this process's child; silent, since it keeps a log.
        options = ["--nodaemon", "--silent", "--configuration", str(self._config)]
        command = [sys.executable, "-m", "supervisor.supervisord", *options]
        if tied_to_caller:
            # Ends at once if the caller died before the tie was made.
            check = 'test "$PPID" = "$0" && exec "$@"'
            command = [*_TIE_TO_PARENT, "sh", "-c", check, str(os.getpid()), *command]
        with self.log_file("supervisord").open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def add(self, program: Program) -> None:
        """Take the program under supervision and start it. Raises ValueError if it is there."""
        script = self._programs / f"{program.name}.sh"
        if script.exists():
            raise ValueError(f"program {program.name} is already there: choose another name")
        script.write_text(launch_script(program, self._pid_file))
        section = program_section(program, script, self.log_file(program.name))
        (self._programs / f"{program.name}.conf").write_text(section)
        with self._rpc() as rpc:
            rpc.reloadConfig()
            rpc.addProcessGroup(program.name)

    def pid(self) -> int:
        """Return the process id of supervisord. Raises NotRunningError."""
        with self._rpc() as rpc:
            return int(rpc.getPID())

    def state(self, name: str) -> ProcessState:
        """Return the state of one program. Raises NotRunningError, or LocalServersError if there is
        none."""
        for state in self.states():
            if state.name == name:
                return state
        raise LocalServersError(f"no program is named {name}: see `coplace local status`")

    def states(self) -> list[ProcessState]:
        """Return the state of every program. Raises NotRunningError."""
        with self._rpc() as rpc:
            return [_process_state(info) for info in rpc.getAllProcessInfo()]

    def stop(self, name: str) -> None:
        """Ask the program to stop if it runs; it is killed if it takes too long. Does not wait."""
        with self._rpc() as rpc:
            # The group is the program alone; unlike a process it may be stopped already.
            rpc.stopProcessGroup(name, False)

    def remove(self, name: str) -> None:
        """Forget a program that does not run, so that another may have its name."""
        with self._rpc() as rpc:
            rpc.removeProcessGroup(name)
        for left_over in self._programs.glob(f"{name}.*"):
            left_over.unlink()

    def shutdown(self) -> None:
        """Stop every program, the last first, then supervisord. Does not wait."""
        with self._rpc() as rpc:
            rpc.shutdown()

    def _write_config(self) -> None:
        if len(str(self._socket)) > _LONGEST_SOCKET_PATH:
            raise LocalServersError(
                f"the path of {self._run_dir} is too long for a Unix socket: "
                "choose a run folder with a shorter one"
            )
        for folder in (self._programs, self._logs):
            folder.mkdir(parents=True, exist_ok=True)
        for left_over in self._programs.iterdir():
            left_over.unlink()
        self._config.write_text(self._daemon_sections())

    def _daemon_sections(self) -> str:
        user = "user=root\n" if os.geteuid() == 0 else ""
        folder = _escape(str(self._run_dir))
        return (
            f"[supervisord]\n{user}nocleanup=true\nloglevel=info\n"
            f"logfile={_escape(str(self.log_file('supervisord')))}\nlogfile_maxbytes=0\n"
            f"pidfile={folder}/supervisord.pid\n"
            f"[unix_http_server]\nfile={folder}/supervisor.sock\nchmod=0700\n"
            "[rpcinterface:supervisor]\n"
            "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n"
            f"[include]\nfiles={folder}/programs/*.conf\n"
        )

    @contextmanager
    def _rpc(self) -> Iterator[Any]:
        transport = SupervisorTransport(None, None, f"unix://{self._socket}")
        # The host is not used, but the protocol wants one.
        proxy = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
        try:
            yield proxy.supervisor
        except OSError as error:
            raise NotRunningError(
                f"no local servers run in {self._run_dir}: start them with `coplace local up`"
            ) from error
        except xmlrpc.client.Fault as fault:
            raise LocalServersError(f"supervisord refused: {fault.faultString}") from fault
        finally:
            transport.close()


def launch_script(program: Program, pid_file: Path) -> str:
    """Return the shell script that becomes the program, so that any argument and value is passed
    whole."""
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in sorted(program.env.items())
    )
    return (
        "# supervisord may have died before this process was tied to it.\n"
        f'test "$PPID" = "$(cat {shlex.quote(str(pid_file))})" || exit 1\n'
        f"{exports}exec {shlex.join(program.argv)}\n"
    )


def program_section(program: Program, script: Path, log: Path) -> str:
    """Return supervisord's section of the program: restarted at once however often it ends."""
    command = shlex.join([*_TIE_TO_PARENT, "sh", str(script)])
    options = {
        "command": _escape(command),
        "autorestart": "unexpected" if program.one_shot else "true",
        "exitcodes": "0",
        # Counts as started at once, so no number of quick failures makes supervisord give up.
        "startsecs": "0",
        "stopsignal": program.stop_signal.name.removeprefix("SIG"),
        "stopwaitsecs": str(program.stop_within_s),
        "stopasgroup": "true",
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": _escape(str(log)),
        "stdout_logfile_maxbytes": "50MB",
        "stdout_logfile_backups": "1",
    }
    return f"[program:{program.name}]\n" + "".join(f"{k}={v}\n" for k, v in options.items())


def _escape(text: str) -> str:
    return text.replace("%", "%%")


def _process_state(info: dict[str, Any]) -> ProcessState:
    pid = int(info["pid"])
    return ProcessState(
        name=info["name"],
        state=info["statename"].lower(),
        pid=pid,
        exit_status=info["exitstatus"],
        uptime_s=info["now"] - info["start"] if pid else 0,
    )
