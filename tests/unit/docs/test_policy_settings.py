"""What is generated of the policy's settings is as their declarations have it."""

from pathlib import Path

import pytest

from deploy.policy_documents import ROOT, documents

DOCUMENTS = documents()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_generated_is_up_to_date(path: Path) -> None:
    assert path.read_text() == DOCUMENTS[path], "run `make settings`"
