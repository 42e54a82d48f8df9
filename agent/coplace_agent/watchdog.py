"""Continues what an agent paused and can no longer continue itself. A process of its own.

It knows of each pause before the agent makes it: the agent sends what it is about to pause, and
waits for the answer. When the agent ends, however it ends, its side of the socket closes, and all
that was last reported is continued. So it is when a pause lasts too long: an agent that hangs holds
no job either. What is paused is also kept in a file, for the case that both are killed at once: the
next watchdog on that file, or `coplace-agent release`, continues it.

The standard library alone, so that it is up within some 20 ms: it runs as a script.
"""

import errno
import fcntl
import json
import os
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

# A process as (PROCESS, pid, when it started), a control group as (CGROUP, path, 0).
Target = tuple[str, int | str, int]

PROCESS: Final = "process"
CGROUP: Final = "cgroup"
ANSWER: Final = b"+"
MOST_MESSAGE_BYTES: Final = 1 << 20
# What says that a process or a control group has ended, or was replaced by another.
_GONE: Final = (ProcessLookupError, FileNotFoundError)


def started_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since the machine did: with its id, its name
    for ever.

    Raises FileNotFoundError or ProcessLookupError for one that has ended.
    """
    return int(stat_fields(pid)[19])


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on, which is behind a name that may hold
    anything.

    Raises FileNotFoundError or ProcessLookupError for a process that has ended.
    """
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(file, 4096).rpartition(b")")[2].split()
    finally:
        os.close(file)


def resume(targets: Iterable[Target]) -> None:
    """Continue what still exists of the targets; to what runs already it does nothing.

    Raises the first OSError by which one could not be continued, once all others are.
    """
    failures = []
    for kind, name, started in targets:
        try:
            if kind == CGROUP:
                write_freeze(str(name), "0")
            else:
                signal_process(int(name), started, signal.SIGCONT)
        except _GONE:
            continue
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def write_freeze(path: str, value: str) -> None:
    """Freeze a control group of version 2 ("1") or thaw it ("0"). Raises OSError."""
    file = os.open(os.path.join(path, "cgroup.freeze"), os.O_WRONLY)  # noqa: PTH118
    try:
        os.write(file, value.encode())
    except OSError as error:
        if error.errno != errno.ENODEV:  # the group was removed meanwhile
            raise
    finally:
        os.close(file)


def signal_process(pid: int, started: int, wanted: signal.Signals) -> None:
    """Signal the process of this id and start, and none that has taken the id since.

    Raises ProcessLookupError or FileNotFoundError when it has ended, PermissionError.
    """
    handle = os.pidfd_open(pid)
    try:
        # Behind the handle no other process can take the id.
        if started_ticks(pid) == started:
            signal.pidfd_send_signal(handle, wanted)
    finally:
        os.close(handle)


def release(file: IO[bytes]) -> None:
    """Continue all that the file names, and empty it."""
    file.seek(0)
    for line in file:
        if line.endswith(b"\n"):  # otherwise its writer was killed before it answered
            resume(json.loads(line))
    file.truncate(0)


def watch(agent: socket.socket, file: IO[bytes], most_pause_s: float) -> None:
    """Follow what the agent pauses, until it has ended; then continue what it left."""
    paused: Sequence[Target] = ()
    while True:
        agent.settimeout(most_pause_s if paused else None)
        try:
            message = agent.recv(MOST_MESSAGE_BYTES)
        except TimeoutError:
            resume(paused)
            continue
        except (
            ConnectionResetError
        ):  # it ended with an answer unread: what it sent is still to come
            continue
        if not message:
            break
        paused = json.loads(message)
        if paused:
            # Behind what is there: a line that is cut short takes no other with it.
            file.write(message + b"\n")
            file.flush()
            with suppress(BrokenPipeError):
                agent.send(ANSWER)
        else:
            file.truncate(0)
    resume(paused)
    file.truncate(0)


def main() -> None:
    """Run `watchdog.py FILE MOST_PAUSE_S`, with the socket to the agent as standard input."""
    # Whoever ends both politely, as a terminal or systemd does, ends the agent; this follows it.
    for asked in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(asked, signal.SIG_IGN)
    path, most_pause_s = sys.argv[1], float(sys.argv[2])
    agent = socket.socket(fileno=os.dup(0))
    with Path(path).open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until the watchdog of the agent before has done its work
        release(file)
        with suppress(BrokenPipeError):
            agent.send(ANSWER)
        watch(agent, file, most_pause_s)


if __name__ == "__main__":
    main()
