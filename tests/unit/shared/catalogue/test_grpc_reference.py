"""The page of what answers over gRPC."""

import re
from pathlib import Path

from shared.catalogue.grpc_reference import reference
from shared.catalogue.schemas import service_descriptors

_PAGE = Path(__file__).parents[4] / "docs" / "grpc-reference.md"


def test_the_page_is_that_of_the_protos() -> None:
    assert _PAGE.read_text() == reference(), "coplace grpc-reference > docs/grpc-reference.md"


def test_every_method_has_words_and_every_link_leads_to_a_message() -> None:
    page = reference()
    for service in service_descriptors():
        for method in service.methods:
            [row] = re.findall(rf"^\| `{method.name}` \|.*$", page, re.MULTILINE)
            assert not row.endswith("|  |"), row
    headings = {each.lower() for each in re.findall(r"^##+ `?(\w+)`?$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= headings
    assert "| `walltime_s` = 7 | double | " in page


def test_what_a_field_must_be_is_said() -> None:
    submitted = reference().partition("### `JobSubmitted`\n")[2]
    assert "\n| `job_id` = 1 | string | there, at most 256 characters | `{site}/" in submitted
    assert "\n| `nodes` = 6 | uint32 | there, 1 to 100000 | How many" in submitted
