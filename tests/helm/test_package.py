"""The chart as a package: what Artifact Hub shows of it, and who signed it."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.helm.chart import CHART, ROOT, helm, program

USER: Final = "Throwaway <throwaway@example.org>"


def described() -> Any:
    return yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]


def test_artifact_hub_shows_the_kinds_that_the_chart_brings() -> None:
    kinds = {
        (each["spec"]["names"]["kind"], each["metadata"]["name"], version["name"])
        for path in CHART.rglob("*.yaml")
        if "templates" not in path.parts
        for each in yaml.safe_load_all(path.read_text())
        if isinstance(each, dict) and each.get("kind") == "CustomResourceDefinition"
        for version in each["spec"]["versions"]
        if version["served"]
    }
    shown = yaml.safe_load(described()["artifacthub.io/crds"])
    assert {(each["kind"], each["name"], each["version"]) for each in shown} == kinds


def test_artifact_hub_shows_the_images_of_others_that_the_chart_starts() -> None:
    values = (CHART / "values.yaml").read_text()
    started = set(re.findall(r"image: (docker[.]io/\S+)", values))
    shown = yaml.safe_load(described()["artifacthub.io/images"])
    assert {each["image"] for each in shown} == started


def gpg(home: Path, *words: str) -> bytes:
    command = ["gpg", "--homedir", str(home), "--batch", "--quiet", *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.mark.rest
def test_a_package_says_who_signed_it_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    try:
        gpg(home, "--passphrase", "", "--quick-gen-key", USER, "rsa2048", "sign", "1d")
        (tmp_path / "secret.gpg").write_bytes(gpg(home, "--export-secret-keys"))
        (tmp_path / "public.gpg").write_bytes(gpg(home, "--export"))
    finally:
        stop = ["gpgconf", "--homedir", str(home), "--kill", "all"]
        subprocess.run(stop, check=True)
    script = [str(ROOT / "deploy/sign-chart.sh"), str(tmp_path / "out"), USER]
    done = subprocess.run(
        [*script, str(tmp_path / "secret.gpg")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HELM": program()},
    )
    package, keyring = Path(done.stdout.strip()), ["--keyring", str(tmp_path / "public.gpg")]
    verified = helm("verify", str(package), *keyring)
    assert verified.returncode == 0, verified.stderr
    assert USER in verified.stdout
    changed = tmp_path / "changed" / package.name
    changed.parent.mkdir()
    changed.write_bytes(package.read_bytes() + b"\0")
    shutil.copy(f"{package}.prov", f"{changed}.prov")
    assert helm("verify", str(changed), *keyring).returncode != 0
