"""Whether the server at a URL answers. The scheme says what counts as an answer; what is to be
shown to a secure server is in files that the query names."""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

_TIMEOUT_S = 2.0


def waits_for(url: str) -> str:
    """Return what the server at `url` says that it waits for, empty once it is ready. Raises
    ValueError."""
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
    """Return whether the server at `url` answers now. Raises ValueError on an unknown scheme."""
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

    files = dict(parse_qsl(url.query))
    shown = {
        **({"ssl_ca_certs": files["ca_file"]} if "ca_file" in files else {}),
        **({"password": _password(files)} if "password_file" in files else {}),
    }
    plain = url._replace(query="").geturl()
    client = redis.Redis.from_url(plain, socket_timeout=_TIMEOUT_S, **shown)
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
        admin = KafkaAdminClient(
            bootstrap_servers=url.netloc, request_timeout_ms=2_000, **_kafka_tls(url)
        )
    except KafkaError:
        return False
    try:
        return bool(admin.describe_cluster()["brokers"])
    except KafkaError:
        return False
    finally:
        admin.close()


def _kafka_tls(url: SplitResult) -> Mapping[str, Any]:
    if url.scheme == "kafka":
        return {}
    files = dict(parse_qsl(url.query))
    context = ssl.create_default_context(cafile=files["ca_file"])
    context.load_cert_chain(files["cert_file"], files["key_file"])
    return {"security_protocol": "SSL", "ssl_context": context}


def _password(files: Mapping[str, str]) -> str:
    return Path(files["password_file"]).read_text().strip()


_PROBES: dict[str, Callable[[SplitResult], bool]] = {
    "http": _http_ready,
    "tcp": _tcp_ready,
    "redis": _redis_ready,
    "rediss": _redis_ready,
    "kafka": _kafka_ready,
    "kafka+ssl": _kafka_ready,
}
