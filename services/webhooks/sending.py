"""Posts to a URL: an attempt, its limits, and where it may lead."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from coplace_client.errors import RejectedError
from services.webhooks.addresses import AddressRules, parse_address
from services.webhooks.model import DeliveryAttempt

_AGENT: Final = "coplace-webhooks/1"
_JSON: Final = "application/json"
_MOST_RETRY_AFTER_CHARACTERS: Final = 40


class Resolver(Protocol):
    """Finds the addresses of a host. Raises OSError."""

    async def resolve(self, host: str, port: int) -> list[ResolveResult]:
        """Return the addresses of a host."""
        ...


class ForbiddenAddressError(OSError):
    """A host has an address that is not connected to."""


class SystemResolver:
    """As the system has it, in threads of its own: a name whose server does not answer holds up
    nothing else."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="resolve")

    async def resolve(self, host: str, port: int) -> list[ResolveResult]:
        """Return the addresses of a host. Raises OSError."""
        loop = asyncio.get_running_loop()
        lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await loop.run_in_executor(self._threads, lookup)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=family,
                proto=proto,
                flags=socket.AI_NUMERICHOST,
            )
            for family, _, proto, _, address in found
        ]


class GuardedResolver(AbstractResolver):
    """Finds addresses that may be connected to. What it finds is what is connected to: a name that
    means something else by then leads nowhere else."""

    def __init__(self, resolver: Resolver, rules: AddressRules) -> None:
        self._resolver, self._rules = resolver, rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises ForbiddenAddressError where one of them is not
        connected to, else OSError."""
        found = await self._resolver.resolve(host, port)
        for each in found:
            if problem := self._rules.problem(host, parse_address(each["host"])):
                raise ForbiddenAddressError(problem)
        if not found:
            raise OSError(f"{host} has no address")
        return found

    async def close(self) -> None:
        """Close nothing."""


class WebhookPoster:
    """Posts bodies. Redirects are not followed, and of an answer nothing but its head is read."""

    def __init__(
        self,
        rules: AddressRules,
        timeout_s: float,
        *,
        resolver: Resolver,
        ca_file: Path | None = None,
    ) -> None:
        self._rules = rules
        self._guarded = GuardedResolver(resolver, rules)
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context()
        if ca_file:
            self._tls.load_verify_locations(ca_file)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                ssl=self._tls,
                resolver=self._guarded,
                use_dns_cache=False,
                force_close=True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def check(self, text: str) -> None:
        """Raise RejectedError for a URL that is not posted to, as its host is known now."""
        url = self._rules.parse(text)
        assert url.host
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._guarded.resolve(url.host, url.port or 0)
        except ForbiddenAddressError as error:
            raise RejectedError("url", str(error)) from None
        except (OSError, TimeoutError, UnicodeError):
            problem = f"the name {url.host!r} has no address: correct it, or register it in DNS"
            raise RejectedError("url", problem) from None

    async def post(self, text: str, body: bytes, headers: Mapping[str, str]) -> DeliveryAttempt:
        """Return what came of an attempt."""
        assert self._session is not None
        try:
            url = self._rules.parse(text)
            async with self._session.post(
                url,
                data=body,
                headers={"content-type": _JSON, "user-agent": _AGENT, **headers},
                allow_redirects=False,
            ) as answer:
                return _answered(answer)
        except RejectedError as error:
            return DeliveryAttempt(0, error.problem)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return DeliveryAttempt(0, _problem(error))


def _answered(answer: aiohttp.ClientResponse) -> DeliveryAttempt:
    status = answer.status
    answer.close()
    if 200 <= status < 300:
        return DeliveryAttempt(status)
    if 300 <= status < 400:
        return DeliveryAttempt(
            status, f"it redirects ({status}), which is not followed: register that URL"
        )
    return DeliveryAttempt(status, f"it answers {status}", _retry_after_us(answer.headers))


def _retry_after_us(headers: Mapping[str, str]) -> int:
    """Return for how long a receiver asks to wait, as seconds or as a date; 0 where it does not."""
    text = headers.get("retry-after", "").strip()[:_MOST_RETRY_AFTER_CHARACTERS]
    if text.isascii() and text.isdecimal():
        return int(text) * 1_000_000
    try:
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return max(0, round((until - now).total_seconds() * 1e6))
    except (ValueError, TypeError, OverflowError):
        return 0


# What each error means, in words of ours: a receiver has no say in them. The first that fits.
_MEANINGS: Final[tuple[tuple[tuple[type[Exception], ...], str], ...]] = (
    ((TimeoutError,), "no answer came in time"),
    (
        (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError),
        "its certificate is not valid",
    ),
    ((aiohttp.ClientConnectorDNSError,), "its name has no address"),
    ((aiohttp.ClientSSLError, ssl.SSLError), "TLS failed: does it speak https?"),
    ((aiohttp.ClientConnectorError,), "it cannot be reached"),
    ((aiohttp.ServerDisconnectedError, OSError), "it broke the connection off"),
    ((Exception,), "its answer is no HTTP"),
)


def _problem(error: Exception) -> str:
    """Return what went wrong, in words."""
    causes = _causes(error)
    forbidden = (str(each) for each in causes if isinstance(each, ForbiddenAddressError))
    words = next(words for kinds, words in _MEANINGS if isinstance(error, kinds))
    details = filter(None, (getattr(each, "verify_message", "") for each in causes))
    return next(forbidden, ": ".join([words, *details]))


def _causes(error: BaseException | None) -> list[BaseException]:
    found = list[BaseException]()
    while error is not None and error not in found:
        found.append(error)
        inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
        error = inner or error.__cause__ or error.__context__
    return found
