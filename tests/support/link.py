"""A network link that a test cuts: TCP connections through one port of loopback to another one."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from deploy.local.ports import free_ports

_CHUNK_BYTES = 65_536


class NetworkLink:
    """Carries what comes at `port` to `target` and back while it is not cut. A context."""

    def __init__(self, target: int) -> None:
        [self.port] = free_ports(1)
        self._target = target
        self._listening: socket.socket | None = None
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cut()

    def mend(self) -> None:
        """Let connections through from now on."""
        self._listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        listening, self._listening = self._listening, None
        for each in [*self._open, *([listening] if listening else [])]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it was cut
            while True:
                near, _ = listening.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # nobody is there now
                    near.close()
                    continue
                self._open |= {near, far}
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=ends, daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # either end is closed, so the other one is too
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
