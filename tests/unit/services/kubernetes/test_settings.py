"""What an operator wrote wrong is named before anything starts."""

from pathlib import Path

import pytest

from coplace_client.errors import WrongSettingsError
from services.kubernetes.settings import KubernetesSettings, clusters_of

ALPHA = (
    "{name: alpha, node_model: g, pstates_ghz: [3.1], idle_power_w: 110, peak_bandwidth_gbps: 140}"
)


def written(tmp_path: Path, *clusters: str) -> Path:
    path = tmp_path / "clusters.yaml"
    path.write_text("clusters:\n" + "".join(f"  - {each}\n" for each in clusters))
    return path


def test_clusters_are_read_from_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, ALPHA)
    monkeypatch.setenv("COPLACE_KUBERNETES_SITE", "north")
    monkeypatch.setenv("COPLACE_KUBERNETES_CLUSTERS_FILE", str(path))
    settings = KubernetesSettings()
    [alpha] = clusters_of(path)
    assert alpha.traits("north", settings.architecture).architecture == "north/kubernetes"
    rated = written(tmp_path, ALPHA.replace("}", ", nameplate_power_w: 700}"))
    assert clusters_of(rated)[0].traits("north", settings.architecture).nameplate_power_w == 700
    of_processors = written(tmp_path, ALPHA.replace("}", ", processors_tdp_w: 400}"))
    assert (
        clusters_of(of_processors)[0].traits("north", settings.architecture).processors_tdp_w == 400
    )
    assert settings.terms([alpha]).node_models == {"alpha": "g"}


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        ([], "clusters: "),
        ([ALPHA, ALPHA], "alpha is listed twice"),
        (["{name: alpha}"], "clusters.0.node_model: Field required"),
        ([ALPHA.replace("node_model", "model")], "clusters.0.node_model: Field required"),
        ([ALPHA.replace("alpha", "a/b")], "clusters.0.name: "),
        (["{name: ["], "clusters.yaml: "),
    ],
)
def test_a_file_that_cannot_be_right_names_what_is_wrong(
    tmp_path: Path, clusters: list[str], words: str
) -> None:
    with pytest.raises(WrongSettingsError) as wrong:
        clusters_of(written(tmp_path, *clusters))
    assert words in str(wrong.value)


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(WrongSettingsError, match="COPLACE_KUBERNETES_SITE"):
        KubernetesSettings()


BETA = ALPHA.replace("alpha", "beta").replace("}", ", executor: site-beta}")


def test_a_cluster_may_have_an_executor_in_place_of_a_kubeconfig(tmp_path: Path) -> None:
    alpha, beta = clusters_of(written(tmp_path, ALPHA, BETA))
    assert (alpha.executor, beta.executor) == ("", "site-beta")
    queued = BETA.replace("}", ", kueue_queue: main}")
    assert clusters_of(written(tmp_path, ALPHA, queued))[1].kueue_queue == "main"


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        ([BETA], "clusters.0.executor: the first cluster keeps the assignments"),
        ([ALPHA, BETA, BETA.replace("beta,", "gamma,")], "executor: site-beta is of two clusters"),
        ([ALPHA, BETA.replace("}", ", context: b}")], "context must not be set beside executor"),
        ([ALPHA, BETA.replace("site-beta", "Site_Beta")], "clusters.1.executor: "),
    ],
)
def test_an_executor_that_cannot_be_right_is_named(
    tmp_path: Path, clusters: list[str], words: str
) -> None:
    with pytest.raises(WrongSettingsError, match=words):
        clusters_of(written(tmp_path, *clusters))
