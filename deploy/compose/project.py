"""The containers of docker-compose.yml under a project name, started and watched in steps."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.compose.podman import Podman, PodmanError, require_success

_FILE = Path(__file__).parents[2] / "docker-compose.yml"
_POLL_S = 0.5
_LOG_LINES = 20
_DOWN = ("down", "--volumes")


class Project:
    """One project, with its demo profile; `variables` are what the file leaves open."""

    def __init__(self, podman: Podman, name: str, variables: Mapping[str, str]) -> None:
        self._podman = podman
        self._name = name
        self._environment = {**podman.environment, **variables}

    def up(self, services: Sequence[str]) -> None:
        """Start services in the background. Raises PodmanError."""
        self._compose("up", "--detach", "--no-build", *services)

    def down(self) -> None:
        """Remove the containers, their network and their volumes, whatever is there of them."""
        self._compose(*_DOWN)

    @contextmanager
    def taken_down(self) -> Iterator[None]:
        """Take everything down after the block, even when this process is killed in it."""
        # The shell waits for its standard input to end, which our death would also end.
        guard = subprocess.Popen(
            ["sh", "-c", 'read -r _; exec "$@"', "sh", *self._command(*_DOWN)],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            guard.communicate()

    def wait_until_healthy(self, services: Sequence[str], within_s: float) -> None:
        """Return when the health check of each service succeeds. Raises PodmanError."""
        deadline_s = time.monotonic() + within_s
        waiting = services
        while waiting := [name for name in waiting if not self._is_healthy(name)]:
            if time.monotonic() > deadline_s:
                raise PodmanError(f"not healthy within {within_s:g} s: {', '.join(waiting)}")
            time.sleep(_POLL_S)

    def logs(self, services: Sequence[str]) -> str:
        """The last lines of each service's log."""
        return "\n".join(
            f"--- {name}\n{self._podman.logs(self._container(name), _LOG_LINES)}"
            for name in services
        )

    def _is_healthy(self, service: str) -> bool:
        return self._podman.succeeds("healthcheck", "run", self._container(service))

    def _container(self, service: str) -> str:
        return f"{self._name}_{service}_1"

    def _compose(self, *arguments: str) -> None:
        done = subprocess.run(
            self._command(*arguments),
            env=self._environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        require_success(done)

    def _command(self, *arguments: str) -> list[str]:
        options = (f"--file={_FILE}", f"--project-name={self._name}", "--profile=demo")
        return [sys.executable, "-m", "podman_compose", *options, *arguments]
