"""The issuer of the table as operators write, declare and keep it."""

from pathlib import Path
from typing import Any

import pytest
from coplace.v1.authority_pb2 import AuthorityDeclared

from cli.authority import cli, declared, tokens
from cli.authority.file import format_table, read_issuer, read_table
from coplace_client.errors import UnusableError
from shared.authority.issuer import Issuer
from shared.authority.table import AuthorityTable, TableInForce
from tests.unit.cli.command_line import coplace

_ISSUER = Issuer("https://sso.example/realms/hpc", "coplace", "preferred_username")
_BINDINGS = """\
bindings:
- {who: olga, role: operator, sites: ["*"]}
- {who: "oidc:ada", role: user, users: [ada]}
- {who: ada, role: user}
"""
_LINES = """\
issuer:
  url: https://sso.example/realms/hpc
  audience: coplace
  name_claim: preferred_username
"""


class Region:
    """Folds what is declared."""

    def __init__(self) -> None:
        self.table = TableInForce()

    def read(self) -> TableInForce:
        """Return what is in force now, which what is declared behind it leaves as it is."""
        found = TableInForce()
        found.now = self.table.now
        return found

    def take(self, _address: str, event: Any) -> None:
        message: AuthorityDeclared = event.authority_declared
        self.table.now = AuthorityTable.from_message(message)


@pytest.fixture
def region(monkeypatch: pytest.MonkeyPatch) -> Region:
    found = Region()
    monkeypatch.setattr(declared, "read_table_in_force", lambda _deployment: found.read())
    monkeypatch.setattr(cli, "_unknown_sites", lambda *_: [])
    for module in (cli, tokens):
        monkeypatch.setattr(module, "publish", found.take)
    return found


def file_of(folder: Path, text: str) -> Path:
    file = folder / "authority.yaml"
    file.write_text(text)
    return file


def set_table(folder: Path, text: str) -> str:
    file = str(file_of(folder, text))
    done = coplace("authority", "set", file, "--source", "olga")
    assert done.exit_code == 0, done.output
    return done.stdout


def test_an_issuer_is_declared_changed_and_taken_back(tmp_path: Path, region: Region) -> None:
    assert "signed tokens are of https://sso" in set_table(tmp_path, _BINDINGS + _LINES)
    assert region.table.issuer == _ISSUER
    assert "stays in force" in set_table(tmp_path, _BINDINGS + _LINES)
    assert region.table.version == 1
    set_table(tmp_path, _BINDINGS + _LINES.replace("coplace", "portal"))
    assert region.table.issuer == Issuer(_ISSUER.url, "portal", _ISSUER.name_claim)
    assert "no issuer gives signed tokens" in set_table(tmp_path, _BINDINGS)
    assert region.table.issuer is None
    assert region.table.version == 3


def test_tokens_that_are_issued_and_revoked_leave_the_issuer(
    tmp_path: Path, region: Region
) -> None:
    set_table(tmp_path, _BINDINGS + _LINES)
    for words in (("issue", "ada", str(tmp_path / "ada.token")), ("revoke", "ada")):
        done = coplace("tokens", *words, "--source", "olga")
        assert done.exit_code == 0, done.output
    assert region.table.version == 3
    assert region.table.issuer == _ISSUER


def test_no_token_is_issued_for_whom_the_issuer_names(tmp_path: Path, region: Region) -> None:
    set_table(tmp_path, _BINDINGS + _LINES)
    file = tmp_path / "ada.token"
    refused = coplace("tokens", "issue", "oidc:ada", str(file), "--source", "olga")
    assert refused.exit_code != 0
    assert not file.exists()
    assert region.table.version == 1


def test_what_is_shown_as_a_file_declares_the_same(tmp_path: Path) -> None:
    first = file_of(tmp_path, _BINDINGS + _LINES)
    bindings, issuer = read_table(first), read_issuer(first)
    second = file_of(tmp_path, format_table(bindings, issuer))
    assert (read_table(second), read_issuer(second)) == (bindings, _ISSUER)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("https:", "http:"), "issuer.url: must be https://"),
        (("audience", "for"), "issuer.audience: Field required"),
        (("  name_claim: preferred_username", "  ca: me"), "issuer.ca: must be certificates"),
    ],
)
def test_what_is_no_issuer_is_named(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    file = file_of(tmp_path, _BINDINGS + _LINES.replace(*change))
    with pytest.raises(UnusableError, match=problem):
        read_issuer(file)
