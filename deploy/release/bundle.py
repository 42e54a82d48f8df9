"""One archive for a site without internet: wheels, images, chart, and what images of others it
needs."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import yaml

from deploy.cache import cache_dir
from deploy.compose.images import KAFKA, OF_THE_CHART, REDIS, image_of, provide_images
from deploy.compose.podman import Podman
from deploy.release.dist import CONSTRAINTS, wanted
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
    for image in images/*.tar; do podman load --input $image; done
    helm install region chart/coplace-*.tgz --values YOUR_VALUES

foreign-images.txt names the images of others that the chart and the compose file start. Fetch each
where there is internet, write its digest beside it, and push it to the registry of the site.

Coplace is under the Apache License 2.0: Apache-2.0.txt has its text.
"""


def build_bundle(
    dist: Path, archive: Path, tell: Callable[[str], None], *, with_images: bool
) -> None:
    """Write the archive out of a folder of wheels. Raises CalledProcessError and PodmanError."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        folder = Path(scratch) / "coplace"
        folder.mkdir()
        tell("collecting wheels")
        _collect_wheels(dist, folder / "wheels")
        _pack_chart(folder / "chart")
        if with_images:
            _save_images(folder / "images", Path(scratch) / "podman", tell)
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


def _collect_wheels(dist: Path, folder: Path) -> None:
    """Wheels of all that an installation brings, for this version of Python and kind of machine."""
    shutil.copytree(dist, folder)
    ours = (wanted("coplace", dist), wanted("coplace-agent", dist))
    locked = ("--constraint", dist / CONSTRAINTS, "--find-links", dist, "--only-binary", ":all:")
    run("python", "-m", "pip", "download", "--quiet", *locked, "--dest", folder, *ours)


def _pack_chart(folder: Path) -> None:
    """As `helm package` does, which this machine need not have."""
    folder.mkdir()
    described = yaml.safe_load((ROOT / "helm/coplace/Chart.yaml").read_text(encoding="utf-8"))
    pack(folder / f"coplace-{described['version']}.tgz", ROOT / "helm", ["coplace"])


def _save_images(folder: Path, run_dir: Path, tell: Callable[[str], None]) -> None:
    folder.mkdir()
    podman = Podman(cache_dir() / "containers", run_dir)
    provide_images(podman, tell, OF_THE_CHART)
    for extra in OF_THE_CHART:
        tell(f"saving {image_of(extra)}")
        file = str(folder / f"coplace-{extra}.tar")
        podman.call("save", "--format", "docker-archive", "--output", file, image_of(extra))
