"""Every service as a program of the local runner, with its ports."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from deploy.local.ports import fresh_ports
from deploy.local.program import Program

_ARCHIVE: Final = "services.archive"
_HISTORY: Final = "services.history"
_INGEST: Final = "services.ingest"
_PLACEMENT: Final = "services.placement"
_ENERGY_API: Final = "services.energy.api"
_REST: Final = "services.rest"
_WATCH: Final = "services.watch"
_WEBHOOKS: Final = "services.webhooks"
# Modules by process.
MODULES: Final[Mapping[str, str]] = {
    "ingest": _INGEST,
    "energy": "services.energy",
    "appdb-cache": "services.energy.appdb_cache",
    "energy-api": _ENERGY_API,
    "prediction": "services.prediction",
    "placement": _PLACEMENT,
    "watch": _WATCH,
    "pricing": "services.pricing",
    "accounts": "services.pricing.accounts",
}
# With the reader of Slurm's completed jobs, which a region for tests does without.
EVERY: Final[Mapping[str, str]] = {**MODULES, "ingest-jobcomp": "services.ingest.jobcomp"}
# Which of them share a process where one machine runs all: what answers, and what no decision waits
# for. Placement has one of its own.
TOGETHER: Final[Mapping[str, Sequence[str]]] = {
    "ingest": ("ingest", "ingest-jobcomp"),
    "placement": ("placement",),
    "answers": ("watch", "energy-api"),
    "background": ("energy", "prediction", "pricing", "appdb-cache", "accounts"),
}
# These may have several workers: keyed stages share their Kafka partitions among them, of a single
# stage one works and the others are standbys.
STATEFUL: Final = ("energy", "appdb-cache", "prediction", "placement", "pricing", "accounts")
# Beside the others where plans are wanted.
PLANNER: Final = "planner"
# Beside them where HTTP and JSON are wanted.
REST: Final = "rest"
# Beside them where topics go to files.
ARCHIVE: Final = "archive"
# Beside them where what was is kept in SQL.
HISTORY: Final = "history"
# Beside them where what happens is posted to URLs.
WEBHOOKS: Final = "webhooks"
EMULATOR: Final = "simulation"
# Modules that answer over gRPC, with the variables of their ports.
_GRPC_PORTS: Final = {
    _INGEST: "COPLACE_INGEST_PORT",
    _PLACEMENT: "COPLACE_PLACEMENT_PORT",
    _ENERGY_API: "COPLACE_ENERGY_API_PORT",
    _WATCH: "COPLACE_WATCH_PORT",
    _HISTORY: "COPLACE_HISTORY_PORT",
    _WEBHOOKS: "COPLACE_WEBHOOKS_PORT",
}
# The variables of where clients that have a token find them.
_TOKEN_ADDRESSES: Final = {
    _INGEST: "COPLACE_INGEST_TOKEN_ADDRESS",
    _PLACEMENT: "COPLACE_PLACEMENT_TOKEN_ADDRESS",
    _ENERGY_API: "COPLACE_ENERGY_TOKEN_ADDRESS",
    _WATCH: "COPLACE_WATCH_TOKEN_ADDRESS",
    _HISTORY: "COPLACE_HISTORY_TOKEN_ADDRESS",
    _WEBHOOKS: "COPLACE_WEBHOOKS_TOKEN_ADDRESS",
}
_HTTP: Final = "rest HTTP"
_TOGETHER: Final = "cli.together"
# NumPy's libraries would start a thread a core in every process.
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Processes:
    """The processes of one namespace; each finds `environment` and its own ports in its own.

    Traces go to files below `run_dir` when they are wanted: every event then costs a span.
    `archive` is where topics go to files, empty where they do not; `history` the database of
    what was, None where it is not kept; `webhooks` that of what is posted. `choose_ports` finds a
    port for each name, `credentials` what a service of a secure installation needs to be believed.
    `together` is which services share a process, by its name: these have no further workers, and
    credentials of their own only where each has a process.
    """

    def __init__(
        self,
        run_dir: Path,
        environment: Mapping[str, str],
        *,
        modules: Mapping[str, str] = MODULES,
        together: Mapping[str, Sequence[str]] | None = None,
        workers: int = 1,
        traced: bool,
        planned: bool = False,
        with_rest: bool = False,
        archive: str = "",
        history: Path | None = None,
        webhooks: Path | None = None,
        choose_ports: Callable[[Sequence[str]], Mapping[str, int]] = fresh_ports,
        credentials: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        self._run_dir = run_dir.absolute()
        self._environment = {**environment, **_ONE_THREAD}
        self._traced = traced
        self._credentials = credentials
        self._archive, self._history, self._webhooks = archive, history, webhooks
        every = {
            **modules,
            **({PLANNER: "services.planner"} if planned else {}),
            **({REST: _REST} if with_rest else {}),
            **({ARCHIVE: _ARCHIVE} if archive else {}),
            **({HISTORY: _HISTORY} if history else {}),
            **({WEBHOOKS: _WEBHOOKS} if webhooks else {}),
        }
        shared = {one: name for name, members in (together or {}).items() for one in members}
        several = (*STATEFUL, PLANNER)
        self._workers = {
            name if number == 1 else f"{name}-{number}": module
            for name, module in every.items()
            for number in range(1, (workers if name in several and name not in shared else 1) + 1)
        }
        # What each process runs, by its name.
        self._members: dict[str, list[str]] = {}
        for name in self._workers:
            self._members.setdefault(shared.get(name, name), []).append(name)
        self._services = {module: name for name, module in every.items()}
        answering = [name for name, module in self._workers.items() if module in _GRPC_PORTS]
        further = map(_tokens, answering) if credentials else ()
        http = [_HTTP] if with_rest else []
        named = [*self._members, EMULATOR, *map(_grpc, answering), *further, *http]
        self._ports = choose_ports(named)

    @property
    def ingest_address(self) -> str:
        """Return where gRPC clients find ingest."""
        [address] = self._addresses(_INGEST)
        return address

    @property
    def placement_addresses(self) -> tuple[str, ...]:
        """Return where the workers of placement answer `coplace why`: one does, the others are
        standbys."""
        return self._addresses(_PLACEMENT)

    @property
    def energy_address(self) -> str:
        """Return where gRPC clients find the energy API."""
        [address] = self._addresses(_ENERGY_API)
        return address

    @property
    def watch_address(self) -> str:
        """Return where gRPC clients watch decisions."""
        [address] = self._addresses(_WATCH)
        return address

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return where gRPC clients find each process, by the variable of its address."""
        return {
            "COPLACE_INGEST_ADDRESS": self.ingest_address,
            "COPLACE_PLACEMENT_ADDRESS": self.placement_addresses[0],
            "COPLACE_ENERGY_ADDRESS": self.energy_address,
            "COPLACE_WATCH_ADDRESS": self.watch_address,
            **self._optional_addresses,
        }

    @property
    def _optional_addresses(self) -> Mapping[str, str]:
        every = {
            "COPLACE_HISTORY_ADDRESS": self._addresses(_HISTORY),
            "COPLACE_WEBHOOKS_ADDRESS": self._addresses(_WEBHOOKS),
        }
        return {variable: found[0] for variable, found in every.items() if found}

    @property
    def rest_url(self) -> str:
        """Return where HTTP clients find REST; empty where there is none."""
        if _HTTP not in self._ports:
            return ""
        scheme = "https" if self._credentials else "http"
        return f"{scheme}://127.0.0.1:{self._ports[_HTTP]}"

    @property
    def token_addresses(self) -> Mapping[str, str]:
        """Return where clients with a token find each process, by the variable of its address; none
        in an installation that is not secure."""
        if not self._credentials:
            return {}
        return {
            variable: f"127.0.0.1:{self._ports[_tokens(self._services[module])]}"
            for module, variable in _TOKEN_ADDRESSES.items()
            if module in self._services
        }

    def services(self) -> list[Program]:
        """Return every service, the stateful ones as often as they have workers."""
        return [self._process(name, members) for name, members in self._members.items()]

    def _process(self, name: str, members: Sequence[str]) -> Program:
        own: dict[str, str] = {}
        for each in members:
            own |= self._of_service(each, self._workers[each])
        if len(members) == 1:
            return self._program(name, self._workers[members[0]], own)
        return self._program(name, _TOGETHER, own, name, *members)

    def _of_service(self, name: str, module: str) -> Mapping[str, str]:
        return {
            **self._grpc_port(name, module),
            **self._of_rest(module),
            **({"COPLACE_ARCHIVE_WHERE": self._archive} if module == _ARCHIVE else {}),
            **self._of_history(module),
            **self._of_webhooks(module),
        }

    def emulator(self) -> Program:
        """Return the emulated resource managers and nodes."""
        address = {"COPLACE_SIMULATION_INGEST_ADDRESS": self.ingest_address}
        return replace(self._program(EMULATOR, "lab.emulator", address), one_shot=True)

    def sample(self, begun_at_us: int) -> Program:
        """Return the emulated resource managers of a few jobs, in real time."""
        own = {
            "COPLACE_SAMPLE_BEGUN_AT_US": str(begun_at_us),
            "COPLACE_SAMPLE_INGEST_ADDRESS": self.ingest_address,
            "COPLACE_SAMPLE_WATCH_ADDRESS": self.watch_address,
        }
        return self._program(EMULATOR, "lab.emulator.sample", own)

    def _addresses(self, wanted: str) -> tuple[str, ...]:
        return tuple(
            f"127.0.0.1:{self._ports[_grpc(name)]}"
            for name, module in self._workers.items()
            if module == wanted
        )

    def _grpc_port(self, name: str, module: str) -> Mapping[str, str]:
        variable = _GRPC_PORTS.get(module)
        if variable is None:
            return {}
        own = {variable: str(self._ports[_grpc(name)])}
        if self._credentials:
            own["COPLACE_GRPC_TOKEN_PORT"] = str(self._ports[_tokens(name)])
        return own

    def _of_history(self, module: str) -> Mapping[str, str]:
        """Where the database is, and the archive where there is one."""
        if module != _HISTORY:
            return {}
        database = {"COPLACE_HISTORY_DATABASE": str(self._history)}
        return {**database, "COPLACE_HISTORY_ARCHIVE": self._archive}

    def _of_webhooks(self, module: str) -> Mapping[str, str]:
        """Where the database is."""
        return {"COPLACE_WEBHOOKS_DATABASE": str(self._webhooks)} if module == _WEBHOOKS else {}

    def _of_rest(self, module: str) -> Mapping[str, str]:
        """Where REST listens, and where it asks: in a secure installation where tokens count."""
        if module != _REST:
            return {}
        return {
            "COPLACE_REST_PORT": str(self._ports[_HTTP]),
            **self.addresses,
            **{
                variable.replace("_TOKEN_", "_"): address
                for variable, address in self.token_addresses.items()
            },
        }

    def _program(
        self, name: str, module: str, further: Mapping[str, str], *arguments: str
    ) -> Program:
        port = self._ports[name]
        own = {"COPLACE_HTTP_PORT": str(port), "COPLACE_WORKER": name, **further}
        if self._credentials:
            own |= self._credentials(self._services.get(module, name))
        if self._traced:
            own["COPLACE_TRACE_FILE"] = str(self._run_dir / "traces" / f"{name}.jsonl")
        return Program(
            name,
            [sys.executable, "-m", module, *arguments],
            env={**self._environment, **own},
            ready_url=f"http://127.0.0.1:{port}/readyz",
        )


def _grpc(name: str) -> str:
    return f"{name} gRPC"


def _tokens(name: str) -> str:
    return f"{name} gRPC for tokens"
