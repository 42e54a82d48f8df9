"""A table of authority as operators write it."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coplace_client.errors import RejectedError, UnusableError
from shared.authority.binding import Binding, Role
from shared.authority.issuer import SUBJECT, Issuer
from shared.authority.rules import RULES
from shared.process.user_files import read_yaml

_LISTS = ("sites", "clusters", "accounts", "users", "jobs")


class _BindingEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    who: str
    role: Role
    sites: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()


class _IssuerEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    audience: str
    name_claim: str = SUBJECT
    ca: str = ""
    client_id: str = ""
    scope: str = ""


class _TableFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    bindings: list[_BindingEntry] = Field(min_length=1)
    issuer: _IssuerEntry | None = None


def read_table(path: Path) -> list[Binding]:
    """Read the bindings of a YAML file: `bindings`, a list of `who`, `role` and the names it is
    limited to.

    Raises OSError when the file cannot be read, UnusableError, naming the field, when it is not of
    this form.
    """
    return [_binding(path, number, line) for number, line in enumerate(_read(path).bindings)]


def read_issuer(path: Path) -> Issuer | None:
    """Read the issuer of such a file, None where it has none. Raises OSError and UnusableError."""
    found = _read(path).issuer
    try:
        return Issuer(**found.model_dump()) if found else None
    except RejectedError as error:
        problem = f"issuer.{error.field}: {error.problem}"
        raise UnusableError(f"{path} is not a valid table of authority: {problem}") from error


def _read(path: Path) -> _TableFile:
    try:
        return _TableFile.model_validate(read_yaml(path))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors()
        )
        raise UnusableError(f"{path} is not a valid table of authority: {problems}") from error


def _binding(path: Path, number: int, line: _BindingEntry) -> Binding:
    try:
        return Binding(**line.model_dump())
    except RejectedError as error:
        field = f"bindings.{number}.{error.field}"
        raise UnusableError(
            f"{path} is not a valid table of authority: {field}: {error.problem}"
        ) from error


def format_table(bindings: Iterable[Binding], issuer: Issuer | None = None) -> str:
    """Return bindings and issuer as the text of such a file."""
    table: dict[str, Any] = {"bindings": [row(binding) for binding in bindings]}
    if issuer:
        table["issuer"] = {name: value for name, value in asdict(issuer).items() if value}
    text: str = yaml.safe_dump(table, sort_keys=False, allow_unicode=True)
    return text


def row(binding: Binding) -> dict[str, Any]:
    """Return a binding as a mapping without its empty lists."""
    lists = {name: list(getattr(binding, name)) for name in _LISTS if getattr(binding, name)}
    return {"who": binding.who, "role": str(binding.role), **lists}


def describe_binding(binding: Binding) -> str:
    """Return a binding in words."""
    named = row(binding)
    lists = [f"{name}: {', '.join(named[name])}" for name in _LISTS if name in named]
    return "; ".join([f"{binding.who} is {binding.role}", *lists])


def actions() -> list[str]:
    """Return the actions that have a rule: payloads and RPCs."""
    return list(RULES)
