"""What is handed out: bills of materials, checksums, schemas, and an archive for sites without
internet, from which a machine without a network installs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from deploy.release.bundle import build_bundle, foreign_images
from deploy.release.dist import SOURCES, describe
from tests.distributions.environments import Environment, build_wheels
from tests.support.agent_ingest import Ingest, served
from tests.support.snippets import HOW_TO, blocks, programs

# Half a minute, and the same for the wheels of others.
pytestmark = pytest.mark.rest
_PAGE: Final = HOW_TO / "distributions.md"
_OFFLINE: Final = HOW_TO / "offline.md"
_NO_NETWORK: Final = """
reach='import socket; socket.create_connection(("192.0.2.1", 80), 1)'
if python3 -c "$reach" 2>/dev/null; then exit 99; fi
if ip route 2>/dev/null | grep -q default; then exit 98; fi
"""
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


def test_a_machine_without_a_network_installs_from_the_archive_and_plays_the_demo(
    dist: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "coplace-0-bundle.tar.gz"
    build_bundle(dist, archive, lambda _: None, with_images=False)
    [typed] = [block.text for block in blocks(_OFFLINE) if "tar -xf" in block.text]
    done = subprocess.run(
        ["unshare", "--net", "bash", "-euc", f"{_NO_NETWORK}{typed}"],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "coplace"
    assert (folder / "out" / "charges.jsonl").exists()
    assert {f"{image} sha256:" for image in foreign_images()} == {
        *(folder / "foreign-images.txt").read_text().splitlines()
    }
    assert "Apache License" in (folder / "Apache-2.0.txt").read_text()
    shutil.rmtree(folder)
