"""Documents that point nowhere, or print programs that do not run, are worse than none."""

import re
from pathlib import Path

from tests.support.paste import steps
from tests.support.snippets import HOW_TO, REPOSITORY, programs

# What a reader of the examples installs beside them.
_INSTALLED = "node_modules"
DOCUMENTS = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *(each for each in (REPOSITORY / "docs").rglob("*.md") if _INSTALLED not in each.parts),
        *(REPOSITORY / "agent").rglob("*.md"),
        *(REPOSITORY / "coplace_testing").rglob("*.md"),
        *(REPOSITORY / "lab").rglob("*.md"),
        *(REPOSITORY / "services").rglob("*.md"),
        *(REPOSITORY / "shared").rglob("*.md"),
    ]
)
_LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)\s]+)\)")


def test_every_link_of_a_document_leads_somewhere() -> None:
    for document in DOCUMENTS:
        for link in _LINK.finditer(document.read_text()):
            target, _, anchor = link["target"].partition("#")
            file = (document.parent / target).resolve() if target else document
            assert file.exists(), (document, link["target"])
            assert not anchor or anchor in _anchors(file), (document, link["target"])


def test_a_list_of_pages_in_the_readme_names_each_once_and_no_how_to_is_left_out() -> None:
    text = (REPOSITORY / "README.md").read_text()
    pages = [_LINK.findall(paragraph) for paragraph in text.split("\n\n")]
    for linked in pages:
        assert len(linked) == len(set(linked)), linked
    told = {page.partition("#")[0] for linked in pages for page in linked}
    assert {f"docs/how-to/{path.name}" for path in HOW_TO.glob("*.md")} <= told


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}


def test_the_list_of_decisions_is_complete() -> None:
    folder = REPOSITORY / "docs" / "adr"
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {path.name for path in folder.glob("[0-9]*.md")}


def test_a_decision_record_says_why_what_follows_and_what_was_rejected() -> None:
    for record in sorted((REPOSITORY / "docs" / "adr").glob("[0-9]*.md")):
        sections = re.findall(r"^## (.+)$", record.read_text(), re.MULTILINE)
        assert sections == ["Context", "Decision", "Consequences", "Rejected"], record


def test_the_terms_of_a_glossary_table_are_in_order_and_defined_once() -> None:
    glossary = (REPOSITORY / "docs" / "glossary.md").read_text()
    tables = [
        re.findall(r"^\| (?!Term)([^|]+?) \|", section, re.MULTILINE)
        for section in glossary.split("\n## ")
    ]
    for terms in tables:
        assert terms == sorted(terms, key=lambda term: term.strip("`").lower())
    every = [term for terms in tables for term in terms]
    assert len(every) == len(set(every))


def test_the_programs_of_a_how_to_are_valid_python() -> None:
    for document in HOW_TO.glob("*.md"):
        for name, code in programs(document).items():
            compile(code, f"{document.name}: {name}", "exec")


def test_what_is_pasted_from_the_readme_calls_no_command_before_it_is_on_the_path() -> None:
    before = "".join(steps()).partition("export PATH=")[0]
    assert not re.findall(r"^coplace .*", before, re.MULTILINE)
