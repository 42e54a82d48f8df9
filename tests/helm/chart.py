"""What helm makes of the chart, rendered once for each question."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml
from jsonschema.protocols import Validator
from referencing import Registry, Resource

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm/coplace"
EXECUTOR_CHART = ROOT / "helm/coplace-executor"
EXAMPLES = sorted((ROOT / "helm/examples").glob("*.yaml"))
FIRST_TRY, OWN_SERVERS, AUTOSCALED, STRIMZI, KUBERNETES_JOBS, KUEUE, SLURM, KUBERNETES_EXECUTOR = (
    ROOT / f"helm/examples/{name}.yaml"
    for name in (
        *("first-try", "own-servers", "autoscaled", "strimzi", "kubernetes-jobs", "kueue", "slurm"),
        "kubernetes-executor",
    )
)
# From the oldest that the chart says it runs on to the newest whose schemas are at hand.
VERSIONS = ["1.28.0", "1.31.0", "1.34.0", "1.37.0"]
# Custom resources: their schemas come with their operators.
OPERATORS = (
    *("keda.sh/v1alpha1", "monitoring.coreos.com/v1", "kafka.strimzi.io/v1"),
    "cert-manager.io/v1",
)

_SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"

Document = Mapping[str, Any]


@cache
def program() -> str:
    """Where helm is: HELM, or fetched once."""
    return (
        os.environ.get("HELM")
        or subprocess.check_output([ROOT / "deploy/helm.sh"], text=True).strip()
    )


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm, however it ends."""
    return subprocess.run([program(), *arguments], capture_output=True, text=True, check=False)


@cache
def render(values: Path, *arguments: str, version: str = "1.34.0") -> tuple[Document, ...]:
    """What the chart installs where every operator is there."""
    known = [word for api in OPERATORS for word in ("--api-versions", api)]
    words = ["--kube-version", version, "--values", str(values), *known, *arguments]
    done = helm("template", "region", str(CHART), *words)
    assert done.returncode == 0, done.stderr
    documents = yaml.load_all(done.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tuple(document for document in documents if document)


@cache
def render_executor(*sets: str, known: tuple[str, ...] = ()) -> tuple[Document, ...]:
    """What the chart of the executor installs where API servers have the `known` kinds too."""
    words = [word for each in sets for word in ("--set", each)]
    words += [word for each in known for word in ("--api-versions", each)]
    done = helm("template", "beta", str(EXECUTOR_CHART), "--kube-version", "1.34.0", *words)
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def refusal(*sets: str, values: Path | None = None, known: Sequence[str] = ()) -> str:
    """What helm says of values that it does not take."""
    words = [word for each in sets for word in ("--set", each)]
    words += [*(["--values", str(values)] if values else []), *known]
    done = helm("template", "region", str(CHART), "--kube-version", "1.34.0", *words)
    assert done.returncode != 0
    return done.stderr


def named(documents: tuple[Document, ...], kind: str) -> Mapping[str, Document]:
    """Those of a kind, by name."""
    return {d["metadata"]["name"]: d for d in documents if d["kind"] == kind}


def pods(documents: tuple[Document, ...]) -> Iterator[tuple[str, Document, Mapping[str, str]]]:
    """Name, specification and labels of every pod there will be."""
    for document in documents:
        if document["kind"] == "Pod":
            yield document["metadata"]["name"], document["spec"], document["metadata"]["labels"]
        elif "template" in document.get("spec", {}):
            pod = document["spec"]["template"]
            yield document["metadata"]["name"], pod["spec"], pod["metadata"]["labels"]


def variables(pod: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The environment of a pod's first container, by name."""
    return {each["name"]: each for each in pod["containers"][0].get("env", ())}


def validate(document: Document, version: str) -> None:
    """Raise ValidationError unless a Kubernetes of this version takes it, every field known."""
    group = document["apiVersion"].split("/")
    kind = f"{document['kind'].lower()}-{'-'.join([group[0].split('.')[0], *group[1:]])}"
    _validator(f"v{version}-local-strict", kind).validate(document)


@cache
def _validator(folder: str, kind: str) -> Validator:
    schema = json.loads((_SCHEMAS / folder / f"{kind}.json").read_text())
    return jsonschema.Draft202012Validator(schema, registry=_definitions(folder))


@cache
def _definitions(folder: str) -> Registry[Any]:
    text = (_SCHEMAS / folder / "_definitions.json").read_text()
    found = Resource.from_contents(json.loads(text))
    registry: Registry[Any] = Registry().with_resource(f"{found.id()}", found)
    return registry.crawl()
