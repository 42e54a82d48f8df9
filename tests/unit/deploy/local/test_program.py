import pytest

from deploy.local.program import Program


@pytest.mark.parametrize("name", ["", "Kafka", "../etc", "a b", "1st"])
def test_a_name_that_is_not_fit_for_a_file_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="use a-z"):
        Program(name, ["true"])


def test_a_program_without_a_command_is_refused() -> None:
    with pytest.raises(ValueError, match="argv is empty"):
        Program("idle", [])
