"""What is handed out: bills of materials, checksums, schemas, and an archive for sites without
internet, from which a machine without a network installs."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Final

import pytest

from deploy.compose.images import OF_THE_CHART, image_of
from deploy.compose.podman import Podman
from deploy.release.bundle import build_bundle, foreign_images, save
from deploy.release.dist import EXTRAS, SOURCES, describe
from deploy.release.tools import ROOT, pack
from tests.distributions.environments import Environment, build_wheels
from tests.support.agent_ingest import Ingest, served
from tests.support.snippets import HOW_TO, programs

# Half a minute, and the same for the wheels of others.
pytestmark = pytest.mark.rest
_PAGE: Final = HOW_TO / "distributions.md"
_UP: Final = "echo serving health; exec sleep 90"
# Beyond it something hangs, and what was printed until then says after what.
_WITHIN_S: Final = "500"
_WITHOUT_NETWORK: Final = Path(__file__).with_name("without-network.sh")
_BUF: Final = Path(sys.executable).with_name("buf")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make dist` makes it, but for wheels without compiled modules."""
    folder = build_wheels(tmp_path_factory.mktemp("dist"))
    describe(folder)
    return folder


@pytest.mark.parametrize("name", SOURCES)
def test_a_bill_of_materials_has_versions_and_licences_of_what_is_installed(
    dist: Path, tmp_path: Path, name: str
) -> None:
    bill = json.loads((dist / f"{name}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == name
    [licence] = bill["metadata"]["component"]["licenses"]
    assert licence["license"]["id"] == "Apache-2.0"
    listed = {each["name"].lower().replace("_", "-"): each for each in bill["components"]}
    assert all(each["version"] and each["purl"] for each in listed.values())
    if name != "coplace":
        installed = Environment.of(tmp_path / name, dist, name).packages()
        assert {each.lower() for each in installed} <= listed.keys() <= {*installed, *SOURCES}


def test_the_checksums_are_those_of_all_files(dist: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=dist,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    named = {line.split("  ")[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in dist.iterdir()} - {"SHA256SUMS"}


def test_the_schemas_are_a_module_of_buf(dist: Path, tmp_path: Path) -> None:
    built: list[str | Path] = [
        _BUF,
        "build",
        dist / "coplace-protos.tar.gz",
        "--output",
        tmp_path / "image.binpb",
    ]
    done = subprocess.run(built, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "image.binpb").stat().st_size > 0


def test_the_client_reports_as_its_page_says(dist: Path, tmp_path: Path) -> None:
    client = Environment.of(tmp_path / "client", dist, "coplace-client")
    (client.folder / "report.py").write_text(programs(_PAGE)["report.py"])
    ingest = Ingest()
    with served(ingest) as port:
        address = {"COPLACE_INGEST_ADDRESS": f"127.0.0.1:{port}"}
        done = client.run(client.python, "report.py", **address)
    assert (done.stdout, done.returncode) == ("reported\n", 0), done.stderr
    [event] = ingest.got
    assert event.job_cancelled.job_id == "north/alpha/1/1767225600"


def test_a_machine_without_a_network_installs_and_starts_a_service_of_each_image(
    dist: Path, tmp_path: Path
) -> None:
    """The wheels are those without extras, and the images small ones under the names of ours: all
    of them take minutes (make bundle-check)."""
    archive = tmp_path / "coplace-0-bundle.tar.gz"
    build_bundle(dist, archive, lambda _: None, _save_small_images, extras=())
    offline = (sys.executable, "-m", "tests.distributions.offline", "--small", str(archive))
    done = subprocess.run(
        ["timeout", "--kill-after=5", _WITHIN_S, _WITHOUT_NETWORK, *offline],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    up = re.findall(r"^(\S+): \S+ is up$", done.stdout, re.MULTILINE)
    assert sorted(up) == sorted(image_of(extra) for extra in OF_THE_CHART)
    assert "installed from wheels" in done.stdout
    with tarfile.open(archive) as packed:
        listed = packed.extractfile("coplace/foreign-images.txt")
        licence = packed.extractfile("coplace/Apache-2.0.txt")
        assert listed
        assert licence
        assert {f"{image} sha256:" for image in foreign_images()} == {
            *listed.read().decode().splitlines()
        }
        assert b"Apache License" in licence.read()


def test_where_there_is_a_network_the_archive_is_not_used(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.distributions.offline", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "there is a network here: call it by tests/distributions/without-network.sh\n",
    )


def test_the_extras_that_are_handed_out_are_those_that_users_need() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert {*EXTRAS} == {*declared["project"]["optional-dependencies"]} - {"demo", "dev", "docs"}


def _save_small_images(file: Path, run_dir: Path) -> None:
    """A shell, and in place of Python what says that it is up."""
    root = file.parents[2] / "root"
    shell = ("/bin/sh", "/bin/sleep")
    libraries = re.findall(r"(/\S+) \(", subprocess.check_output(["ldd", *shell], text=True))
    for path in (*shell, *libraries):
        target = root / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for name, line in {"true": ":", "python": _UP}.items():
        (root / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (root / "bin" / name).chmod(0o755)
    pack(file.parents[2] / "root.tar.gz", root, [path.name for path in root.iterdir()])
    podman = Podman(file.parents[2] / "small", run_dir, float(_WITHIN_S))
    first, *others = map(image_of, OF_THE_CHART)
    podman.call("import", str(file.parents[2] / "root.tar.gz"), first)
    for image in others:
        podman.call("tag", first, image)
    save(podman, file)
    podman.call("rmi", "--all", "--force")
