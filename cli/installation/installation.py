"""One installation: its folder, its processes, how it starts and stops, and how commands find
it."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from cli.installation.record import (
    InstallationRecord,
    forget_folder,
    last_folder,
    remember_folder,
    state_dir,
)
from cli.times import clock_us
from coplace_client.errors import UnusableError
from deploy.local.errors import NotRunningError
from deploy.local.ports import kept_ports, remembered_ports
from deploy.local.readiness import is_ready, waits_for
from deploy.local.run_state import RunState
from deploy.local.servers import LocalServers
from deploy.local.starting import OnState
from deploy.local.supervision import ProcessState, Supervisor
from shared.catalogue.access.rules import OPERATOR

if TYPE_CHECKING:
    from cli.security import Security

# Every round closes every Kafka partition: on one machine few are enough.
_KAFKA_PARTITIONS: Final = "4"
_KEPT: Final = ("COPLACE_NAMESPACE", "COPLACE_KAFKA_PARTITIONS")
_SERVERS: Final = ("kafka", "redis")
# When the jobs of the sample were submitted, and for how long they are some to look at.
_SAMPLE: Final = "sample"
_SAMPLE_LASTS_US: Final = 3 * 3_600_000_000
# Says of the other variables that `coplace env` printed them.
_FOLDER: Final = "COPLACE_FOLDER"
# What begins the names of credentials' variables, and the one that no plain installation has.
_CREDENTIALS: Final = (
    "COPLACE_GRPC_",
    *("COPLACE_KAFKA_CA_", "COPLACE_KAFKA_SASL_", "COPLACE_KAFKA_SECURITY_"),
    *("COPLACE_REDIS_CA_", "COPLACE_REDIS_PASSWORD_", "COPLACE_REDIS_USERNAME"),
)
# What programs from outside need to know of an installation.
_ADDRESSES: Final = (
    *("COPLACE_ENERGY_", "COPLACE_INGEST_", "COPLACE_PLACEMENT_"),
    *("COPLACE_KAFKA_BOOTSTRAP", "COPLACE_KAFKA_PARTITIONS", "COPLACE_NAMESPACE"),
)
_SECURED: Final = "COPLACE_KAFKA_SASL_PASSWORD_FILE"

_Told = Callable[[str], object]


class InstallationError(UnusableError):
    """The installation is not in the state that was asked for; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A process: what it waits for, empty once it is ready, its ports (0 or none: it has none), and
    since when it runs, in microseconds since 1970 (0: it does not)."""

    name: str
    pid: int
    http_port: int
    grpc_ports: Sequence[int]
    since_us: int
    waits_for: str


class _Databases(NamedTuple):
    """The files of the databases of processes that were asked for."""

    history: Path | None
    webhooks: Path | None

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that name them."""
        files = {
            "COPLACE_HISTORY_DATABASE": self.history,
            "COPLACE_WEBHOOKS_DATABASE": self.webhooks,
        }
        return {variable: str(file) for variable, file in files.items() if file}


class Installation:
    """Kafka, Redis and every service on this machine, with all that they keep in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @classmethod
    def last(cls) -> "Installation":
        """Return the installation that was started last, or that would be."""
        return cls(last_folder())

    @property
    def record(self) -> InstallationRecord:
        """Return the record of how it is reached."""
        return InstallationRecord.load(self.folder)

    @property
    def is_up(self) -> bool:
        """Return whether it was started whole and was not stopped or killed since."""
        return self.is_running and self.record.up_since_us > 0

    @property
    def is_running(self) -> bool:
        """Return whether anything of it runs."""
        try:
            return Supervisor(self.folder).pid() > 0
        except NotRunningError:
            return False

    @property
    def is_secure(self) -> bool:
        """Return whether it was last started secure."""
        return _SECURED in self.record.environment

    def up(
        self,
        *,
        planned: bool,
        on_begin: Callable[[Sequence[str]], object],
        on_state: OnState,
        secure: bool | None = None,
        with_rest: bool = False,
        archive: str = "",
        with_history: bool = False,
        with_webhooks: bool = False,
        sample: bool = False,
    ) -> InstallationRecord:
        """Start everything and wait until it is ready; on failure nothing is left running.

        What a killed start left behind is stopped first. `on_begin` gets the names of the processes
        that there will be, `on_state` how each is until it is ready; `secure` None is as the last
        time. Raises InstallationError if this or another installation is up already, or the folder
        holds something else; errors of the local runner; and what Kafka says of the topics.
        """
        with _alone():
            self._require_none_up()
            self._require_own_folder()
            secured = self.is_secure if secure is None else secure
            if secured and sample:
                raise InstallationError(
                    "--sample: its resource managers have no credentials: add --no-secure, or "
                    "leave --sample out"
                )
            if secured:
                _require_no_other_servers()
            self._stop()
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            InstallationRecord(self.record.environment).save(self.folder)
            remember_folder(self.folder)
            where = _absolute(archive)
            databases = _Databases(
                self.folder / "history.db" if with_history else None,
                self.folder / "webhooks.db" if with_webhooks else None,
            )
            begun_us = self._sample_begun_us() if sample else 0
            return self._start(
                planned, with_rest, where, databases, secured, begun_us, on_begin, on_state
            )

    def down(self, *, delete: bool) -> bool:
        """Stop whatever runs of it, and delete its folder if asked to; whether anything ran."""
        with _alone():
            ran = self.is_running
            self._stop()
            if delete and InstallationRecord.is_in(self.folder):
                shutil.rmtree(self.folder)
                forget_folder()
            return ran

    def processes(self) -> list[ProcessStatus]:
        """Return each process as it is now. Raises NotRunningError."""
        urls = RunState.load(self.folder).ready_urls
        ports = remembered_ports(self.folder / "ports.json")
        states = Supervisor(self.folder).states()
        return [_status(state, urls.get(state.name), ports) for state in states]

    def issue(self, name: str, role: str) -> Mapping[str, str]:
        """Let somebody from outside in: the variables by which programs of theirs find it and are
        believed. Raises InstallationError unless it is up and secure, UnusableError for a role or
        name that cannot be, and KafkaError."""
        from cli.rotation import has_begun

        with _alone(), self._secured() as (security, servers):
            if has_begun(security):
                raise InstallationError(
                    "a rotation was interrupted: end it with `coplace certificates rotate`"
                )
            security.add_client(name, role)
            security.prepare()
            security.provision(servers)
            addresses = self.record.environment
            found = {n: v for n, v in addresses.items() if n.startswith(_ADDRESSES)}
            return {**found, **security.environment(name), "COPLACE_SOURCE": name}

    def rotate(self, tell: _Told, *, keep_old: bool, disconnect: bool) -> None:
        """Give everybody new credentials while all of it runs, or go on with what was begun; `tell`
        hears of each step. With `keep_old` the old authority is still believed in the end; with
        `disconnect` each process begins anew, one after another, so that no connection is left from
        before. Raises InstallationError unless it is up and secure, and as `Rotation.run`."""
        from cli.believing_servers import RunningServers
        from cli.rotation import Rotation

        with _alone(), self._secured() as (security, servers):
            Rotation(security, RunningServers(security, servers)).run(tell, keep_old=keep_old)
            for name, url in RunState.load(self.folder).ready_urls.items() if disconnect else ():
                servers.restart(name, url)
                tell(f"{name} runs anew")

    @contextmanager
    def _secured(self) -> Iterator[tuple["Security", LocalServers]]:
        """Its credentials and servers, with the addresses of these in the environment."""
        from cli.security import Security

        if not (self.is_up and self.is_secure):
            raise InstallationError("no secure installation is up: `coplace up --secure`")
        addresses = self.record.environment
        with _set(addresses):
            security = Security(self.folder, addresses.get("COPLACE_NAMESPACE", ""))
            yield security, LocalServers(self.folder)

    def logs(self) -> Mapping[str, Path]:
        """Return the log of each process by its name, those of earlier starts too."""
        return {file.stem: file for file in sorted((self.folder / "log").glob("*.log"))}

    def _require_none_up(self) -> None:
        for other in (self, Installation.last()):
            if other.is_up:
                raise InstallationError(
                    f"Coplace is up already in {other.folder}: see `coplace status`, or stop it "
                    "with `coplace down`"
                )
        if (other := Installation.last()).folder != self.folder and other.is_running:
            raise InstallationError(
                f"a start that was killed left processes in {other.folder}: stop them with "
                "`coplace down`"
            )

    def _require_own_folder(self) -> None:
        if (
            self.folder.is_dir()
            and any(self.folder.iterdir())
            and not InstallationRecord.is_in(self.folder)
        ):
            raise InstallationError(
                f"{self.folder} holds files that are not of an installation: choose an empty or a "
                "new folder"
            )

    def _start(
        self,
        planned: bool,
        with_rest: bool,
        archive: str,
        databases: "_Databases",
        secured: bool,
        sample_begun_us: int,
        on_begin: Callable[[Sequence[str]], object],
        on_state: OnState,
    ) -> InstallationRecord:
        from cli.processes import EVERY, TOGETHER, Processes
        from cli.security import Security
        from cli.stages import create_topics
        from shared.process.settings import Settings
        from shared.streams.on_kafka.deployment import Deployment

        for name in stale_variables():
            del os.environ[name]
        shared = self._shared()
        security = Security(self.folder, shared.get("COPLACE_NAMESPACE", "")) if secured else None
        if security:
            security.prepare()
        secure_redis = security.redis if security else None
        servers = LocalServers(self.folder, on_state=on_state, secure=secure_redis)
        processes = Processes(
            self.folder,
            shared,
            modules=EVERY,
            # A process has the credentials of one service.
            together=None if security else TOGETHER,
            traced=False,
            planned=planned,
            with_rest=with_rest,
            archive=archive,
            history=databases.history,
            webhooks=databases.webhooks,
            choose_ports=partial(kept_ports, servers.ports_file),
            credentials=security.environment if security else None,
        )
        services = processes.services()
        samples = [processes.sample(sample_begun_us)] if sample_begun_us else []
        on_begin([*_SERVERS, *(program.name for program in [*services, *samples])])
        servers.up()
        try:
            if security:
                security.provision(servers)
            environment = {
                **shared,
                **_of_operator(security),
                _FOLDER: str(self.folder),
                "COPLACE_KAFKA_BOOTSTRAP": servers.kafka_bootstrap,
                "COPLACE_REDIS_URL": servers.redis_url,
                **processes.addresses,
                **processes.token_addresses,
                **({"COPLACE_REST_URL": processes.rest_url} if with_rest else {}),
                **({"COPLACE_ARCHIVE_WHERE": archive} if archive else {}),
                **databases.environment,
            }
            with _set(environment):
                create_topics(Deployment.from_settings(Settings()))
            servers.start(services)
            servers.start(samples)
        except BaseException:
            servers.down()
            raise
        record = InstallationRecord(environment, clock_us())
        record.save(self.folder)
        return record

    def _shared(self) -> Mapping[str, str]:
        """What the folder's data were made with, unless the environment says otherwise."""
        given = {"COPLACE_KAFKA_PARTITIONS": _KAFKA_PARTITIONS, **self.record.environment}
        found = {**given, **os.environ}
        return {name: found[name] for name in _KEPT if name in found}

    def _sample_begun_us(self) -> int:
        """Return when the jobs of its sample were submitted: now, once all of them are over."""
        file, now_us = self.folder / _SAMPLE, clock_us()
        begun_us = int(file.read_text()) if file.exists() else 0
        if now_us - begun_us > _SAMPLE_LASTS_US:
            begun_us = now_us
            file.write_text(f"{begun_us}\n")
        return begun_us

    def _stop(self) -> None:
        LocalServers(self.folder).down()
        if InstallationRecord.is_in(self.folder):
            RunState.remove(self.folder)
            replace(self.record, up_since_us=0).save(self.folder)


def _absolute(archive: str) -> str:
    """Return where an archive lies for processes of any folder."""
    return str(Path(archive).absolute()) if archive and "://" not in archive else archive


@contextmanager
def reachable() -> Iterator[None]:
    """Set, within it, the environment that names the installation, if one is up and the environment
    does not name another system."""
    found = Installation.last()
    if found.is_up and not names_another(found.record):
        with _set(found.record.environment):
            yield
    else:
        yield


def names_another(record: InstallationRecord) -> list[str]:
    """Return the variables of the environment that name another system than the record's."""
    known = record.environment
    return [name for name in known if os.environ.get(name, known[name]) != known[name]]


def stale_variables() -> list[str]:
    """Return the variables that a shell still has from `coplace env` and that are no longer valid:
    addresses of Kafka and Redis at which nobody listens, which name no servers to use in place of
    new ones, and credentials, which each process has of its own."""
    if _FOLDER not in os.environ:
        return []
    addresses = {
        "COPLACE_KAFKA_BOOTSTRAP": os.environ.get("COPLACE_KAFKA_BOOTSTRAP", ""),
        "COPLACE_REDIS_URL": urlsplit(os.environ.get("COPLACE_REDIS_URL", "")).netloc,
    }
    gone = [
        name
        for name, address in addresses.items()
        if name in os.environ and not is_ready(f"tcp://{address}")
    ]
    return [*gone, *(name for name in os.environ if name.startswith(_CREDENTIALS))]


def _require_no_other_servers() -> None:
    others = set(os.environ) & {"COPLACE_KAFKA_BOOTSTRAP", "COPLACE_REDIS_URL"}
    if others - set(stale_variables()):
        raise InstallationError(
            f"{', '.join(sorted(others))}: a secure installation runs servers of its own; unset "
            "it, or leave --secure out and set COPLACE_KAFKA_* and COPLACE_REDIS_* for yours"
        )


def _of_operator(security: "Security | None") -> Mapping[str, str]:
    """Who gives commands, in a secure installation."""
    if security is None:
        return {}
    return {**security.environment(OPERATOR), "COPLACE_SOURCE": OPERATOR}


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _alone() -> Iterator[None]:
    """While this process starts or stops something. Ends with it, even if it is killed."""
    state_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state_dir() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InstallationError(
                "another `coplace up` or `coplace down` is at work: wait until it has ended"
            ) from None
        yield


def _status(state: ProcessState, url: str | None, ports: Mapping[str, int]) -> ProcessStatus:
    from cli.processes import TOGETHER

    since_us = clock_us() - state.uptime_s * 1_000_000
    return ProcessStatus(
        name=state.name,
        pid=state.pid,
        http_port=ports.get(state.name, 0),
        grpc_ports=[
            ports[port]
            for service in TOGETHER.get(state.name, (state.name,))
            if (port := f"{service} gRPC") in ports
        ],
        since_us=since_us if state.pid else 0,
        waits_for=_waits_for(state, url),
    )


def _waits_for(state: ProcessState, url: str | None) -> str:
    if not state.pid:
        return f"its next start: it is {state.state}"
    return waits_for(url) if url else ""
