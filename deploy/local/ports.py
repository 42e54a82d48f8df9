"""Free TCP ports of the loopback interface."""

import random
import socket
from pathlib import Path

_FIRST_PORT = 10_000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """`count` different ports that nothing listens on, below the range of outgoing connections.

    Inside that range the port of a server that is being restarted could be taken meanwhile by any
    outgoing connection, even by a client's own attempt to reach that very port.
    """
    candidates = range(_FIRST_PORT, _first_ephemeral_port())
    shuffled = random.SystemRandom().sample(candidates, len(candidates))
    found = (port for port in shuffled if _is_free(port))
    return [next(found) for _ in range(count)]


def _first_ephemeral_port() -> int:
    return int(_RANGE_FILE.read_text().split()[0]) if _RANGE_FILE.exists() else 32_768


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
