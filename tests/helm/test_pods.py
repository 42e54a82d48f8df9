"""What an operator adds to pods and services, for all of them or for one."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from tests.helm.chart import (
    KUBERNETES_JOBS,
    OWN_SERVERS,
    Document,
    named,
    refusal,
    render,
    variables,
)

ALL: Final = (
    *("--set", "nodeSelector.pool=batch,podLabels.team=hpc,podAnnotations.mesh=off"),
    *("--set-json", 'affinity={"nodeAffinity":{"a":"all"}}'),
    *("--set-json", 'tolerations=[{"key":"all","operator":"Exists"}]'),
    *("--set-json", 'extraVolumes=[{"name":"certs","configMap":{"name":"certs"}}]'),
    *("--set-json", 'extraVolumeMounts=[{"name":"certs","mountPath":"/certs"}]'),
)
OF_ONE: Final = (
    *("--set", "COMPONENT.nodeSelector.pool=fast,COMPONENT.podLabels.tier=one"),
    *("--set", "COMPONENT.podAnnotations.scrape=yes"),
    *("--set-json", 'COMPONENT.affinity={"podAffinity":{"a":"one"}}'),
    *("--set-json", "COMPONENT.tolerations=[]"),
    *("--set-json", 'COMPONENT.extraVolumes=[{"name":"own","emptyDir":{}}]'),
    *("--set-json", 'COMPONENT.extraVolumeMounts=[{"name":"own","mountPath":"/own"}]'),
)
# Where the values of a component are, its pod's name, and values with which there is one.
COMPONENTS: Final = {
    "services.ingest": "region-ingest",
    "services.placement": "region-placement",
    "kafka.own": "region-kafka",
    "redis.own": "region-redis",
    "kubernetes": "region-kubernetes",
}


def templates(documents: tuple[Document, ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for each in documents:
        if each["kind"] == "Pod":
            yield each["metadata"]["name"], each
        elif "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]


def of_one(component: str) -> tuple[str, ...]:
    return tuple(word.replace("COMPONENT", component) for word in OF_ONE)


def test_all_pods_have_what_the_values_say_of_all() -> None:
    found = dict(templates(render(KUBERNETES_JOBS, *ALL)))
    assert {"region-test", "region-preflight", "region-kafka", "region-kubernetes"} <= found.keys()
    for name, pod in found.items():
        spec, metadata = pod["spec"], pod["metadata"]
        assert spec["nodeSelector"] == {"pool": "batch"}, name
        assert spec["affinity"] == {"nodeAffinity": {"a": "all"}}, name
        assert spec["tolerations"] == [{"key": "all", "operator": "Exists"}], name
        assert metadata["labels"]["team"] == "hpc", name
        assert metadata["annotations"]["mesh"] == "off", name
        assert {"name": "certs", "configMap": {"name": "certs"}} in spec["volumes"], name
        mounts = spec["containers"][0]["volumeMounts"]
        assert {"name": "certs", "mountPath": "/certs"} in mounts, name


@pytest.mark.parametrize("component", COMPONENTS)
def test_what_one_says_takes_the_place_of_what_is_said_of_all(component: str) -> None:
    found = dict(templates(render(KUBERNETES_JOBS, *ALL, *of_one(component))))
    pod = found[COMPONENTS[component]]
    spec, metadata = pod["spec"], pod["metadata"]
    assert spec["nodeSelector"] == {"pool": "fast"}
    assert spec["affinity"] == {"podAffinity": {"a": "one"}}
    assert "tolerations" not in spec
    assert metadata["labels"]["tier"] == "one"
    assert "team" not in metadata["labels"]
    assert metadata["annotations"]["scrape"] == "yes"
    assert "mesh" not in metadata["annotations"]
    volumes = {each["name"] for each in spec["volumes"]}
    assert "own" in volumes
    assert "certs" not in volumes
    assert found["region-pricing"]["spec"]["nodeSelector"] == {"pool": "batch"}


def test_labels_of_the_chart_stay_beside_those_of_the_operator() -> None:
    before = dict(templates(render(KUBERNETES_JOBS)))
    for name, pod in templates(render(KUBERNETES_JOBS, *ALL)):
        own, annotations = before[name]["metadata"], pod["metadata"]["annotations"]
        assert own["labels"].items() <= pod["metadata"]["labels"].items()
        assert own.get("annotations", {}).items() <= annotations.items()


@pytest.mark.parametrize(
    "value",
    [
        r"podLabels.app\.kubernetes\.io/name=x",
        r"services.ingest.podLabels.coplace\.io/x=x",
        r"kubernetes.podAnnotations.checksum/clusters=x",
        "services.energy.service.type=NodePort",
        "service.type=ExternalName",
        "services.ingest.extraVolumeMounts[0].name=x",
    ],
)
def test_what_would_break_the_release_is_refused(value: str) -> None:
    assert "values don't meet" in refusal(value, values=KUBERNETES_JOBS)


def test_services_that_clients_call_are_reached_as_the_operator_says() -> None:
    more = (
        *("--set", "service.type=NodePort,services.ingest.service.type=LoadBalancer"),
        *("--set", "services.ingest.service.annotations.pool=public"),
    )
    found = named(render(OWN_SERVERS, *more), "Service")
    types = {name: each["spec"].get("type") for name, each in found.items()}
    assert types["region-ingest"] == "LoadBalancer"
    assert found["region-ingest"]["metadata"]["annotations"] == {"pool": "public"}
    assert types["region-placement"] == "NodePort"
    # What only metrics are read from stays inside.
    assert found["region-pricing"]["spec"]["clusterIP"] == "None"
    assert {name for name, kind in types.items() if kind == "NodePort"} >= {"region-watch"}


def test_a_variable_is_there_once_and_the_nearest_value_counts() -> None:
    sets = "env.COPLACE_LOG_LEVEL=warning,env.COPLACE_HTTP_PORT=1"
    sets += ",kubernetes.env.COPLACE_LOG_LEVEL=debug"
    for name, pod in templates(render(KUBERNETES_JOBS, "--set", sets)):
        for container in pod["spec"]["containers"]:
            names = [each["name"] for each in container.get("env", ())]
            assert len(names) == len(set(names)), name
    found = dict(templates(render(KUBERNETES_JOBS, "--set", sets)))
    level = {
        name: variables(found[f"region-{name}"]["spec"])["COPLACE_LOG_LEVEL"]["value"]
        for name in ("kubernetes", "ingest", "test")
    }
    assert level == {"kubernetes": "debug", "ingest": "warning", "test": "warning"}
