"""Whether a server answers, told by a URL. The scheme says what counts as an answer."""

import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import SplitResult, urlsplit

_TIMEOUT_S = 2.0


def waits_for(url: str) -> str:
    """What is at `url` says that it waits for, empty once it is ready. Raises ValueError."""
    if is_ready(url):
        return ""
    return _said(url) if urlsplit(url).scheme == "http" else "an answer"


def _said(url: str) -> str:
    try:
        urllib.request.urlopen(url, timeout=_TIMEOUT_S).close()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.read().decode(errors="replace").strip().removeprefix("waiting for ")
    except OSError:
        return "an answer"
    return ""


def is_ready(url: str) -> bool:
    """True if what is at `url` answers now. Raises ValueError on an unknown scheme."""
    parts = urlsplit(url)
    if parts.scheme not in _PROBES:
        raise ValueError(f"{url}: its scheme must be one of {', '.join(sorted(_PROBES))}")
    return _PROBES[parts.scheme](parts)


def _http_ready(url: SplitResult) -> bool:
    try:
        with urllib.request.urlopen(url.geturl(), timeout=_TIMEOUT_S) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _tcp_ready(url: SplitResult) -> bool:
    try:
        with socket.create_connection((url.hostname or "", url.port or 0), _TIMEOUT_S):
            return True
    except OSError:
        return False


def _redis_ready(url: SplitResult) -> bool:
    """False too while it loads its data, which it says over an open port."""
    import redis

    client = redis.Redis.from_url(url.geturl(), socket_timeout=_TIMEOUT_S)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def _kafka_ready(url: SplitResult) -> bool:
    """False too while the port is open and no broker is registered yet."""
    if not _tcp_ready(url):
        return False
    # Clients of servers are imported where one is to be asked: that takes a third of a second each.
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    try:
        admin = KafkaAdminClient(bootstrap_servers=url.netloc, request_timeout_ms=2_000)
    except KafkaError:
        return False
    try:
        return bool(admin.describe_cluster()["brokers"])
    except KafkaError:
        return False
    finally:
        admin.close()


_PROBES: dict[str, Callable[[SplitResult], bool]] = {
    "http": _http_ready,
    "tcp": _tcp_ready,
    "redis": _redis_ready,
    "kafka": _kafka_ready,
}
