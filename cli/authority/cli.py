"""`coplace authority show|set|verify|check`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from cli.answers import write_answer
from cli.asking import Ingest, publish
from cli.authority import declared
from cli.authority.file import actions, describe_binding, format_table, read_issuer, read_table, row
from cli.known import require_known
from cli.notes import note
from cli.output import Output, OutputName
from cli.speaking import OPERATOR, Source, who_does_it
from cli.times import clock_us, format_utc
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.facts import fact
from shared.authority.binding import EVERY, Binding, SitedCluster
from shared.authority.holding import HeldRun
from shared.authority.issuer import Issuer
from shared.authority.rules import About, OwnedJob
from shared.authority.table import AuthorityTable, TableInForce, message_of
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(no_args_is_help=True, help="Who may publish what, and ask for what.")

_COLUMNS: Final = ("who", "role", "sites", "clusters", "accounts", "users", "jobs")
_NAMES: Final = ("cluster", "site", "account", "user", "job", "granted", "region")
_NOBODY_IS_HELD: Final = (
    "no table of authority is declared: everybody may publish and ask everything "
    "(`coplace authority set FILE`)"
)
TableFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="FILE")]


@app.command()
def show(
    output: OutputName = Output.TABLE,
    as_file: Annotated[
        bool, typer.Option("--yaml", help="As a file for `coplace authority set`.")
    ] = False,
) -> None:
    """Show who may do what, and who declared it."""
    found = declared.read_table_in_force(Deployment.from_settings(settings()))
    bindings = found.now.bindings if found.now else ()
    if as_file:
        typer.echo(format_table(bindings, found.issuer), nl=False)
        return
    if output is Output.TABLE:
        typer.echo(_headline(found))
    lists = [row(binding) for binding in bindings]
    rows = [{name: _told(each.get(name)) for name in _COLUMNS} for each in lists]
    write_answer(found.answer(), rows, _COLUMNS, output)
    if output is Output.TABLE and found.issuer:
        typer.echo(_describe_issuer(found.issuer))
    if output is Output.TABLE and settings().grpc_cert_file:
        typer.echo(f"you are {who_does_it(OPERATOR)}, as your certificate says")


@app.command("set")
def set_table(
    file: TableFile,
    reason: Annotated[str, typer.Option(help="Why: it is recorded and shown.")] = "",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = OPERATOR,
) -> None:
    """Declare a table, which replaces the one before. It must leave you able to change it again.
    Nothing is declared where the same is in force."""
    bindings, issuer = read_table(file), read_issuer(file)
    deployment = Deployment.from_settings(settings())
    before = declared.read_table_in_force(deployment)
    is_same = before.now and Counter(before.now.bindings) == Counter(bindings)
    if is_same and before.issuer == issuer:
        typer.echo(f"version {before.version} is the same table, and stays in force")
        return
    now_us = clock_us()
    named = {binding.who for binding in bindings}
    held = before.tokens.every
    tokens = [one for one in held if one.who in named and one.is_worth_keeping(now_us)]
    table = message_of(before.version + 1, bindings, reason, now_us, tokens, issuer)
    AuthorityTable.from_message(table)
    publish(ingest, fact(source, table, f"{table.version}/{now_us}", now_us))
    typer.echo(f"version {table.version} is in force:")
    for line in _changes(before.now.bindings if before.now else (), bindings):
        typer.echo(f"  {line}")
    if before.issuer != issuer:
        typer.echo(f"  {_describe_issuer(issuer)}")
    for one in held:
        if one.who not in named:
            typer.echo(f"  - token {one.name} of {one.who}")
    note(_unknown_sites(deployment, bindings))


@app.command()
def verify(file: TableFile, source: Source = OPERATOR) -> None:
    """Check whether you could declare a table as the first one, without a server."""
    bindings = read_table(file)
    try:
        TableInForce().successor(
            message_of(1, bindings, "", clock_us(), issuer=read_issuer(file)), source
        )
    except RejectedError as error:
        raise UnusableError(f"{file} would be refused: {error}") from error
    typer.echo(f"{source} may declare it: {len(bindings)} bindings")


@app.command()
def check(
    who: Annotated[str, typer.Argument(help="The common name of a certificate.")],
    action: Annotated[
        str,
        typer.Argument(help="A payload or an RPC: job_finished.", autocompletion=actions),
    ],
    named: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help=f"Of what: {', '.join(_NAMES)}."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Check this table, not the one in force."),
    ] = None,
) -> None:
    """Check whether an identity may do something, and say why; exit status 1 where it may not."""
    if action not in actions():
        raise UnusableError(f"{action[:40]!r} must be one of {', '.join(actions())}")
    deployment = Deployment.from_settings(settings())
    table = (
        AuthorityTable(0, read_table(file))
        if file
        else declared.read_table_in_force(deployment).now
    )
    if table is None:
        typer.echo(f"allowed: {_NOBODY_IS_HELD}")
        return
    verdict = table.may(who, action, _about(deployment, named or [], is_to_come=file is not None))
    typer.echo(f"{'allowed' if verdict.is_allowed else 'refused'}: {verdict.reason}")
    if not verdict.is_allowed:
        raise typer.Exit(1)


def _headline(found: TableInForce) -> str:
    if found.now is None or found.declared is None:
        return _NOBODY_IS_HELD
    event = found.declared
    reason = getattr(event.payload, "reason", "")
    by = f"declared by {event.source} at {format_utc(event.time_us)}"
    return f"version {found.version}, {by}" + (f": {reason}" if reason else "")


def _describe_issuer(issuer: Issuer | None) -> str:
    if issuer is None:
        return "no issuer gives signed tokens"
    of = f"for {issuer.audience}, named by {issuer.name_claim}"
    return f"signed tokens are of {issuer.url}, {of}"


def _told(value: str | list[str] | None) -> str | None:
    return ", ".join(value) if isinstance(value, list) else value


def _changes(before: Iterable[Binding], after: Iterable[Binding]) -> list[str]:
    """Return the bindings that a new table removes and those that it adds, in words."""
    old, new = Counter(before), Counter(after)
    gone = [f"- {describe_binding(each)}" for each in (old - new).elements()]
    come = [f"+ {describe_binding(each)}" for each in (new - old).elements()]
    return [*gone, *come] or ["nothing changed"]


def _unknown_sites(deployment: Deployment, bindings: Iterable[Binding]) -> list[str]:
    """Sites of the table that no declared cluster is of: perhaps misspelt, perhaps to come."""
    known = set(declared.sites(deployment).values())
    named = dict.fromkeys(site for each in bindings for site in each.sites if EVERY not in site)
    return [f"no declared cluster is of site {site!r}" for site in named if site not in known]


def _about(deployment: Deployment, named: Iterable[str], *, is_to_come: bool) -> About:
    """What NAME=VALUE pairs name. Raises UnusableError for others, and unless the table is one to
    come for clusters and sites that are not declared."""
    values: dict[str, list[str]] = {}
    for each in named:
        name, is_set, value = each.partition("=")
        if name not in _NAMES or not is_set:
            raise UnusableError(f"{each[:80]!r}: write NAME=VALUE, of {', '.join(_NAMES)}")
        values.setdefault(name, []).append(value)
    sites = declared.sites(deployment)
    if not is_to_come:
        for name in (*values.get("cluster", ()), *values.get("granted", ())):
            require_known("cluster", name, sites)
        for name in values.get("site", ()):
            require_known("site", name, sites.values())
    clusters, granted = (
        tuple(declared.cluster_with_site(name, sites) for name in values.get(each, ()))
        for each in ("cluster", "granted")
    )
    user, account = (values.get(each, [""])[-1] for each in ("user", "account"))
    job_id = values.get("job", [""])[-1]
    return About(
        is_region="region" in values,
        clusters=clusters,
        site=values.get("site", [""])[-1],
        user=user,
        account=account,
        job=_job(job_id, user, account, granted) if job_id else None,
    )


def _job(job_id: str, user: str, account: str, granted: Sequence[SitedCluster]) -> OwnedJob:
    """A job of which each `granted=` is a run that was granted, the last one the newest."""
    runs = tuple(HeldRun(1, number, cluster) for number, cluster in enumerate(granted, 1))
    return OwnedJob(job_id, user, account, runs, len(runs))
