"""`kubectl coplace`: Coplace for users of kubectl."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import grpc
import typer
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import ExplainResponse, QuoteRequest

from cli import quote as quoting
from cli import why as question
from cli.asking import Placement
from cli.failures import ReportingGroup
from cli.kubectl.current import (
    Current,
    at_server,
    current,
    id_of_job,
    job_there,
    jobs_there,
    known_id,
)
from cli.kubernetes.cli import report
from cli.main import main as begin
from cli.main import why as why_id
from cli.notes import utc
from cli.output import Output, OutputName, Row, write
from cli.quiet import only_warnings
from cli.times import clock_us
from coplace_client.calls import UnansweredError
from coplace_client.errors import UnusableError
from services.kubernetes.adapters.releasing import JobsReleased
from services.kubernetes.adapters.releasing import release as release_jobs
from services.kubernetes.model.facts import JobTerms, id_of, submission_of
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import QUEUE_NAME
from shared.domain.times import in_utc
from shared.process.user_files import read_yaml

_DAY_S: Final = 86_400.0

app = typer.Typer(
    cls=ReportingGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Coplace, at the cluster and the namespace where kubectl is.",
)
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Else that of the context, or default.")
]
Context = Annotated[str, typer.Option(help="Of the kubeconfig; its current one.")]
Kubeconfig = Annotated[str, typer.Option(help="Else KUBECONFIG, or ~/.kube/config.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="Its name in the namespace.")]


@app.callback()
def kubectl(ctx: typer.Context) -> None:
    """Coplace, at the cluster and the namespace where kubectl is."""
    if ctx.invoked_subcommand != "release":  # that asks the API server alone
        begin(ctx)


@app.command()
def why(
    job: JobName,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
    history: Annotated[
        str,
        typer.Option(
            envvar="COPLACE_HISTORY_ADDRESS",
            help="host:port of the history, for jobs that placement knows no more.",
        ),
    ] = "127.0.0.1:50055",
) -> None:
    """Explain a Job: why it does not start yet and when it is expected to, or how it ended."""
    found = asyncio.run(job_there(current(kubeconfig, context, namespace), job))
    why_id(id_of_job(found), placement, output, history=history)


@app.command()
def jobs(
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """List the Jobs of the namespace that are in a queue of Coplace, and what Coplace says of
    them."""
    found = asyncio.run(jobs_there(current(kubeconfig, context, namespace)))
    rows = [_row(each, placement) for each in sorted(found, key=lambda each: each.key.name)]
    write(rows, ("job", "queue", "is", "cluster", "expected", "why"), output)


def _row(job: KubernetesJob, placement: str) -> Row:
    answer = _explained(known_id(job.annotations), placement)
    expected_us = answer.forecast.start_at_us if answer.HasField("forecast") else 0
    return {
        "job": job.key.name,
        "queue": job.labels.get(QUEUE_NAME),
        "is": question.state_in_words(answer) if answer.job_id else "not known to Coplace",
        "cluster": answer.allocation.cluster or answer.ended.cluster or None,
        "expected": utc(expected_us) if expected_us else None,
        "why": answer.reason or None,
        "id": answer.job_id or None,
    }


def _explained(job_id: str, placement: str) -> ExplainResponse:
    """What placement says of a job; nothing where it knows of none."""
    if not job_id:
        return ExplainResponse()
    try:
        return question.ask(placement, job_id)
    except UnansweredError as error:
        if error.code is not grpc.StatusCode.NOT_FOUND:
            raise
        return ExplainResponse()


@app.command()
def quote(
    file: Annotated[
        Path,
        typer.Option("--filename", "-f", exists=True, dir_okay=False, help="A Job, as YAML."),
    ],
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    cluster: Annotated[
        str, typer.Option(help="How Coplace names the cluster; as the context is called.")
    ] = "",
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """Print what a Job would cost, wait and draw if it were created now. Nothing is created."""
    there = current(kubeconfig, context, namespace)
    asked = asked_by(file, there.namespace, cluster or there.context, clock_us())
    quoting.show(QuoteRequest(job=asked), output, placement)


def asked_by(file: Path, namespace: str, cluster: str, now_us: int) -> JobSubmitted:
    """Return what the Job of a manifest asks for. Raises UnusableError, or RejectedError naming the
    field that Coplace does not take."""
    found: Any = read_yaml(file)
    if not isinstance(found, dict) or found.get("kind") != "Job":
        raise UnusableError(f"{file} must be one Job of batch/v1")
    told = found.get("metadata") or {}
    name = str(told.get("name") or told.get("generateName") or "job").rstrip("-")
    own = {"name": name, "namespace": told.get("namespace") or namespace, "uid": "00000000"}
    metadata = {**told, **own, "creationTimestamp": in_utc(now_us / 1e6)}
    job = KubernetesJob(cluster, {**found, "metadata": metadata})
    asked = submission_of(job, _terms("quote"))
    asked.ClearField("architectures")  # no process was asked which clusters it reaches
    return asked


@app.command()
def release(
    job: JobName,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    wait_s: Annotated[
        float,
        typer.Option(min=0, help="For how long to wait until Coplace has it as cancelled."),
    ] = 30.0,
) -> None:
    """Give a Job that waits back to Kubernetes, which starts it by its own rules.

    It needs the right to change Jobs and the records of Coplace, which operators have.
    """
    with only_warnings():
        done, job_id = asyncio.run(_released(current(kubeconfig, context, namespace), job, wait_s))
    report(done, job_id)


async def _released(where: Current, name: str, wait_s: float) -> tuple[JobsReleased, str]:
    job = await job_there(where, name)
    parts: Sequence[str] = known_id(job.annotations).split("/")
    site, cluster = (parts[0], parts[1]) if len(parts) > 1 else ("unknown", "current")
    terms = _terms(site, job.labels.get(QUEUE_NAME, ""))
    job_id = id_of(KubernetesJob(cluster, job.fields), terms)
    async with at_server(where, cluster) as api:
        return await release_jobs({cluster: api}, terms, job_id, wait_s), job_id


def _terms(site: str, queue: str = "") -> JobTerms:
    """What a Job does not say, where no process is asked."""
    return JobTerms(site, site, "", "", _DAY_S, {}, queue)
