"""Documents that point nowhere, or print programs that do not run, are worse than none."""

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import pytest

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
        *(REPOSITORY / "tests").rglob("*.md"),
    ]
)
_LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)\s]+)\)")
# Words a sentence, on a page: in the median, and of nine in ten.
_MEDIAN_WORDS: Final = 14
_MOST_WORDS: Final = 24
_NO_PROSE: Final = re.compile(r"^```.*?^```|^(?:\||#|\s*<).*?$", re.MULTILINE | re.DOTALL)
_LINK_TEXT: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ITEM: Final = re.compile(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. ")
_END: Final = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z0-9(])")


def sentence_lengths(text: str) -> Iterator[int]:
    """Yield the words of each sentence of at least three; code is one word."""
    plain = re.sub(r"`[^`]*`", "x", _LINK_TEXT.sub(r"\1", _NO_PROSE.sub("", text)))
    for item in _ITEM.split(plain):
        yield from filter(
            lambda words: words >= 3, (len(each.split()) for each in _END.split(item))
        )


def test_sentences_are_short_on_each_page() -> None:
    long = {}
    for document in DOCUMENTS:
        lengths = sorted(sentence_lengths(document.read_text()))
        if document.name != "CHANGELOG.md" and lengths:
            most = lengths[int(0.9 * len(lengths))]
            if median(lengths) > _MEDIAN_WORDS or most > _MOST_WORDS:
                long[str(document.relative_to(REPOSITORY))] = (median(lengths), most)
    assert long == {}, "pages, with the median and the ninth tenth of their sentences' words"


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("One two three. Four five six seven.", [3, 4]),
        ("A `long piece of code` is one word, a [link with text](to/a/page) is its text.", [12]),
        ("# Heading of four words\nThree words here\n- Another item is here\n", [3, 4]),
        ("| a | table | is | none |\n\n```\nThis is no sentence.\n```\n", []),
        ("A clause before it: Two after it.", [4, 3]),
    ],
)
def test_words_of_sentences_are_counted(text: str, lengths: list[int]) -> None:
    assert [*sentence_lengths(text)] == lengths


def test_every_link_of_a_document_leads_somewhere() -> None:
    for document in DOCUMENTS:
        for link in _LINK.finditer(document.read_text()):
            target, _, anchor = link["target"].partition("#")
            file = (document.parent / target).resolve() if target else document
            assert file.exists(), (document, link["target"])
            assert not anchor or anchor in _anchors(file), (document, link["target"])


def test_the_index_names_each_page_once_and_leaves_none_out() -> None:
    index = REPOSITORY / "docs" / "index.md"
    linked = _LINK.findall(index.read_text())
    assert len(linked) == len(set(linked))
    pages = {(index.parent / target).resolve() for target in linked}
    records = {*(REPOSITORY / "docs").rglob("[0-9][0-9][0-9][0-9]-*.md")}
    assert {*DOCUMENTS} - records - pages - {index} == set()


def test_the_readme_leads_to_the_index_and_has_120_lines_at_most() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    assert "](docs/index.md)" in readme
    assert len(readme.splitlines()) <= 120


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


def test_a_decision_record_has_400_words_at_most_and_its_figures_are_results() -> None:
    folder = REPOSITORY / "docs"
    records = {path.name: path.read_text() for path in (folder / "adr").glob("[0-9]*.md")}
    assert {
        name: len(text.split()) for name, text in records.items() if len(text.split()) > 400
    } == {}
    for path in (folder / "results" / "records").glob("*.md"):
        assert f"](../results/records/{path.name})" in records[path.name]


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
