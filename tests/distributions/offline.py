"""`without-network.sh python -m tests.distributions.offline ARCHIVE`: uses the archive for a site
without internet as its page says, where there is no network. With `--small` it installs no extra,
and starts one service of each image."""

import argparse
import errno
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from deploy.compose.images import OF_THE_CHART, image_of
from deploy.compose.podman import Podman, require_success
from tests.support.snippets import HOW_TO, REPOSITORY, blocks

_PAGE: Final = HOW_TO / "offline.md"
_WITHIN_S: Final = 180
_PAUSE_S: Final = 0.2
_LINES: Final = 1_000
# Each longer than all of it on a busy machine: what hangs is named, and ends.
_INSTALLED_WITHIN_S: Final = 400
_PODMAN_WITHIN_S: Final = 300.0
# As timeout(1) says it.
_TIMED_OUT: Final = 124
# Another line of the page in the small form: what it needs is installed without an extra.
# What a service needs to be up at all.
_NEEDED: Final = {
    "services.slurm": (
        "COPLACE_SLURM_SITE=north",
        "COPLACE_SLURM_CLUSTERS_FILE=/opt/coplace/deploy/slurm/clusters.yaml",
    )
}
_SMALL: Final = {
    "'coplace[lab]'": "coplace",
    "coplace demo --jobs 20 --out out": "coplace asyncapi --out out",
}
# As the compose file restricts our containers. Nothing answers at that address. The first process
# of a container ignores signals: so its time is limited.
_RESTRICTED: Final = (
    f"--timeout={_WITHIN_S + 30}",
    *("--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=all"),
    *("--security-opt=no-new-privileges", "--env=COPLACE_KAFKA_BOOTSTRAP=127.0.0.1:1"),
)


def main() -> None:
    """Install from the archive, and start each service of its images. Exits with what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    if _has_network():
        sys.exit("there is a network here: call it by tests/distributions/without-network.sh")
    archive = asked.archive.absolute()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        folder = Path(scratch)
        typed = [block.text for block in blocks(_PAGE)]
        install = next(text for text in typed if "tar -xf" in text)
        _paste(_small(install) if asked.small else install, folder, archive)
        _tell(f"installed from wheels, ran a command: {time.monotonic() - began_s:.1f} s")
        if (folder / "coplace" / "images").exists():
            [load] = next(text for text in typed if "podman load" in text).splitlines()[:1]
            _use_images(folder, load.split()[1:], is_small=asked.small)
            _tell(f"each image loaded, services started: {time.monotonic() - began_s:.1f} s")


def _small(install: str) -> str:
    for line, other in _SMALL.items():
        assert line in install, line
        install = install.replace(line, other)
    return install


def _use_images(folder: Path, load: Sequence[str], *, is_small: bool) -> None:
    *options, file = load
    podman = Podman(folder / "containers", folder / "podman", _PODMAN_WITHIN_S)
    try:
        podman.call(*options, str(folder / "coplace" / file))
        podman.make_usable(image_of(OF_THE_CHART[0]))
        for image in () if is_small else map(image_of, OF_THE_CHART):
            version = podman.call("run", "--rm", *_RESTRICTED, image, "coplace", "--version")
            _tell(f"{image}: {version}")
        for image, command in _first_of_each() if is_small else _services():
            _require_it_starts(podman, image, command)
    finally:
        # Not `system reset`, which forgets the containers of other storages too.
        podman.call("rmi", "--all", "--force")


def _first_of_each() -> Iterator[tuple[str, Sequence[str]]]:
    """Yield one service of each image."""
    seen = set[str]()
    for image, command in _services():
        if image not in seen:
            seen.add(image)
            yield image, command


def _services() -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each of our services, as the compose file and the chart start them."""
    file = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
    for service in file["services"].values():
        if service["image"].startswith("localhost/") and service["command"][0] == "python":
            yield service["image"], service["command"]
    yield image_of("kubernetes"), ("python", "-m", "services.kubernetes")
    yield image_of("kubernetes"), ("python", "-m", "services.kueue")


def _require_it_starts(podman: Podman, image: str, command: Sequence[str]) -> None:
    """Without Kafka a service is up, and says what it waits for. Its log is read, since what a
    container prints before podman is attached to it never comes there."""
    name = command[-1].replace(".", "-")
    needed = [f"--env={each}" for each in _NEEDED.get(command[-1], ())]
    podman.call("run", "--detach", f"--name={name}", *_RESTRICTED, *needed, image, *command)
    until_s = time.monotonic() + _WITHIN_S
    said = ""
    while not ("serving health" in said or "waiting_for" in said):
        if time.monotonic() > until_s:
            sys.exit(f"{command[-1]} of {image} was not up within {_WITHIN_S} s:\n{said}")
        time.sleep(_PAUSE_S)
        said = podman.logs(name, _LINES)
    _tell(f"{image}: {command[-1]} is up")
    podman.call("rm", "--force", "--time=0", name)


def _paste(text: str, folder: Path, archive: Path) -> None:
    (folder / archive.name).symlink_to(archive)
    done = subprocess.run(
        ["timeout", "--kill-after=5", str(_INSTALLED_WITHIN_S), "bash", "-euxc", text],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            # Bytecode of a library would be made once, for one command.
            "PIP_NO_COMPILE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == _TIMED_OUT:
        said = done.stderr.strip().splitlines()[-1:]
        sys.exit(f"the lines of {_PAGE.name} took over {_INSTALLED_WITHIN_S} s, the last: {said}")
    require_success(done)
    left = {path.name for path in (folder / "coplace" / "out").iterdir()}
    if not left & {"charges.jsonl", "asyncapi.yaml"}:
        sys.exit(f"the last of the lines of {_PAGE.name} left no charges: {sorted(left)}")


def _has_network() -> bool:
    """Return whether there is a way to an address that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        return tried.connect_ex(("192.0.2.1", 80)) != errno.ENETUNREACH


def _tell(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
