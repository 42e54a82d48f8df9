"""By which route each command of the command line can be asked or ordered, or why by none."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Final

from services.rest.routes import Route, routes
from tests.unit.cli.orders import AT_THE_DOOR, ORDERS, QUESTIONS, path_of


class WithoutRoute(StrEnum):
    """Why a command has no route: it asks and changes nothing in a region, or HTTP must not."""

    MACHINE = "starts, shows or tries processes of this machine"
    FILES = "reads and writes files, without a region"
    RELEASE = "prints what this release is"
    SERVERS = "administers Kafka, Redis and the stages' state, to which HTTP must not lead"
    KEYS = "makes private keys and passwords, which stay where they are made"
    ARCHIVE = "reads the archive's own files"
    TOPICS = "reads topics themselves, since it trusts no service or is as large as they are"
    MANAGER = "is a resource manager: it publishes events and watches decisions"
    LOGIN = "keeps a token on this machine"


# What each asks of a service, or has it change in its own database, as the method. Of `QUESTIONS` a
# test asks them.
ASKED: Final[Mapping[str, str]] = {
    "accounts balance": "ListAccounts",
    "accounts statement": "ShowStatement",
    "audit": "ListAudit",
    "authority check": "ShowAuthority",
    "authority show": "ShowAuthority",
    "cap show": "ShowPower",
    "clusters": "ListClusters",
    "energy ask": "Project",
    "history accounts": "ListAccounts",
    "history audit": "ListAudit",
    "history charges": "ListCharges",
    "history jobs": "ListRuns",
    "history statement": "ShowStatement",
    "history story": "ShowStory",
    "jobs": "ListJobs",
    "licence list": "ListLicences",
    "limits show": "ListLimits",
    "login": "ShowIssuer",
    "nodes": "ShowNodes",
    "outcome": "ShowOutcome",
    "policy show": "ShowPolicy",
    "queue": "ListJobs",
    "quote": "Quote",
    "reservation list": "ListReservations",
    "reservation show": "ListReservations",
    "statement": "ShowStatement",
    "tariff show": "ListTariffs",
    "tokens list": "ShowAuthority",
    "webhook add": "AddWebhook",
    "webhook failed": "ListFailedDeliveries",
    "webhook list": "ListWebhooks",
    "webhook remove": "RemoveWebhook",
    "webhook retry": "RetryDeliveries",
    "webhook rotate-secret": "RotateWebhookSecret",
    "webhook test": "TestWebhook",
    "why": "Explain",
}
# Commands that publish several kinds of events, or other ones than an owner answers to.
PUBLISHED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(AT_THE_DOOR, ("AuthorityDeclared",)),
    "energy push": ("CoefficientsDeclared", "SignatureMeasured"),
    "slurm catch-up": ("JobSubmitted", "JobFinished"),
}
WITHOUT: Final[Mapping[str, WithoutRoute]] = {
    **dict.fromkeys(
        (
            *("up", "status", "logs", "env", "down", "smoke-test", "mcp", "conformance"),
            *("kubernetes release", "kueue release"),
            *(f"slurm {verb}" for verb in ("check", "release")),
            *(f"local {verb}" for verb in ("up", "status", "logs", "down")),
            *("demo", "demo-parity", "wait", "report", "profile kernels", "profile run"),
        ),
        WithoutRoute.MACHINE,
    ),
    **dict.fromkeys(
        (
            *("simulate", "compare", "tariff check", "authority verify"),
            *(f"evaluate {what}" for what in ("power", "degradation", "groups", "deadlines")),
            *(
                f"energy {verb}"
                for verb in (
                    *("project", "choose", "time-coefficients", "misuse"),
                    *("learn", "import", "evaluate"),
                )
            ),
        ),
        WithoutRoute.FILES,
    ),
    **dict.fromkeys(
        (
            *("asyncapi", "openapi", "grpc-reference", "policy schema", "policy reference"),
            *("topics list", "slurm fields"),
        ),
        WithoutRoute.RELEASE,
    ),
    **dict.fromkeys(
        (
            *("topics create", "topics acls", "doctor", "preflight"),
            *(f"clock {verb}" for verb in ("mend",)),
            *(f"dlq {verb}" for verb in ("list", "show", "replay")),
            *(f"restore {verb}" for verb in ("accept", "replay", "rebuild", "repartition")),
            *("history rebuild", "archive rebuild", "webhook read-anew"),
        ),
        WithoutRoute.SERVERS,
    ),
    **{f"certificates {verb}": WithoutRoute.KEYS for verb in ("issue", "hand-out", "rotate")},
    **{f"archive {verb}": WithoutRoute.ARCHIVE for verb in ("list", "show", "verify")},
    **dict.fromkeys(
        ("tail", "price explain", "models list", "models show", "slurm reconcile"),
        WithoutRoute.TOPICS,
    ),
    "logout": WithoutRoute.LOGIN,
}


def published() -> Mapping[str, tuple[str, ...]]:
    """Return the types of messages that each command publishes which declares or orders."""
    return {**{path_of(words): (kind,) for words, kind in ORDERS.items()}, **PUBLISHED}


def routes_of(command: str) -> Iterator[Route]:
    """Yield the routes that do what a command does."""
    for name in (*published().get(command, ()), *filter(None, [ASKED.get(command)])):
        yield _by_operation()[name]


@cache
def _by_operation() -> Mapping[str, Route]:
    return {route.operation: route for route in routes()}


def questions() -> Mapping[str, str]:
    """Return the words of each command that only asks a service."""
    return {path_of(words): words for words in QUESTIONS}


def page() -> str:
    """The tables of commands and routes that the page has."""
    lines = ["| command | route |", "|---|---|"]
    for command in sorted({*ASKED, *published()}):
        found = ", ".join(f"`{each.verb} {each.template}`" for each in routes_of(command))
        lines.append(f"| `coplace {command}` | {found} |")
    lines += ["", "| command without a route | |", "|---|---|"]
    for reason in WithoutRoute:
        names = ", ".join(f"`{name}`" for name in sorted(WITHOUT) if WITHOUT[name] is reason)
        if names:
            lines.append(f"| {names} | {reason} |")
    return "\n".join(lines) + "\n"
