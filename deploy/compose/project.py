"""The containers of the compose files under a project name, started and watched in steps."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.compose.podman import Podman, PodmanError, require_success

_ROOT = Path(__file__).parents[2]
_FILE = _ROOT / "docker-compose.yml"
# Goes over the other one.
_SECURE_FILE = _ROOT / "docker-compose.secure.yml"
_POLL_S = 0.5
_LOG_LINES = 20
_DOWN = ("down", "--volumes")


class Project:
    """One project, with the profiles of the demo and of what is asked after it; `variables` are
    what the files leave open."""

    def __init__(
        self, podman: Podman, name: str, variables: Mapping[str, str], *, secure: bool
    ) -> None:
        self._podman = podman
        self._name = name
        self._files = (_FILE, *((_SECURE_FILE,) if secure else ()))
        self._environment = {**podman.environment, **variables}

    def up(self, services: Sequence[str]) -> None:
        """Start services in the background, and none that they depend on. Raises PodmanError."""
        self._compose("up", "--detach", "--no-build", "--no-deps", *services)

    def run(self, service: str) -> None:
        """Start a service and wait for its end. Raises PodmanError where that is not a good one."""
        self.up([service])
        if (status := self._podman.call("wait", self._container(service))) != "0":
            raise PodmanError(f"{service} ended with status {status}")

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
        """Return the last lines of each service's log."""
        return "\n".join(
            f"--- {name}\n{self._podman.logs(self._container(name), _LOG_LINES)}"
            for name in services
        )

    def copy_out(self, service: str, path: str, folder: Path) -> None:
        """Copy a file or folder of a service's container into a folder. Raises PodmanError."""
        self._podman.call("cp", f"{self._container(service)}:{path}", str(folder))

    def described(self, services: Sequence[str]) -> str:
        """Return all that podman shows of each service's container: its environment and command,
        and the processes in it."""
        names = [self._container(service) for service in services]
        running = [self._podman.call("top", name, "args") for name in names]
        return "\n".join([self._podman.call("inspect", *names), *running])

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
        files = [f"--file={file}" for file in self._files]
        names = ("demo", "rest", "archive", "history", "webhooks")
        profiles = (f"--profile={name}" for name in names)
        options = (*files, f"--project-name={self._name}", *profiles)
        return [sys.executable, "-m", "podman_compose", *options, *arguments]
