"""How an image's build learns where packages come from."""

from pathlib import Path

import pytest

from deploy.compose.package_access import build_secrets


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)


def test_the_index_alone_is_told_to_pip_and_to_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "package-env"
    monkeypatch.setenv("PIP_CACHE_DIR", "/home/me/cache")
    build_secrets(tmp_path)
    assert file.read_text() == "", "what means nothing in a container stays here"
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:it's@mirror.example/simple")
    assert f"--secret=id=package-env,src={file}" in build_secrets(tmp_path)
    url = """'https://me:it'"'"'s@mirror.example/simple'"""
    assert file.read_text() == f"export PIP_INDEX_URL={url}\nexport UV_DEFAULT_INDEX={url}\n"


def test_certificates_are_handed_over_when_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorities = tmp_path / "ca.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
    assert not any("package-ca" in secret for secret in build_secrets(tmp_path))
    authorities.touch()
    assert f"--secret=id=package-ca,src={authorities}" in build_secrets(tmp_path)
