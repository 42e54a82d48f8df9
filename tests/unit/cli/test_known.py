"""Commands that take a name refuse one that there is not, and say which there are."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer

from cli.known import UnknownNameError, require_known
from cli.main import app
from tests.unit.cli.command_line import refusal
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import placement, round_of, submitted

# Against what each name is held. A command that comes gets its line here.
_ASKED: Final = "asked of a service or topic, which knows them"
_DECLARED: Final = "declares it, or is about one to come"
_OWN: Final = "is checked against names of its own release"
_TEXT: Final = "is no name of a subject"
_FILTER: Final = "filters what was: of an unknown name there are no rows"
_JOBS: Final = ("cancel", "hold", "release", "prioritize", "requeue", "suspend", "unsuspend")
_OF_A_WEBHOOK: Final = ("remove", "test", "failed", "retry", "rotate-secret")
_HELD: Final = {
    **{(verb, "job_id"): _ASKED for verb in (*_JOBS, "why", "seize", "jobs", "price explain")},
    **{("jobs", name): _ASKED for name in ("user", "account", "cluster")},
    ("jobs", "standing"): _OWN,
    **{(verb, "cluster"): _ASKED for verb in ("queue", "nodes", "drain", "resume", "undeclare")},
    **{(verb, "nodes"): _ASKED for verb in ("drain", "resume")},
    ("outcome", "command_id"): _ASKED,
    ("audit", "who"): _ASKED,
    ("audit", "action"): _ASKED,
    **{(verb, "topic"): _OWN for verb in ("tail", "dlq list")},
    **{(verb, "place"): _ASKED for verb in ("dlq show", "dlq replay")},
    **{(verb, "account"): _ASKED for verb in ("statement", "accounts statement")},
    ("accounts allocate", "account"): _DECLARED,
    **{("limits set", name): _DECLARED for name in ("name", "resources")},
    **{(f"limits {verb}", "site"): _ASKED for verb in ("set", "show")},
    **{(f"licence {verb}", "cluster"): _ASKED for verb in ("set", "remove", "list")},
    **{(f"licence {verb}", "site"): _ASKED for verb in ("set", "remove")},
    ("licence set", "name"): _DECLARED,
    ("licence remove", "name"): _ASKED,
    **{(f"reservation {verb}", "cluster"): _ASKED for verb in ("set", "remove", "list", "show")},
    **{(f"reservation {verb}", "name"): _ASKED for verb in ("remove", "show")},
    **{("reservation set", name): _DECLARED for name in ("name", "users", "accounts")},
    **{("reservation set", name): _ASKED for name in ("nodes", "partition")},
    ("reservation set", "lasts"): _TEXT,
    **{("kubernetes release", name): _DECLARED for name in ("site", "queue")},
    ("kubernetes release", "job"): _OWN,
    **{("kueue release", name): _DECLARED for name in ("site", "name")},
    ("authority check", "who"): _DECLARED,
    ("authority check", "action"): _OWN,
    ("authority check", "named"): _ASKED,
    ("tokens issue", "who"): _ASKED,
    ("tokens revoke", "which"): _ASKED,
    **{(f"cap {verb}", "subject"): _ASKED for verb in ("set", "clear")},
    **{(f"models {verb}", "version"): _ASKED for verb in ("show", "pin")},
    **{(f"models {verb}", "model"): _OWN for verb in ("unpin", "rollback")},
    **{(f"policy {verb}", "settings"): _OWN for verb in ("set", "reset")},
    **{("policy allow", name): _ASKED for name in ("app_id", "beside", "node_model")},
    **{("energy ask", name): _ASKED for name in ("app_ids", "node_model")},
    ("energy push", "node_model"): _DECLARED,
    **{(f"energy {verb}", "module"): _OWN for verb in ("project", "choose", "time-coefficients")},
    ("energy import", "module"): _DECLARED,
    **{(f"energy {verb}", "tpi_scale"): _DECLARED for verb in ("import", "evaluate")},
    **{(verb, "tariff"): _ASKED for verb in ("quote", "price reprocess")},
    **{("quote", name): _TEXT for name in ("partition", "qos")},
    **{(f"restore {verb}", "stage"): _OWN for verb in ("accept", "replay")},
    ("restore rebuild", "model"): _OWN,
    ("smoke-test", "cluster"): _DECLARED,
    ("slurm check", "watch"): _TEXT,
    ("logs", "process"): _ASKED,
    **{("slurm catch-up", name): _DECLARED for name in ("site", "node_model", "account")},
    ("slurm reconcile", "site"): _DECLARED,
    **{(f"slurm {verb}", "clusters"): _ASKED for verb in ("catch-up", "reconcile")},
    **{("certificates issue", name): _DECLARED for name in ("name", "role")},
    **{(verb, "client"): _DECLARED for verb in ("topics create", "topics acls")},
    ("certificates hand-out", "client"): _OWN,
    ("topics acls", "cluster"): _TEXT,
    **{("archive show", name): _ASKED for name in ("topic", "key")},
    ("conformance", "command"): _TEXT,
    ("history story", "job_id"): _ASKED,
    ("history statement", "account"): _ASKED,
    ("history statement", "user"): _FILTER,
    **{
        (f"history {verb}", name): _FILTER
        for verb in ("jobs", "charges")
        for name in ("user", "account", "cluster")
    },
    **{("history audit", name): _FILTER for name in ("who", "action", "subject")},
    **{("webhook add", name): _TEXT for name in ("url", "description")},
    **{("webhook add", name): _FILTER for name in ("user", "account")},
    ("webhook add", "types"): _OWN,
    **{(f"webhook {verb}", "webhook"): _ASKED for verb in _OF_A_WEBHOOK},
    ("webhook retry", "deliveries"): _ASKED,
    **{("login", name): _ASKED for name in ("client_id", "scope")},
}
# Times, figures, addresses, reasons: of any command.
_NO_NAMES: Final = {
    *("reason", "ingest", "placement", "address", "source", "until", "begin", "since", "rule"),
    *("history", "page", "archive", "webhooks", "database"),
    *("service_units", "where", "link", "node", "pstates_ghz", "tdp_w"),
}
# Groups whose commands are about files and servers of their own.
_OWN_GROUPS: Final = {
    *("simulate", "evaluate", "demo", "demo-parity", "compare", "report", "local", "up", "wait"),
    "profile",
}


def _taken(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Each text that each command takes."""
    for name in [*getattr(command, "commands", {})]:
        if path or name not in _OWN_GROUPS:
            yield from _taken(command.commands[name], (*path, name))
    for param in command.params if path else ():
        described = getattr(param, "type_descriptor", None)
        if described and "str" in str(described.annotation) and param.name not in _NO_NAMES:
            yield " ".join(path), param.name


def test_every_name_that_a_command_takes_is_held_against_something() -> None:
    assert set(_taken(typer.main.get_command(app))) == set(_HELD)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    processor = placement()
    round_of(processor, 0, submitted("j1"))
    with Served(processor) as found:
        yield found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        *((words, "there is no cluster 'p9': known are p1, p2") for words in (
            *(["queue", "p9"], ["nodes", "p9"], ["jobs", "--cluster", "p9"]),
            *(["drain", "p9", "--reason", "x"], ["resume", "p9"]),
            ["undeclare", "p9", "--reason", "x"],
        )),
        (["jobs", "--user", "adda"], "there is no user with a job 'adda': known are ada"),
        (["jobs", "--account", "fysics"], "no account with a job 'fysics': known are physics"),
        (["limits", "show", "--site", "nowhere"], "no site 'nowhere': known are site"),
        (["limits", "set", "user", "ada", "--site", "nowhere"], "known are site"),
        (["cap", "set", "p9", "5"], "known are cluster p1, cluster p2"),
        (["policy", "allow", "--app", "x"], "no isolated application 'x': none is known so far"),
        (["why", "j9"], "j9"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_refused_with_those_that_there_are(
    address: str, words: list[str], told: str
) -> None:
    option = "--address" if words[0] == "why" else "--placement"
    assert told in refusal(*words, option, address)


def test_of_very_many_names_the_most_alike_are_shown() -> None:
    names = {f"node-model-{n}" for n in range(1_000)}
    with pytest.raises(UnknownNameError, match=r"'node-modle-7'.* node-model-7, .*990 more"):
        require_known("node model", "node-modle-7", names)
    require_known("node model", "node-model-7", names)
