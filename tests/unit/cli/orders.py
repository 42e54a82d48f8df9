"""Every command that declares, orders or asks, by the tree of commands, and words for it."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import typer

from cli.main import app
from shared.catalogue.options import owners

PathOf = tuple[str, ...]

TARIFF: Final = "name: t\nfrom: 2027-01-01\nmodel: fair\nrates:\n  - {resource: core, su: 1}\n"
QUOTED: Final = (
    "user: ada\naccount: physics\napp_id: app-0\nnodes: 1\nwalltime_s: 3600\n"
    "reference_cluster: p1\n"
)
TABLE: Final = "bindings:\n  - {who: olga, role: operator, sites: ['*']}\n"

# What each declares or orders, with the type of message. "{folder}" is that of the files below.
ORDERS: Final[Mapping[str, str]] = {
    "accounts allocate physics 100": "AllocationDeclared",
    "accounts close 2026-01-01": "PeriodClosed",
    "cancel waits": "JobCancelled",
    "cap clear region": "PowerCapDeclared",
    "cap set region 90000": "PowerCapDeclared",
    "drain p1 p1-0001 --reason fan": "NodesDrained",
    "energy push {folder}/m.coefficients.csv --yes --node-model m": "CoefficientsDeclared",
    "hold waits": "JobHeld",
    "licence remove ansys --region": "LicencesDeclared",
    "licence set matlab 5 --cluster p1": "LicencesDeclared",
    "limits set user ada --nodes 2": "LimitsDeclared",
    "models pin power-trees@500": "ModelPinned",
    "models rollback": "ModelRolledBack",
    "models unpin": "ModelPinned",
    "policy allow --app hpcg": "PairsAllowed",
    "policy reset threshold": "PolicyDeclared",
    "policy set threshold=0.1": "PolicyDeclared",
    "price reprocess --from 2026-01-01 --to 2027-01-01 --tariff t": "RepriceAsked",
    "prioritize waits 5": "JobPrioritized",
    "release waits": "JobReleased",
    "requeue runs": "JobRequeueAsked",
    "reservation remove p1 fans": "ReservationRemoved",
    "reservation set p1 fans --from 2027-01-01 --for 4hours": "ReservationDeclared",
    "resume p1 p1-0001": "NodesResumed",
    "seize runs --reason burnt": "JobSeized",
    "suspend runs": "JobSuspended",
    "tariff set {folder}/tariff.yaml": "TariffDeclared",
    "undeclare p1 --reason sold": "ClusterUndeclared",
    "unsuspend runs": "JobResumed",
}
# What each asks a service. `outcome` asks what came of an order.
QUESTIONS: Final = (
    "cap show",
    "clusters",
    "energy ask --app hpcg",
    "jobs",
    "licence list",
    "limits show",
    "nodes",
    "policy show",
    "queue p1",
    "quote {folder}/job.yaml",
    "reservation list",
    "reservation show p1 course",
    "tariff show",
    "why waits",
)
OUTCOME: Final = ("outcome",)
# The door itself has a table in force before it answers.
AT_THE_DOOR: Final[Mapping[str, str]] = {
    "authority set": "authority set {folder}/authority.yaml --source olga",
    "tokens issue": "tokens issue olga {folder}/token --source olga",
    "tokens revoke": "tokens revoke olga --source olga",
}
# These run on, try a whole installation, or speak to a Slurm.
# `history` is asked in tests/unit/services/history, `webhook` in tests/unit/services/webhooks.
# `login` waits for a person: tests/unit/cli/login.
NOT_ONE_ANSWER: Final = (
    "smoke-test",
    "login",
    "slurm check",
    "slurm catch-up",
    *(f"history {verb}" for verb in ("accounts", "audit", "charges", "jobs", "statement", "story")),
    *(f"webhook {verb}" for verb in ("add", "failed", "list", "remove", "retry")),
    *(f"webhook {verb}" for verb in ("rotate-secret", "test")),
)


def commands() -> Iterator[tuple[PathOf, Any]]:
    """Every command with its path."""
    return _below(typer.main.get_command(app), ())


def _below(command: Any, path: PathOf) -> Iterator[tuple[PathOf, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name in below:
        yield from _below(below[name], (*path, name))


def addresses_of(command: Any) -> set[str]:
    """The variables of the services that a command speaks to."""
    names = {str(each.envvar) for each in command.params if each.envvar}
    return {name for name in names if name.endswith("_ADDRESS")}


def path_of(words: str) -> str:
    """The command in a line of words."""
    parts = words.split()
    return next(p for n in (2, 1) if (p := " ".join(parts[:n])) in _known())


@cache
def _known() -> frozenset[str]:
    return frozenset(" ".join(path) for path, _ in commands())


def page() -> str:
    """The table of commands that the how-to has."""
    of = {path_of(words): kind for words, kind in ORDERS.items()}
    lines = ["| command | what it sends | who says what came of it |", "|---|---|---|"]
    rows = [(name, f"`{kind}`", _owner(kind)) for name, kind in sorted(of.items())]
    rows += [(name, "`AuthorityDeclared`", "`ingest`, at once") for name in sorted(AT_THE_DOOR)]
    rows += [(path_of(words), "a question", _asked(words)) for words in sorted(QUESTIONS)]
    rows += [(name, "a question", "`ingest`, from what owners said") for name in OUTCOME]
    lines += [f"| `coplace {name}` | {sent} | {who} |" for name, sent, who in rows]
    return "\n".join(lines) + "\n"


def _owner(kind: str) -> str:
    return f"`{owners()[f'coplace.v1.{kind}']}`"


def _asked(words: str) -> str:
    return "`energy-api`, at once" if words.startswith("energy") else "`placement`, at once"


def write_files(folder: Path) -> None:
    """The files that commands read."""
    (folder / "tariff.yaml").write_text(TARIFF)
    (folder / "job.yaml").write_text(QUOTED)
    (folder / "authority.yaml").write_text(TABLE)
