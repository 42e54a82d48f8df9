"""Local servers with their programs: started in order, awaited, stopped in reverse."""

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from deploy.local.errors import LocalServersError, NotRunningError
from deploy.local.kafka.broker import KafkaPorts, kafka_program
from deploy.local.ports import kept_ports, remembered_ports
from deploy.local.prerequisites import require_command
from deploy.local.program import Program
from deploy.local.readiness import is_ready
from deploy.local.redis_server import SecureRedis, redis_program
from deploy.local.run_state import RunState
from deploy.local.starting import OnState, Starts
from deploy.local.supervision import ProcessState, Supervisor
from deploy.local.waiting import not_ready, wait_until
from shared.process.settings import Settings

_SUPERVISOR_START_S = 15.0
_SHUTDOWN_S = 60.0
_RESTART_S = 60.0
_SERVERS = ("kafka", "redis")
_PORTS = ("kafka", "kafka-internal", "kafka-controller", "redis")
_PORTS_FILE = "ports.json"


def _unseen(_name: str, _how: str) -> None:
    """Show nothing."""


class LocalServers:
    """Kafka and Redis, each its own or the one that COPLACE_KAFKA_BOOTSTRAP or COPLACE_REDIS_URL
    names, and further programs, which find both addresses in their environment.

    As a context manager it is tied to the calling process: nothing outlives it, however it ends.
    Enter it from a thread that lives as long as the servers should. `on_state` gets the name of
    each program and how it is, until it is ready for the first time. With `secure` both servers of
    its own speak TLS alone and ask who somebody is.
    """

    def __init__(
        self,
        run_dir: Path,
        programs: Sequence[Program] = (),
        *,
        kafka: bool = True,
        redis: bool = True,
        secure: SecureRedis | None = None,
        on_state: OnState = _unseen,
    ) -> None:
        self.run_dir = run_dir.absolute()
        self._on_state = on_state
        self._programs = programs
        self._supervisor = Supervisor(self.run_dir)
        self._supervisord: subprocess.Popen[bytes] | None = None
        self._settings = Settings()
        self._secure = secure
        earlier = remembered_ports(self.ports_file)
        own = {
            "kafka_bootstrap": _kafka_at(earlier.get("kafka", 0)),
            "redis_url": self._redis_at(earlier.get("redis", 0)),
        }
        given = self._settings.model_dump(include=self._settings.model_fields_set)
        # A shell may still have the addresses that these servers had the last time.
        self._own_kafka = kafka and _is_own("kafka_bootstrap", given, own)
        self._own_redis = redis and _is_own("redis_url", given, own)
        self.kafka_bootstrap = self._settings.kafka_bootstrap
        self.redis_url = self._settings.redis_url
        self._ready_urls: dict[str, str | None] = {}

    @property
    def kafka_internal(self) -> str:
        """Return where a secure Kafka of its own speaks to itself, and believes its own
        certificate."""
        return _kafka_at(remembered_ports(self.ports_file)["kafka-internal"])

    @property
    def ports_file(self) -> Path:
        """Return where the ports of the servers are remembered: they are the same after a new
        start."""
        return self.run_dir / _PORTS_FILE

    def __enter__(self) -> Self:
        self.up(tied_to_caller=True)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.down()

    def up(self, tied_to_caller: bool = False) -> None:
        """Start everything and wait until it is ready; on failure nothing is left running.

        Raises PrerequisiteError, NotReadyError, or LocalServersError if it runs already.
        """
        require_command("setpriv", "The local runner", "util-linux")
        if self.is_running():
            raise LocalServersError(
                f"local servers run in {self.run_dir} already: see `coplace local status`, "
                "or stop them with `coplace local down`"
            )
        servers = self._servers()
        self._supervisord = self._supervisor.launch(tied_to_caller)
        try:
            wait_until(
                self._supervisor_answers,
                _SUPERVISOR_START_S,
                "supervisord answers",
                self.log("supervisord"),
            )
            self.start(servers)
            self.start(self._programs)
        except BaseException:
            self.down()
            raise

    def start(self, programs: Iterable[Program]) -> None:
        """Start further programs and wait until all are ready, over as many restarts as that takes.
        Raises NotReadyError for one that takes too long or ends again and again."""
        started = [self._with_addresses(program) for program in programs]
        starts = Starts(started, self.log, self.states, self._on_state)
        for program in started:
            self._supervisor.add(program)
            self._ready_urls[program.name] = program.ready_url
        self._save_state()
        starts.wait()

    def remove(self, programs: Iterable[Program]) -> None:
        """Stop programs, whatever state they are in, and forget them: their names are free."""
        given = {program.name for program in programs}
        names = [state.name for state in self.states() if state.name in given]
        self._stop(names)
        for name in names:
            self._supervisor.remove(name)
            del self._ready_urls[name]
        self._save_state()

    def down(self) -> None:
        """Stop the programs, then the servers, then supervisord. Does nothing if none runs."""
        try:
            supervisord = psutil.Process(self._supervisor.pid())
        except (NotRunningError, psutil.NoSuchProcess):
            return
        self._stop([state.name for state in self.states() if state.name not in _SERVERS])
        self._supervisor.shutdown()
        try:
            supervisord.wait(_SHUTDOWN_S)
        except psutil.TimeoutExpired:
            supervisord.kill()  # Takes with it whatever it could not stop.
        if self._supervisord is not None:
            self._supervisord.wait()
        RunState.remove(self.run_dir)

    def is_running(self) -> bool:
        """Return whether a supervisord keeps servers in the run folder."""
        try:
            return self._supervisor.pid() > 0
        except NotRunningError:
            return False

    def states(self) -> list[ProcessState]:
        """Return the state of every program. Raises NotRunningError."""
        return self._supervisor.states()

    def pid(self, name: str) -> int:
        """Return the process id of a program, 0 while it does not run. Raises LocalServersError."""
        return self._supervisor.state(name).pid

    def supervisor_pid(self) -> int:
        """Return the process id of supervisord. Raises NotRunningError."""
        return self._supervisor.pid()

    def log(self, name: str) -> Path:
        """Return the file that a program's output goes to."""
        return self._supervisor.log_file(name)

    def kill(self, name: str, sig: signal.Signals = signal.SIGKILL) -> None:
        """Send the program a signal; after SIGKILL it has ended on return, and is soon restarted.

        Raises LocalServersError if it does not run.
        """
        pid = self.pid(name)
        if pid == 0:
            raise LocalServersError(f"{name} does not run: call wait_ready({name!r}) first")
        os.kill(pid, sig)
        if sig == signal.SIGKILL:
            wait_until(lambda: self.pid(name) != pid, 10.0, f"{name} has ended", self.log(name))

    def restart(self, name: str, ready_url: str | None) -> None:
        """Restart a running program: let it end as it should and begin anew, and wait until it is
        ready.

        Raises LocalServersError if it does not run, NotReadyError if it is not ready in time.
        """
        pid = self.pid(name)
        self.kill(name, signal.SIGTERM)
        log = self.log(name)
        wait_until(lambda: self.pid(name) not in (0, pid), _SHUTDOWN_S, f"{name} runs again", log)
        ready = partial(is_ready, ready_url) if ready_url else lambda: True
        wait_until(ready, _RESTART_S, f"{name} is ready", log)

    def wait_ready(self, name: str, timeout_s: float = 180.0) -> None:
        """Wait until a program runs and is ready, over as many restarts as it takes.

        Raises NotReadyError when the time is over.
        """
        wait_until(lambda: self._is_ready(name), timeout_s, f"{name} is ready", self.log(name))

    def wait_done(self, name: str, timeout_s: float) -> None:
        """Wait until a one-shot program has ended with exit status 0.

        Raises NotReadyError when the time is over.
        """
        wait_until(lambda: self._is_done(name), timeout_s, f"{name} is done", self.log(name))

    def _servers(self) -> list[Program]:
        ports = kept_ports(self.ports_file, _PORTS)
        servers = []
        if self._own_kafka:
            servers.append(
                kafka_program(
                    self.run_dir / "kafka",
                    KafkaPorts(ports["kafka"], ports["kafka-internal"], ports["kafka-controller"]),
                    self._settings.max_message_bytes,
                    self._secure.credentials if self._secure else None,
                )
            )
            self.kafka_bootstrap = _kafka_at(ports["kafka"])
        if self._own_redis:
            servers.append(redis_program(self.run_dir / "redis", ports["redis"], self._secure))
            self.redis_url = self._redis_at(ports["redis"])
        return servers

    def _supervisor_answers(self) -> bool:
        if self._supervisord is not None and self._supervisord.poll() is not None:
            raise not_ready("supervisord ended as it started", self.log("supervisord"))
        return self.is_running()

    def _with_addresses(self, program: Program) -> Program:
        addresses = {
            "COPLACE_KAFKA_BOOTSTRAP": self.kafka_bootstrap,
            "COPLACE_REDIS_URL": self.redis_url,
        }
        return replace(program, env={**addresses, **program.env})

    def _is_ready(self, name: str) -> bool:
        url = self._ready_urls.get(name)
        return self.pid(name) > 0 and (url is None or is_ready(url))

    def _is_done(self, name: str) -> bool:
        return self._supervisor.state(name).is_done

    def _save_state(self) -> None:
        RunState(self.kafka_bootstrap, self.redis_url, self._ready_urls).save(self.run_dir)

    def _stop(self, names: Sequence[str]) -> None:
        for name in reversed(names):
            self._supervisor.stop(name)
        for name in names:
            stopped = partial(self._is_stopped, name)
            wait_until(stopped, _SHUTDOWN_S, f"{name} is stopped", self.log(name))

    def _is_stopped(self, name: str) -> bool:
        return self.pid(name) == 0

    def _redis_at(self, port: int) -> str:
        scheme = "rediss" if self._secure else "redis"
        return f"{scheme}://127.0.0.1:{port}/0"


def _kafka_at(port: int) -> str:
    return f"127.0.0.1:{port}"


def _is_own(name: str, given: Mapping[str, str], own: Mapping[str, str]) -> bool:
    return given.get(name, own[name]) == own[name]
