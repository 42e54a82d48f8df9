"""Podman with images and containers of the project's own.

A replacement of an image here carries that image's name; in a storage of its own nobody else
ever takes it for the real one.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

# Containers need these where raising limits is forbidden and cgroups are of the first version.
_CAUTIOUS_ENGINE = """\
[containers]
default_ulimits = ["nofile=10000:10000", "nproc=10000:10000"]
[engine]
runtime = "runc"
"""
_SHOWN_CHARACTERS = 4_000


class PodmanError(Exception):
    """Podman could not do what was asked."""


def require_success(done: subprocess.CompletedProcess[str]) -> None:
    """Raise PodmanError with the end of what a command said, unless it ended well."""
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-_SHOWN_CHARACTERS:]
        raise PodmanError(f"{shlex.join(done.args)} failed:\n{said}")


class Podman:
    """Runs podman on the storage in `home`; `run_dir` holds what does not outlive a reboot. With
    `within_s` a call that takes longer is stopped, and fails."""

    def __init__(self, home: Path, run_dir: Path, within_s: float | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        storage = home / "storage.conf"
        storage.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{home}/graph"\nrunroot = "{run_dir}"\n'
        )
        self._engine = home / "containers.conf"
        self._within_s = within_s
        self._own = {
            "CONTAINERS_STORAGE_CONF": str(storage),
            # Timers of health checks need systemd; whoever waits here runs the checks himself.
            "DISABLE_HC_SYSTEMD": "true",
        }

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment for programs that call podman themselves."""
        return {**os.environ, **self._own}

    def call(self, *arguments: str) -> str:
        """Return what `podman ARGUMENTS` prints. Raises PodmanError with what it complained
        about."""
        done = self._run(arguments)
        require_success(done)
        return done.stdout.strip()

    def logs(self, container: str, lines: int) -> str:
        """Return the end of what a container wrote; what podman says when there is no such
        container."""
        done = self._run(("logs", f"--tail={lines}", container))
        return done.stdout + done.stderr

    def succeeds(self, *arguments: str) -> bool:
        """Return whether `podman ARGUMENTS` ends with exit status 0."""
        return self._run(arguments).returncode == 0

    def remove_leftovers(self) -> None:
        """Remove what a build that was killed was at: its images could not be removed."""
        for container in self.call("ps", "--all", "--external", "--quiet").split():
            self.call("rm", "--force", container)

    def make_usable(self, image: str) -> None:
        """Find settings under which a container of `image` starts; the machine's own come first.

        Raises PodmanError when none does.
        """
        example = ("run", "--rm", "--network", "none", image, "true")
        if self.succeeds(*example):
            return
        self._engine.write_text(_CAUTIOUS_ENGINE)
        self._own["CONTAINERS_CONF"] = str(self._engine)
        self.call(*example)

    def _run(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["podman", *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=self._within_s,
            )
        except subprocess.TimeoutExpired as error:
            raise PodmanError(
                f"podman {shlex.join(arguments)} did not end within {self._within_s:g} s"
            ) from error
