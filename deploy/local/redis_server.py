"""The system's redis-server as a program, with its data on disk."""

from pathlib import Path

from deploy.local.prerequisites import require_command
from deploy.local.program import Program


def redis_program(data_dir: Path, port: int) -> Program:
    """Redis on loopback that keeps every write over a kill of its process.

    Raises PrerequisiteError if redis-server is not installed.
    """
    require_command("redis-server", "The Redis read model", "redis-server")
    data_dir.mkdir(parents=True, exist_ok=True)
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(data_dir),
        # The log of writes reaches the system before the client gets its answer; snapshots,
        # which would fork the process now and then, add nothing to it.
        "appendonly": "yes",
        # A kill of the process loses nothing that the system has, and a flush to the disk every
        # second would hold up whatever Kafka appends meanwhile.
        "appendfsync": "no",
        "save": "",
    }
    argv = [
        "redis-server",
        *(word for key, value in options.items() for word in (f"--{key}", value)),
    ]
    return Program("redis", argv, ready_url=f"redis://127.0.0.1:{port}/0")
