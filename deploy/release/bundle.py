"""One archive for a site without internet: wheels, images, chart, and what images of others it
needs."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from deploy.cache import cache_dir
from deploy.compose.images import KAFKA, OF_THE_CHART, REDIS, image_of, provide_images
from deploy.compose.podman import Podman
from deploy.release.dist import CONSTRAINTS, EXTRAS, wanted
from deploy.release.tools import ROOT, pack, run, write_checksums

_LICENCE: Final = Path("/usr/share/common-licenses/Apache-2.0")
_IMAGE: Final = re.compile(
    r"^\s*(?:image|repository): [\"']?([\w./-]+\.\w+/[\w./:-]+)", re.MULTILINE
)
_README: Final = """\
Coplace for a site without internet
===================================

    sha256sum --check SHA256SUMS
    python3 -m venv coplace
    coplace/bin/pip install --no-index --find-links wheels 'coplace[lab]'
    podman load --input images/coplace.tar
    helm install region chart/coplace-*.tgz --values YOUR_VALUES

foreign-images.txt names the images of others that the chart and the compose file start. Fetch each
where there is internet, write its digest beside it, and push it to the registry of the site.

Coplace is under the Apache License 2.0: Apache-2.0.txt has its text.
"""


def build_bundle(
    dist: Path,
    archive: Path,
    tell: Callable[[str], None],
    save_images: Callable[[Path, Path], None] | None,
    extras: Sequence[str] = EXTRAS,
) -> None:
    """Write the archive out of a folder of wheels, and with images where there is what saves them
    into a file, with a folder to work in. It has what the services need with these extras. Raises
    CalledProcessError and PodmanError."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        folder = Path(scratch) / "coplace"
        folder.mkdir()
        tell("collecting wheels")
        _collect_wheels(dist, folder / "wheels", extras)
        _pack_chart(folder / "chart")
        if save_images:
            (folder / "images").mkdir()
            save_images(folder / "images" / "coplace.tar", Path(scratch) / "podman")
        images = "".join(f"{image} sha256:\n" for image in sorted({*foreign_images()}))
        (folder / "foreign-images.txt").write_text(images, encoding="utf-8")
        (folder / "README.txt").write_text(_README, encoding="utf-8")
        shutil.copy(_LICENCE, folder / "Apache-2.0.txt")
        write_checksums(folder)
        tell(f"writing {archive}")
        pack(archive, Path(scratch), ["coplace"])


def foreign_images() -> Iterator[str]:
    """Yield the images of others that the chart and the compose file start."""
    yield from (KAFKA, REDIS)
    for file in (ROOT / "helm/coplace/values.yaml", ROOT / "docker-compose.yml"):
        for image in _IMAGE.findall(file.read_text(encoding="utf-8")):
            if "coplace" not in image:
                yield image


def _collect_wheels(dist: Path, folder: Path, extras: Sequence[str]) -> None:
    """Wheels of all that an installation brings, for this version of Python and kind of machine."""
    shutil.copytree(dist, folder)
    ours = (wanted("coplace", dist, extras), wanted("coplace-agent", dist))
    locked = ("--constraint", dist / CONSTRAINTS, "--find-links", dist, "--only-binary", ":all:")
    run("python", "-m", "pip", "download", "--quiet", *locked, "--dest", folder, *ours)


def _pack_chart(folder: Path) -> None:
    """As `helm package` does, which this machine need not have."""
    folder.mkdir()
    described = yaml.safe_load((ROOT / "helm/coplace/Chart.yaml").read_text(encoding="utf-8"))
    pack(folder / f"coplace-{described['version']}.tgz", ROOT / "helm", ["coplace"])


def build_and_save_images(file: Path, run_dir: Path, tell: Callable[[str], None]) -> None:
    """Build our images and save them into one file, which has once what several have. Raises
    PodmanError."""
    podman = Podman(cache_dir() / "containers", run_dir)
    provide_images(podman, tell, OF_THE_CHART)
    tell("saving the images")
    save(podman, file)


def save(podman: Podman, file: Path) -> None:
    """Save our images into one file. Raises PodmanError."""
    images = map(image_of, OF_THE_CHART)
    podman.call("save", "--quiet", "--multi-image-archive", "--output", str(file), *images)
