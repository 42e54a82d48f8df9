"""What an operator wrote wrong is named before anything starts."""

from pathlib import Path

import pytest

from coplace_client.errors import WrongSettingsError
from services.kueue.settings import KueueSettings, clusters_of

ALPHA = "{name: alpha, node_model: g, pstates_ghz: [3.1], idle_power_w: 1, peak_bandwidth_gbps: 1}"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "clusters.yaml"
    path.write_text(text)
    return path


def test_clusters_and_managers_are_read_from_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, f"clusters: [{ALPHA}]\nmanagers: [{{name: m, kubeconfig: k}}]\n")
    monkeypatch.setenv("COPLACE_KUEUE_SITE", "north")
    monkeypatch.setenv("COPLACE_KUEUE_CLUSTERS_FILE", str(path))
    settings, found = KueueSettings(), clusters_of(path)
    assert found.names == ["alpha", "m"]
    assert settings.terms(found.clusters).node_models == {"alpha": "g"}
    assert settings.architecture == "north/kueue"
    assert settings.patience.waits_us == 5_000_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clusters: []\n", "clusters: "),
        (f"clusters: [{ALPHA}]\nmanagers: [{{name: alpha}}]\n", "alpha is listed twice"),
        (f"clusters: [{ALPHA}]\nmanagers: [{{nodes: 4}}]\n", "managers.0."),
        (f"clusters: [{ALPHA}]\nworkers: []\n", "workers"),
    ],
)
def test_a_file_that_cannot_be_right_names_what_is_wrong(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(WrongSettingsError) as wrong:
        clusters_of(written(tmp_path, text))
    assert words in str(wrong.value)


def test_a_check_is_pending_for_less_than_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPLACE_KUEUE_SITE", "north")
    path = written(tmp_path, f"clusters: [{ALPHA}]\n")
    monkeypatch.setenv("COPLACE_KUEUE_CLUSTERS_FILE", str(path))
    monkeypatch.setenv("COPLACE_KUEUE_WAITS_S", "9")
    with pytest.raises(WrongSettingsError, match="COPLACE_KUEUE_WAITS_S"):
        KueueSettings()
