"""Calls of the services over gRPC, in the name of who asks."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from coplace_client.channels import grpc_channel_credentials

# Answers are as large as services make them, which bound each of them.
_OPTIONS: Final = (("grpc.max_receive_message_length", -1),)


@dataclass(frozen=True, slots=True)
class Nameless:
    """A side of a connection that shows nothing of itself: a certificate of ours beside the token
    of who asks would have services answer us in place of them."""

    grpc_ca_file: Path | None
    grpc_cert_file: None = None
    grpc_key_file: None = None
    grpc_token_file: None = None


class Services:
    """Channels to the services, each opened when it is first needed, and anew where the file of
    the authority that signs their certificates was replaced."""

    def __init__(
        self, addresses: Mapping[str, str], authority: Path | None, answered_within_s: float
    ) -> None:
        self._addresses = addresses
        self._authority = authority
        self._within_s = answered_within_s
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._read_at = 0

    async def call(self, method: MethodDescriptor, request: Message, token: str) -> Message:
        """Return what a service answers to the holder of this token, which is shown over TLS alone.
        Raises AioRpcError."""
        channel = await self._channel(method)
        shown = self._shown(token)
        return await answer_of(channel, method, request, timeout=self._within_s, metadata=shown)

    async def stream(
        self, method: MethodDescriptor, request: Message, token: str
    ) -> AsyncGenerator[Message, None]:
        """Yield what a service answers one after another, without end. Raises AioRpcError."""
        channel = await self._channel(method)
        async with aclosing(
            answers_of(channel, method, request, metadata=self._shown(token))
        ) as answers:
            async for answer in answers:
                yield answer

    def _shown(self, token: str) -> Sequence[tuple[str, str]]:
        return (("authorization", f"Bearer {token}"),) if token and self._authority else ()

    async def close(self) -> None:
        """Close all channels."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _channel(self, method: MethodDescriptor) -> grpc.aio.Channel:
        address = self._addresses[method.containing_service.full_name]
        read_at = self._authority.stat().st_mtime_ns if self._authority else 0
        if read_at != self._read_at:
            await self.close()
            self._read_at = read_at
        if address not in self._channels:
            self._channels[address] = self._open(address)
        return self._channels[address]

    def _open(self, address: str) -> grpc.aio.Channel:
        credentials = grpc_channel_credentials(Nameless(self._authority))
        if credentials is None:
            return grpc.aio.insecure_channel(address, options=_OPTIONS)
        return grpc.aio.secure_channel(address, credentials, options=_OPTIONS)


async def answer_of(
    channel: grpc.aio.Channel, method: MethodDescriptor, request: Message, **how: Any
) -> Message:
    """Return what a method answers over a channel; `how` is gRPC's. Raises AioRpcError."""
    answer: Message = await channel.unary_unary(*_called(method))(request, **how)
    return answer


async def answers_of(
    channel: grpc.aio.Channel, method: MethodDescriptor, request: Message, **how: Any
) -> AsyncGenerator[Message, None]:
    """Yield what a method answers one after another, as `answer_of` does one."""
    call: Any = channel.unary_stream(*_called(method))(request, **how)
    try:
        async for answer in call:
            yield answer
    finally:
        call.cancel()


def _called(method: MethodDescriptor) -> tuple[Any, Any, Any]:
    """Return the path of a method, and how its messages are written and read."""
    return (
        f"/{method.containing_service.full_name}/{method.name}",
        GetMessageClass(method.input_type).SerializeToString,
        GetMessageClass(method.output_type).FromString,
    )
