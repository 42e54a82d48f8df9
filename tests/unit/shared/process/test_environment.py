"""A setting that cannot work ends a process with one line that names its variable."""

import subprocess
import sys
import traceback

import pytest

from coplace_client.errors import WrongSettingsError
from services.placement.settings import PlacementSettings
from shared.process.environment import run
from shared.process.settings import Settings


def test_the_variable_is_named_with_its_value_and_what_it_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPLACE_PLACEMENT_POLICY", "foo")
    with pytest.raises(WrongSettingsError, match=r"COPLACE_PLACEMENT_POLICY=foo: .*'reorder'"):
        PlacementSettings()


def test_a_long_value_is_shown_in_part_and_all_that_is_wrong_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPLACE_NAMESPACE", "?" * 1_000)
    monkeypatch.setenv("COPLACE_HTTP_PORT", "-1")
    with pytest.raises(WrongSettingsError) as caught:
        Settings()
    assert "COPLACE_NAMESPACE=????" in str(caught.value)
    assert "COPLACE_HTTP_PORT=-1" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COPLACE_REDIS_URL", "http://:hunter2@redis:6379/0"),
        ("COPLACE_KAFKA_SECURITY_PROTOCOL", "SASL_SSL"),
    ],
)
def test_no_password_is_reported_nor_in_a_traceback(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("COPLACE_KAFKA_SASL_PASSWORD", "hunter2")
    monkeypatch.setenv(name, value)
    with pytest.raises(WrongSettingsError) as caught:
        Settings()
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_process_ends_with_one_line() -> None:
    def main() -> None:
        raise WrongSettingsError("COPLACE_X=y: is wrong")

    with pytest.raises(SystemExit, match=r"^error: COPLACE_X=y: is wrong$"):
        run(main)


@pytest.mark.rest
def test_a_service_set_to_nonsense_says_so_in_one_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "services.placement"],
        env={"COPLACE_PLACEMENT_POLICY": "foo", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: COPLACE_PLACEMENT_POLICY=foo: ")
    assert len(ended.stderr.splitlines()) == 1
