"""Free TCP ports of the loopback interface."""

import fcntl
import json
import os
import random
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import TextIO

from coplace_client.files import write_whole

_FIRST_PORT = 10_000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Until a server listens on its port at the latest: nobody else is given that before.
_STARTED_S = 120.0


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that nothing listens on, below the range of outgoing
    connections, which no other process of this user was given within two minutes.

    Inside that range the port of a server that is being restarted could be taken meanwhile by any
    outgoing connection, even by a client's own attempt to reach that very port.
    """
    candidates = range(_FIRST_PORT, _first_ephemeral_port())
    shuffled = random.SystemRandom().sample(candidates, len(candidates))
    with _given() as given:
        found = (port for port in shuffled if f"{port}" not in given and _is_free(port))
        ports = [next(found) for _ in range(count)]
        given.update(dict.fromkeys(map(str, ports), time.time()))
    return ports


def fresh_ports(names: Sequence[str]) -> Mapping[str, int]:
    """Return a free port for each name."""
    return dict(zip(names, free_ports(len(names)), strict=True))


def kept_ports(file: Path, names: Sequence[str]) -> Mapping[str, int]:
    """Return a free port for each name: the one that `file` remembers, or, where there is none or
    another program has it now, a new one, which `file` remembers from now on."""
    earlier = remembered_ports(file)
    kept = {name: earlier[name] for name in names if name in earlier and _is_free(earlier[name])}
    found = {**fresh_ports([name for name in names if name not in kept]), **kept}
    with write_whole(file) as fresh:
        fresh.write_text(json.dumps({**earlier, **found}, indent=2) + "\n")
    return found


def remembered_ports(file: Path) -> Mapping[str, int]:
    """Return the ports that `kept_ports` chose last, by name; none if it chose none yet."""
    return json.loads(file.read_text()) if file.exists() else {}


@contextmanager
def _given() -> Iterator[dict[str, float]]:
    """When which ports were given to servers that may not listen yet, while nobody else chooses."""
    path, flags = Path(gettempdir()) / f"coplace-ports-{os.getuid()}.json", os.O_RDWR | os.O_CREAT
    with os.fdopen(os.open(path, flags | os.O_NOFOLLOW, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        now_s = time.time()
        given = {p: at_s for p, at_s in _read(file).items() if abs(now_s - at_s) < _STARTED_S}
        yield given
        file.seek(0)
        file.truncate()
        json.dump(given, file)


def _read(file: TextIO) -> dict[str, float]:
    """Return its content; nothing where its last writer was killed as it wrote."""
    try:
        found: dict[str, float] = json.load(file)
    except ValueError:
        return {}
    return found


def _first_ephemeral_port() -> int:
    return int(_RANGE_FILE.read_text().split()[0]) if _RANGE_FILE.exists() else 32_768


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections of one that has just ended do not keep its port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
