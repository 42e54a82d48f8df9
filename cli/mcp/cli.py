"""`coplace mcp`: answers a program that speaks the Model Context Protocol over stdin and stdout."""

import asyncio
from collections.abc import Mapping

from google.protobuf.message import Message
from mcp.server.stdio import stdio_server

from cli.mcp.server import Ask, server
from cli.mcp.tools import ask
from coplace_client.channels import GrpcSettings, grpc_aio_channel
from services.rest.routes import Route
from services.rest.settings import ServiceAddresses
from shared.process.settings import settings


def mcp() -> None:
    """Answer an assistant that speaks the Model Context Protocol over stdin and stdout: tools that
    only ask, as you may."""
    asyncio.run(_serve(asking(ServiceAddresses().of_services(), settings())))


def asking(addresses: Mapping[str, str], own: GrpcSettings) -> Ask:
    """Return what asks services by their addresses, with a certificate and a token of one's own as
    their files are at each call."""

    async def asked(route: Route, arguments: object) -> Message:
        address = addresses[route.method.containing_service.full_name]
        async with grpc_aio_channel(address, own) as channel:
            return await ask(channel, route, arguments)

    return asked


async def _serve(asked: Ask) -> None:
    found = server(asked)
    async with stdio_server() as (reads, writes):
        await found.run(reads, writes, found.create_initialization_options())
