"""Hostile requests to ingest's gRPC, as whoever reaches its port could send them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, Final

import grpc
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest, PublishStreamRequest
from google.protobuf.message import Message

from coplace_client.facts import PAYLOADS
from shared.catalogue.topics import load_topics
from tests.attacks.distortion import distorted, examples

_PUBLISH: Final = "/coplace.v1.IngestService/Publish"
_STREAM: Final = "/coplace.v1.IngestService/PublishStream"
_A_STREAM: Final = 500
# Calls at once; a server that pushes back makes them slower, which is no failure.
_AT_ONCE: Final = 64
_WITHIN_S: Final = 60.0
# A client that goes away, in the middle of what it asked.
_GONE_ONE_IN: Final = 50
_GONE_AFTER_S: Final = 0.002
# What grpcio's client says by itself, as INTERNAL, when it still writes to a call that was refused.
_OWN_WORDS: Final = "Internal error from Core"


class Client:
    """Draws hostile requests, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} requests")
        self._messages = [
            each for each in examples(load_topics()) if each.DESCRIPTOR.full_name in PAYLOADS
        ]

    def requests(self, count: int, kind: type[Message]) -> Iterator[bytes]:
        """So many serialised requests, most of them well-formed protobuf."""
        for number in range(count):
            wrapped = kind(event=self._envelope(number)).SerializeToString()
            yield self._torn(wrapped) if self._rng.random() < 0.1 else wrapped

    def _envelope(self, number: int) -> Envelope:
        rng = self._rng
        payload = distorted(rng.choice(self._messages), rng)
        envelope = Envelope(id=f"hostile/{number}", source="hostile", time_us=1_767_225_600_000_000)
        if rng.random() < 0.4:
            envelope.MergeFrom(self._odd(number))
        if rng.random() < 0.98:
            getattr(envelope, PAYLOADS[payload.DESCRIPTOR.full_name]).CopyFrom(payload)
        return envelope

    def _odd(self, number: int) -> Envelope:
        rng = self._rng
        return Envelope(
            id=rng.choice([f"hostile/{number}", "hostile/copy", "", "\x00", "i" * 3_000]),
            source=rng.choice(["hostile", "", "simulation", "placement", "s" * 3_000]),
            time_us=rng.choice([0, -1, 1, 1_767_225_600_000_000, 2**62, 2**63 - 1]),
            traceparent=rng.choice(["", "00-x", "0" * 5_000]),
        )

    def _torn(self, data: bytes) -> bytes:
        if self._rng.random() < 0.3:
            return self._rng.randbytes(self._rng.choice([0, 1, 50, 2_000]))
        return data[: self._rng.randrange(len(data) + 1)]


async def attack(address: str, count: int, seed: int) -> Counter[str]:
    """Send so many requests, half of them alone and half in streams; how they were answered."""
    client, answers = Client(seed), Counter[str]()
    alone = client.requests(count // 2, PublishRequest)
    streamed = list(client.requests(count - count // 2, PublishStreamRequest))
    batches = [streamed[at : at + _A_STREAM] for at in range(0, len(streamed), _A_STREAM)]
    async with grpc.aio.insecure_channel(address) as channel:
        publish: Callable[..., Any] = channel.unary_unary(_PUBLISH)
        stream: Callable[..., Any] = channel.stream_unary(_STREAM)
        await _at_once(
            (partial(publish, data, timeout=_limit_s(n)) for n, data in enumerate(alone)),
            answers,
        )
        await _at_once(
            (partial(stream, _sent(batch), timeout=_WITHIN_S) for batch in batches), answers
        )
    return answers


async def _at_once(calls: Iterator[Callable[[], Any]], answers: Counter[str]) -> None:
    async def work() -> None:
        for call in calls:
            answers[await _answer(call)] += 1

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


async def _answer(call: Callable[[], Any]) -> str:
    try:
        await call()
    except grpc.aio.AioRpcError as error:
        code = str(error.code().name)
        return f"{code} (the client's own)" if error.details() == _OWN_WORDS else code
    return "OK"


def _limit_s(number: int) -> float:
    return _GONE_AFTER_S if number % _GONE_ONE_IN == 0 else _WITHIN_S


async def _sent(batch: Sequence[bytes]) -> AsyncIterator[bytes]:
    for data in batch:
        yield data
