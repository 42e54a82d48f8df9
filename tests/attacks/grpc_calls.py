"""Hostile gRPC calls to every service, as their processes serve them: `make fuzz-grpc`.

They are drawn from the descriptors of all methods, of health and of reflection: requests out of all
bounds, bytes that are no message, methods that are not there, streams that nobody reads, callers
that hang up. No call may end a process or be answered as an unknown failure, and an honest client
is answered behind them.
"""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

import grpc
import psutil
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from shared.catalogue.guards import PAYLOADS
from shared.catalogue.schemas import service_descriptors
from shared.catalogue.topics import load_topics
from shared.domain.eamc_policy import Policy
from tests.attacks.distortion import distorted, examples
from tests.unit.services.calls import served_by_process
from tests.unit.services.rest.served import Region
from tests.unit.services.watch.fake_log import FakeLog, decided
from tests.unit.services.watch.fake_log import Served as Watched
from tests.unit.shared.placement.region import T0_US, placement, round_of, submitted

_AT_ONCE: Final = 16
_MOST_GROWTH_MIB: Final = 64.0
_WITHIN_S: Final = 5.0
_STREAM_S: Final = 0.05
_JOBS: Final = ("site/p1/1", "b", "c")
_TEXTS: Final = (*_JOBS, "ada", "p1", "north", "alpha", "", "\x00", "x" * 5_000, "../..", "ü")
_NUMBERS: Final = (0, 1, 2, 50, 2**31 - 1, -1, T0_US, 2**63 - 1)
_HEADERS: Final = (
    (),
    (("authorization", "Bearer made-up"),),
    (("authorization", ""), ("authorization", "Basic x")),
    (("x" * 200, "y" * 2_000),),
    (("some-bin", b"\x00\xff" * 100),),
    (("grpc-previous-rpc-attempts", "many"), ("te", "chunked")),
)
# So the client fails where it writes to a call that the server has ended.
_OF_THE_CLIENT: Final = "Internal error from Core"
# What a method may be answered by: anything else says that it failed, and nobody knows how.
_DEFECTS: Final = (
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.ABORTED,
)


class Target(NamedTuple):
    """A method, and whether requests and answers are streams."""

    service: str
    name: str
    request: type[Message]
    streams_in: bool
    streams_out: bool


@dataclass(frozen=True)
class Call:
    """One call: its bytes, one message after another."""

    target: Target
    path: str
    messages: Sequence[bytes]
    headers: Sequence[tuple[str, str | bytes]]
    within_s: float
    hangs_up: bool


def targets() -> list[Target]:
    """Return every method of the services, and those of health and reflection."""
    own = [_target(method) for service in service_descriptors() for method in service.methods]
    of_tools = [
        _target(method)
        for file in (health_pb2, reflection_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    return own + of_tools


def _target(method: MethodDescriptor) -> Target:
    return Target(
        method.containing_service.full_name,
        method.name,
        GetMessageClass(method.input_type),
        method.client_streaming,
        method.server_streaming,
    )


class Caller:
    """Draws calls, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} grpc")
        self._targets = targets()
        every = examples(load_topics())
        self._payloads = [each for each in every if each.DESCRIPTOR.full_name in _PAYLOAD_NAMES]

    def call(self) -> Call:
        """Return the next call."""
        rng, target = self._rng, self._rng.choice(self._targets)
        path = f"/{target.service}/{target.name}"
        if rng.random() < 0.02:
            path = rng.choice([f"/{target.service}/Nope", "/nobody.Service/Call", "/", f"{path}x"])
        count = rng.choice([0, 1, 2, 20]) if target.streams_in else 1
        return Call(
            target,
            path,
            [self._message(target) for _ in range(count)],
            rng.choice(_HEADERS) if rng.random() < 0.1 else (),
            rng.choice([0.001, 0.05]) if rng.random() < 0.05 else _WITHIN_S,
            rng.random() < 0.05,
        )

    def _message(self, target: Target) -> bytes:
        rng = self._rng
        found = target.request()
        if "event" in found.DESCRIPTOR.fields_by_name and self._payloads:
            self._fill_event(found)
        else:
            self._fill(found, 4)
            if rng.random() < 0.3:
                found = distorted(found, rng) if found.DESCRIPTOR.fields else found
        data = found.SerializeToString()
        return _torn(data, rng) if rng.random() < 0.3 else data

    def _fill_event(self, request: Any) -> None:
        payload = self._rng.choice(self._payloads)
        event = request.event
        event.id = f"hostile/{self._rng.randrange(10**6)}"
        event.source, event.time_us = self._rng.choice(_TEXTS), self._rng.choice(_NUMBERS)
        changed = distorted(payload, self._rng) if self._rng.random() < 0.7 else payload
        name = _PAYLOAD_NAMES[payload.DESCRIPTOR.full_name]
        getattr(event, name).CopyFrom(changed)

    def _fill(self, message: Message, depth: int) -> None:
        rng, fields = self._rng, list[Any](message.DESCRIPTOR.fields)
        for field in fields:
            if rng.random() < 0.4:
                continue
            with suppress(ValueError, TypeError, AttributeError):
                if field.message_type is not None:
                    inner = getattr(message, field.name)
                    if depth and not field.message_type.GetOptions().map_entry:
                        self._fill(inner.add() if field.is_repeated else inner, depth - 1)
                elif field.is_repeated:
                    getattr(message, field.name).extend([self._value(field)] * rng.choice([1, 3]))
                else:
                    setattr(message, field.name, self._value(field))

    def _value(self, field: Any) -> Any:
        if field.cpp_type == field.CPPTYPE_STRING:
            text = self._rng.choice(_TEXTS)
            return text.encode() if field.type == field.TYPE_BYTES else text
        if field.cpp_type == field.CPPTYPE_BOOL:
            return self._rng.random() < 0.5
        return self._rng.choice(_NUMBERS)


_PAYLOAD_NAMES: Final[Mapping[str, str]] = {
    message.full_name: name for name, message in PAYLOADS.items()
}


def _torn(data: bytes, rng: Random) -> bytes:
    """Bytes that are no message any more, or another one."""
    at = rng.randrange(len(data) + 1)
    match rng.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + rng.randbytes(rng.choice([1, 8, 300])) + data[at:]
        case 2:
            return data + data
        case 3:
            return b"\x0a\xff\xff\xff\xff\x0f" + data
        case 4:
            return rng.randbytes(rng.choice([0, 1, 64, 5_000]))
        case _:
            flipped = bytearray(data)
            for _ in range(min(3, len(flipped))):
                flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            return bytes(flipped)


class Attack:
    """Sends calls, and keeps how they were answered."""

    def __init__(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self._addresses = addresses
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def send(self, seed: int, count: int) -> None:
        """Send so many calls, some at once."""
        caller = Caller(seed)
        calls = (caller.call() for _ in range(count))
        async with AsyncExitStack() as stack:
            channels = {
                address: await stack.enter_async_context(grpc.aio.insecure_channel(address))
                for every in self._addresses.values()
                for address in every
            }
            rng = Random(f"{seed} addresses")

            async def work() -> None:
                for call in calls:
                    address = rng.choice(self._addresses[call.target.service])
                    await self._one(channels[address], call)

            await asyncio.gather(*(work() for _ in range(_AT_ONCE)))

    async def _one(self, channel: grpc.aio.Channel, call: Call) -> None:
        code, words = grpc.StatusCode.OK, ""
        try:
            await _made(channel, call)
        except grpc.aio.AioRpcError as error:
            code, words = error.code(), error.details() or ""
            if words == _OF_THE_CLIENT:
                self.answers["not sent: the call was over"] += 1
                return
        except TimeoutError:
            code = grpc.StatusCode.CANCELLED  # nobody reads on: the caller hung up
        except (ValueError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            # The client itself sends no such header or path.
            self.answers[f"not sent: {type(error).__name__}"] += 1
            return
        except asyncio.CancelledError as error:
            # gRPC cancels the call of a stream whose headers it can't send.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            self.answers[f"not sent: {type(error).__name__}"] += 1
            return
        self.answers[code.name] += 1
        if code in _DEFECTS:
            sent = [data[:200] for data in call.messages[:2]]
            self.wrong.append(f"{call.path} {sent} {call.headers}: {code.name}: {words}")


async def _made(channel: Any, call: Call) -> None:
    """Make a call; of a stream of answers take what comes for a moment. Raises AioRpcError."""
    metadata = tuple(call.headers)
    one = call.messages[0] if call.messages else b""
    if not call.target.streams_in and not call.target.streams_out:
        asked = channel.unary_unary(call.path)(one, timeout=call.within_s, metadata=metadata)
        if call.hangs_up:
            asked.cancel()
            return
        await asked
        return
    if call.target.streams_in and not call.target.streams_out:
        sent = channel.stream_unary(call.path)
        await sent(iter(call.messages), timeout=call.within_s, metadata=metadata)
        return
    stream = (
        channel.stream_stream(call.path)(iter(call.messages), metadata=metadata)
        if call.target.streams_in
        else channel.unary_stream(call.path)(one, metadata=metadata)
    )
    try:
        async with asyncio.timeout(_STREAM_S):
            async for _ in stream:
                if call.hangs_up:
                    return
    finally:
        stream.cancel()


@asynccontextmanager
async def every_service(crashes: list[Exception]) -> AsyncIterator[dict[str, list[str]]]:
    """Serve all services as their processes do, and yield where each answers; health and
    reflection answer everywhere."""
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, *(submitted(name, T0_US + n, nodes=4) for n, name in enumerate(_JOBS)))
    region, log = Region(processor, crashes=crashes), FakeLog()
    log.append(*(decided(f"north/alpha/{number}/1") for number in range(100)))
    async with AsyncExitStack() as stack:
        watched = await stack.enter_async_context(Watched(log).running())
        handlers = {
            **region.handlers(),
            "coplace.v1.WatchService": watched.service.handlers(),
        }
        found = dict[str, list[str]]()
        for name, each in handlers.items():
            address, _ = await stack.enter_async_context(
                served_by_process(each, 256, grpc_calls_per_client=192)
            )
            found[name] = [address]
        every = [address for addresses in found.values() for address in addresses]
        found["grpc.health.v1.Health"] = found["grpc.reflection.v1alpha.ServerReflection"] = every
        yield found
        watched.service.stop()
        crashes += watched.crashes


async def play(seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Attack services of its own; return how calls were answered, and what was wrong."""
    crashes = list[Exception]()
    async with every_service(crashes) as addresses:
        attack = Attack(addresses)
        await attack.send(seed, count // 5)
        warm_mib = _resident_mib()
        await attack.send(seed + 1, count - count // 5)
        grown_mib = _resident_mib() - warm_mib
        lost = await _honest(addresses)
    wrong = [*attack.wrong, *(f"a service crashed: {error!r}" for error in crashes), *lost]
    if grown_mib > _MOST_GROWTH_MIB:
        wrong.append(f"memory grew by {grown_mib:.0f} MiB")
    print(f"memory grew by {grown_mib:.0f} MiB behind the first fifth")
    return attack.answers, wrong


async def _honest(addresses: Mapping[str, Sequence[str]]) -> list[str]:
    """Ask each service for its health; what is wrong."""
    wrong = list[str]()
    for address in addresses["grpc.health.v1.Health"]:
        async with grpc.aio.insecure_channel(address) as channel:
            check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
            answer = await check(b"", timeout=10)
            if health_pb2.HealthCheckResponse.FromString(answer).status != 1:
                wrong.append(f"{address} does not serve any more")
    return wrong


def _resident_mib() -> float:
    return float(psutil.Process().memory_info().rss) / 2**20


def main() -> None:
    """Exit with what was wrong, if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=100_000)
    options = parser.parse_args()
    began_s = time.monotonic()
    answers, wrong = asyncio.run(play(options.seed, options.records))
    seconds = time.monotonic() - began_s
    by_code = dict(answers.most_common())
    print(f"{sum(answers.values()):,} calls in {seconds:.0f} s by status: {by_code}")
    if wrong:
        raise SystemExit(f"{len(wrong)} wrong:\n" + "\n".join(wrong[:50]))


if __name__ == "__main__":
    main()
