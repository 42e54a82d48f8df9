"""`unshare --net python -m tests.distributions.offline ARCHIVE`: uses the archive for a site
without internet as its page says, where there is no network."""

import errno
import os
import shutil
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
_WITHIN_S: Final = 60.0
# As the compose file restricts our containers. Nothing answers at that address.
_RESTRICTED: Final = (
    *("run", "--rm", "--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=all"),
    *("--security-opt=no-new-privileges", "--env=COPLACE_KAFKA_BOOTSTRAP=127.0.0.1:1"),
)


def main() -> None:
    """Install from the archive, and start each service of its images. Exits with what failed."""
    if _has_network():
        sys.exit("there is a network here: call it by `unshare --net`")
    archive = Path(sys.argv[1]).absolute()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        folder = Path(scratch)
        typed = [block.text for block in blocks(_PAGE)]
        _paste(next(text for text in typed if "tar -xf" in text), folder, archive)
        _tell(f"installed from wheels, played the demo: {time.monotonic() - began_s:.1f} s")
        if (folder / "coplace" / "images").exists():
            [load] = next(text for text in typed if "podman load" in text).splitlines()[:1]
            _use_images(folder, load.split()[1:])
            _tell(f"each image loaded, each service started: {time.monotonic() - began_s:.1f} s")


def _use_images(folder: Path, load: Sequence[str]) -> None:
    *options, file = load
    podman = Podman(folder / "containers", folder / "podman")
    try:
        podman.call(*options, str(folder / "coplace" / file))
        for extra in OF_THE_CHART:
            image = image_of(extra)
            podman.make_usable(image)
            version = podman.call(*_RESTRICTED, image, "coplace", "--version")
            _tell(f"{image}: {version}")
        for image, command in _services():
            _require_it_starts(podman, image, command)
    finally:
        # Not `system reset`, which forgets the containers of other storages too.
        podman.call("rmi", "--all", "--force")


def _services() -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each of our services, as the compose file and the chart start them."""
    file = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
    for service in file["services"].values():
        if service["image"].startswith("localhost/") and service["command"][0] == "python":
            yield service["image"], service["command"]
    yield image_of("kubernetes"), ("python", "-m", "services.kubernetes")


def _require_it_starts(podman: Podman, image: str, command: Sequence[str]) -> None:
    """Without Kafka a service is up, and says what it waits for."""
    name = command[-1].replace(".", "-")
    call = ["podman", *_RESTRICTED, f"--name={name}", image, *command]
    said = ""
    with subprocess.Popen(
        ["timeout", str(_WITHIN_S), *call],
        env=podman.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if "serving health" in line or "waiting_for" in line:
                _tell(f"{image}: {command[-1]} is up")
                podman.call("kill", name)
                return
    sys.exit(f"{command[-1]} of {image} ended:\n{said}")


def _paste(text: str, folder: Path, archive: Path) -> None:
    (folder / archive.name).symlink_to(archive)
    done = subprocess.run(
        ["bash", "-euc", text],
        cwd=folder,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    require_success(done)
    if not (folder / "coplace" / "out" / "charges.jsonl").exists():
        sys.exit("the demo left no charges")
    shutil.rmtree(folder / "coplace" / "region")


def _has_network() -> bool:
    """Return whether there is a way to an address that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        return tried.connect_ex(("192.0.2.1", 80)) != errno.ENETUNREACH


def _tell(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
