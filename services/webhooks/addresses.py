"""Which URLs are posted to. Pure.

Whoever registers a URL has this process connect to it from within the operator's network. So what
is not public is refused, unless the operator lists it, by what the URL says and by what its name
means when the connection begins.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from yarl import URL

from coplace_client.errors import RejectedError

Address = IPv4Address | IPv6Address
_LONGEST: Final = 2_048
# Its last 32 bits are an address of IPv4 (RFC 6052).
_NAT64: Final = IPv6Network("64:ff9b::/96")


class AddressRules:
    """What the operator allows beside public addresses by https. Raises RejectedError for what is
    neither a name of a host nor a network."""

    def __init__(self, allowed: Iterable[str] = (), *, with_http: bool = False) -> None:
        self._with_http = with_http
        self._hosts: set[str] = set()
        self._networks = []
        for each in allowed:
            try:
                self._networks.append(ip_network(each))
            except ValueError:
                self._hosts.add(_host(each))

    def parse(self, text: str) -> URL:
        """Return a URL that may be posted to, as far as it says itself. Raises RejectedError."""
        url = self._of_receiver(text)
        assert url.host
        try:
            found = ip_address(url.host)
        except ValueError:
            if set(url.host) <= set("0123456789."):
                problem = f"must name a host or an address in full, got {url.host!r}"
                raise _wrong(problem) from None
            return url
        if problem := self.problem(url.host, found):
            raise _wrong(problem)
        return url

    def _of_receiver(self, text: str) -> URL:
        """Return a URL with nothing in it but where to post. Raises RejectedError."""
        url, schemes = _parsed(text), ("https", "http") if self._with_http else ("https",)
        if url.scheme not in schemes or not url.host or not url.port:
            raise _wrong(f"must begin with {' or '.join(schemes)}:// and a host")
        if url.raw_user is not None or url.raw_password is not None:
            raise _wrong("must have no user and no password: who posts is known by the signature")
        if url.raw_fragment:
            raise _wrong("must have no fragment (#): nothing of it would be sent")
        return url

    def problem(self, host: str, address: Address) -> str:
        """Return why an address that a host has is not connected to; empty where it may be."""
        if host.rstrip(".").lower() in self._hosts or _is_public(address):
            return ""
        if any(address in network for network in self._networks):
            return ""
        return (
            f"{host} is {address}, which is no public address: an operator may list it in "
            "COPLACE_WEBHOOKS_ALLOWED"
        )


def _parsed(text: str) -> URL:
    if not text or len(text) > _LONGEST or not (text.isascii() and text.isprintable()):
        raise _wrong(f"must be 1 to {_LONGEST} printable characters of ASCII")
    try:
        url = URL(text)
        _ = url.host, url.port
    except ValueError:
        raise _wrong(f"is not a URL: {text[:80]!r}") from None
    return url


def parse_address(text: str) -> Address:
    """Return an address as the resolver has it, without the zone. Raises ValueError."""
    return ip_address(text.partition("%")[0])


def _is_public(address: Address) -> bool:
    within = _within(address)
    if within is not None:
        return _is_public(within)
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _within(address: Address) -> IPv4Address | None:
    """Return the address of IPv4 that one of IPv6 leads to, if it does."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour


def _host(text: str) -> str:
    name = text.strip().rstrip(".").lower()
    if not name or not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._"):
        raise RejectedError("allowed", f"must be names of hosts and networks, got {text[:80]!r}")
    return name


def _wrong(problem: str) -> RejectedError:
    return RejectedError("url", problem)
