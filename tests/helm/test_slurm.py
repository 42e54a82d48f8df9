"""The resource manager beside a Slurm: whom it reaches, and as whom."""

from pathlib import Path
from typing import Any

import pytest

from services.slurm.settings import shares_of
from tests.helm.chart import FIRST_TRY, SLURM, refusal, render

_NAME = "region-slurm"


def of_kind(kind: str, *arguments: str) -> Any:
    [found] = [
        each
        for each in render(SLURM, *arguments)
        if (each["kind"], each["metadata"]["name"]) == (kind, _NAME)
    ]
    return found


def pod(*arguments: str) -> Any:
    return of_kind("StatefulSet", *arguments)["spec"]["template"]["spec"]


def test_it_reads_the_clusters_that_the_values_name(tmp_path: Any) -> None:
    file = tmp_path / "clusters.yaml"
    file.write_text(of_kind("ConfigMap")["data"]["clusters.yaml"])
    assert [each.cluster for each in shares_of(file)] == ["gold", "rome"]


def test_both_containers_are_slurm_user_and_share_the_socket_of_munge() -> None:
    found = pod("--set", "slurm.user=450")
    assert found["securityContext"]["runAsUser"] == found["securityContext"]["fsGroup"] == 450
    mounts = [{each["name"] for each in one["volumeMounts"]} for one in found["containers"]]
    assert [("munge" in each, "key" in each) for each in mounts] == [(True, False), (True, True)]


@pytest.mark.parametrize("size", ["", "2Gi"])
def test_what_it_said_of_jobs_outlives_its_pod_where_it_has_a_volume(size: str) -> None:
    found = of_kind("StatefulSet", "--set", f"slurm.storage={size}")["spec"]
    [own, _] = found["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in own["env"]}
    folder = str(Path(variables["COPLACE_SLURM_CURSOR_FILE"]).parent)
    claims = {each["metadata"]["name"] for each in found.get("volumeClaimTemplates", ())}
    mounted = {each["mountPath"]: each["name"] for each in own["volumeMounts"]}
    assert (mounted[folder] in claims) is bool(size)


def test_it_has_no_password_of_kafka_and_hears_decisions_over_grpc() -> None:
    [own, _] = pod()["containers"]
    variables = {each["name"]: each.get("value") for each in own["env"]}
    assert not [name for name in variables if "KAFKA" in name]
    assert variables["COPLACE_SLURM_WATCH_ADDRESS"] == "region-watch:50054"


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (("slurm.enabled=true",), "is missing"),
        (("slurm.enabled=true", "slurm.site=north"), "is missing"),
        (("slurm.clusters[0].cores=4",), "cores"),
    ],
)
def test_what_cannot_work_is_refused(sets: tuple[str, ...], words: str) -> None:
    assert words in refusal(*sets, values=FIRST_TRY)
