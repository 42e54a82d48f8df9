"""How an image's build learns where packages come from."""

from pathlib import Path

import pytest

from deploy.compose.package_access import build_secrets


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)


def test_what_means_nothing_in_a_container_stays_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CACHE_DIR", "/home/me/cache")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    file = tmp_path / "package-env"
    assert build_secrets(tmp_path) == [f"--secret=id=package-env,src={file}"]
    assert not file.read_text()


def test_the_index_is_passed_to_pip_and_to_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "package-env"
    monkeypatch.setenv("PIP_CACHE_DIR", "/home/me/cache")
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:it's@mirror.example/simple")
    assert f"--secret=id=package-env,src={file}" in build_secrets(tmp_path)
    url = """'https://me:it'"'"'s@mirror.example/simple'"""
    assert file.read_text() == f"export PIP_INDEX_URL={url}\nexport UV_DEFAULT_INDEX={url}\n"


def test_certificates_are_handed_over_when_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorities = tmp_path / "ca.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
    authorities.touch()
    assert f"--secret=id=package-ca,src={authorities}" in build_secrets(tmp_path)
