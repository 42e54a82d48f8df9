"""A day of two clusters, three users and thirty jobs, in virtual time.

Every service and the command line are at work in this process; lines go to the real commands.
"""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from decimal import Decimal
from io import StringIO
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import grpc
from coplace.v1.control_pb2 import (
    POWER_SCOPE_REGION,
    CommandOutcome,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.ingest_service_pb2 import (
    PublishRequest,
    PublishResponse,
    ShowOutcomeRequest,
    ShowOutcomeResponse,
)
from coplace.v1.pricing_pb2 import ChargeMade
from typer.testing import CliRunner

from cli.accounts import latest
from cli.main import app
from coplace_client.errors import RejectedError
from lab.demo.accounts import fold_charges
from lab.demo.embedded import EmbeddedSystem
from lab.demo.history import History
from lab.emulator.emulator import Emulator, RoundOutput
from lab.emulator.facts import EPOCH_US
from lab.workloads.clusters import clusters
from lab.workloads.request import JobRequest
from lab.workloads.table1 import APPS, profile
from services.ingest.service import NAME
from shared.domain.money import QUANTUM
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from tests.unit.cli.served import Served

_MINUTE_US: Final = 60_000_000
# A round ends when something is typed, and one when the resource managers have obeyed.
_OBEYED_US: Final = 30_000_000
_CLUSTERS: Final = clusters(nodes=16)
_USERS: Final = (("ada", "physics"), ("bob", "chemistry"), ("eve", "weather"))
_JOBS: Final = 30
_NODES: Final = (2, 4, 6, 8, 3)
_HOURS: Final = (1.0, 2.0, 1.5, 3.0)


def requests() -> list[JobRequest]:
    """One each twelve minutes from six o'clock on; users ask for half more time than needed."""
    return [_request(index) for index in range(_JOBS)]


def _request(index: int) -> JobRequest:
    user, account = _USERS[index % len(_USERS)]
    app_id, cluster = tuple(APPS)[index % len(APPS)], _CLUSTERS[index % len(_CLUSTERS)]
    once_s = profile(app_id, cluster.node_model).time_s
    repetitions = round(_HOURS[index % len(_HOURS)] * 3600 / once_s)
    return JobRequest(
        index=index + 1,
        app_id=app_id,
        user=user,
        account=account,
        nodes=_NODES[index % len(_NODES)],
        shareable=index % 4 == 0,
        repetitions=repetitions,
        walltime_s=1.5 * repetitions * once_s,
        submit_s=6 * 3600 + index * 720,
        reference_cluster=cluster.name,
    )


class Typed(NamedTuple):
    """Lines that are typed at a minute of the day. Those of an `incident` are left out of a day
    without it."""

    minute: int
    incident: str
    lines: tuple[str, ...]

    @property
    def at_us(self) -> int:
        """When, in virtual time."""
        return EPOCH_US + self.minute * _MINUTE_US


@dataclass(frozen=True, slots=True)
class Played:
    """The results of a day: what each line printed, by minute, and what happened."""

    said: Mapping[int, Sequence[tuple[str, str]]]
    history: History


class Day:
    """Plays one day; `programs` are those that the page has its readers save, by name."""

    def __init__(self, typed: Sequence[Typed], programs: Mapping[str, str]) -> None:
        self._typed, self._programs = typed, programs
        self._said: dict[int, list[tuple[str, str]]] = {}
        self._now_us = EPOCH_US
        self._open: RoundOutput | None = None
        settings = Settings(rounds=RoundSource.BARRIERS, kafka_partitions=2)
        self._system = EmbeddedSystem(settings)
        self._emulator = Emulator(requests(), _CLUSTERS, seed=1, caps=[self._rounds_when_typed()])

    def _rounds_when_typed(self) -> PowerCapDeclared:
        """No cap at all, whose steps have rounds end when something is typed and soon after."""
        times_us = {each.at_us + later for each in self._typed for later in (0, _OBEYED_US)}
        steps = [PowerCapStep(from_us=time_us) for time_us in sorted(times_us)]
        return PowerCapDeclared(scope=POWER_SCOPE_REGION, steps=steps, declared_at_us=EPOCH_US)

    def play(self) -> Played:
        """From the learning phase of the night before to the last job's price."""
        acting: dict[int, list[Typed]] = {}
        for each in self._typed:
            acting.setdefault(each.at_us, []).append(each)
        asking = {time_us + _OBEYED_US: found for time_us, found in acting.items()}
        self._play_round(acting, asking)
        with self._served():
            while not self._emulator.finished:
                self._play_round(acting, asking)
            for self._now_us in sorted(asking):
                self._type(asking[self._now_us], acts=False)
        history = History.read(self._system.topic)
        return Played(self._said, replace(history, caps=[]))

    def _play_round(self, acting: dict[int, list[Typed]], asking: dict[int, list[Typed]]) -> None:
        """What acts is typed before a round is decided, what asks when that is done."""
        output = self._emulator.next_round()
        self._now_us, self._open = output.round.ended_at_us, output
        self._type(acting.pop(self._now_us, []), acts=True)
        self._end_round()
        self._type(asking.pop(self._now_us, []), acts=False)

    def _end_round(self) -> None:
        """End the open round: of its own, or since a command waits for what comes of it."""
        output, self._open = self._open, None
        if output is not None:
            self._system.publish(output)
            self._emulator.apply(*self._system.new_answers())

    def _type(self, found: Sequence[Typed], *, acts: bool) -> None:
        """Type the lines that act, or those that ask, of what is typed at one time."""
        for each in found:
            for line in each.lines:
                if is_act(line) == acts:
                    self._said.setdefault(each.minute, []).append((line, self._answer(line)))

    def _answer(self, line: str) -> str:
        name, *arguments = shlex.split(line)
        if name == "python":
            return self._run(arguments)
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
        if result.exit_code:
            raise RuntimeError(f"{line}: {result.output}") from result.exception
        return result.output

    def _run(self, arguments: list[str]) -> str:
        """A program of the page, as `python` would."""
        code = compile(self._programs[arguments[0]], arguments[0], "exec")
        with patch.object(sys, "argv", arguments), redirect_stdout(StringIO()) as said:
            exec(code, {"__name__": "__main__"})
        return said.getvalue()

    @contextmanager
    def _served(self) -> Iterator[None]:
        """Placement and ingest answer, the clock is that of the day, and accounts are those of the
        charges: Redis and Kafka would say the same (`test_pasted.py` compares them)."""
        server = grpc.server(ThreadPoolExecutor(1))
        server.add_generic_rpc_handlers((self._ingest_handlers(),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with (
            Served(self._system.duty) as placement,
            patch.dict(
                "os.environ",
                COPLACE_PLACEMENT_ADDRESS=placement,
                COPLACE_INGEST_ADDRESS=f"127.0.0.1:{port}",
                XDG_STATE_HOME="/nonexistent",
            ),
            patch("getpass.getuser", lambda: "olga"),
            patch("socket.gethostname", lambda: "login1"),
            patch("time.time_ns", lambda: self._now_us * 1000),
            patch("cli.accounts.balances", self._balances),
            patch("cli.billing.KafkaTopics", lambda _deployment: self._system),
        ):
            yield
        server.stop(None)

    def _ingest_handlers(self) -> grpc.GenericRpcHandler:
        """The RPCs that commands call."""
        publish = grpc.unary_unary_rpc_method_handler(
            self._publish, PublishRequest.FromString, PublishResponse.SerializeToString
        )
        show = grpc.unary_unary_rpc_method_handler(
            self._show, ShowOutcomeRequest.FromString, ShowOutcomeResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(NAME, {"Publish": publish, "ShowOutcome": show})

    def _show(
        self, request: ShowOutcomeRequest, _context: grpc.ServicerContext
    ) -> ShowOutcomeResponse:
        """Say what came of a command at the end of its round."""
        self._end_round()
        told = (event.payload for event in self._system.topic("command.outcomes"))
        of_it = [
            each
            for each in told
            if isinstance(each, CommandOutcome) and each.command_id == request.event_id
        ]
        return ShowOutcomeResponse(outcome=of_it[0] if of_it else None)

    def _publish(self, request: PublishRequest, context: grpc.ServicerContext) -> PublishResponse:
        """Take one event in: it belongs to the round that ends next."""
        try:
            self._system.ingest.take(request.event, self._now_us)
        except RejectedError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return PublishResponse()

    def _made(self) -> list[ChargeMade]:
        events = self._system.topic("prices.charges")
        return latest(e.payload for e in events if isinstance(e.payload, ChargeMade))

    def _balances(self, _deployment: object) -> dict[str, Decimal]:
        return {name: micro * QUANTUM for name, micro in sorted(fold_charges(self._made()).items())}


_ACTS: Final = ("cancel", "drain", "hold", "release", "resume", "undeclare")


def is_act(line: str) -> bool:
    """Whether a line changes something: it is typed before the round that shows it."""
    words: list[Any] = shlex.split(line)
    return words[0] == "python" or words[1] in _ACTS or words[2:3] == ["set"]


class Cost(NamedTuple):
    """The figures of a day: energy of its jobs, what they pay, how long they waited, the last
    end."""

    energy_kwh: float
    price_su: Decimal
    mean_wait_min: float
    last_end_us: int


def cost(history: History) -> Cost:
    """Of all jobs of a day."""
    done = history.finished
    waits_us = [job.started_at_us - job.submitted_at_us for job in done]
    return Cost(
        energy_kwh=sum(job.energy_j for job in done) / 3.6e6,
        price_su=sum((Decimal(c.price_su) for c in history.final_charges().values()), Decimal(0)),
        mean_wait_min=sum(waits_us) / len(done) / _MINUTE_US,
        last_end_us=max(job.ended_at_us for job in done),
    )
