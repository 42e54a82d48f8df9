"""The containers of docker-compose.yml under a project name, started and watched in steps."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.compose.podman import Podman, PodmanError, require_success

_FILE = Path(__file__).parents[2] / "docker-compose.yml"
_POLL_S = 0.5
_LOG_LINES = 20


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
        self._compose("down", "--volumes")

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
        options = (f"--file={_FILE}", f"--project-name={self._name}", "--profile=demo")
        done = subprocess.run(
            [sys.executable, "-m", "podman_compose", *options, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        require_success(done)
