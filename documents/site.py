"""Builds the site: stages its pages in a folder, and has Sphinx make HTML of them, strictly."""

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from merman import Merman
from sphinx.application import Sphinx
from sphinx.search import languages
from sphinx.search.en import SearchEnglish
from sphinx.util.docutils import docutils_namespace, patch_docutils

from coplace_client.errors import UnusableError
from documents.pages import ROOT, place, sources, staged, with_contents
from documents.reference import commands, metrics, settings, topics

# The page whose links are the contents of the site.
_INDEX: Final = PurePosixPath("docs/index.md")
# In the contents of every page the records would be more than all others: their list has them.
_RECORDS: Final = "[0-9][0-9][0-9][0-9]-*.md"
_NOT_IN_CONTENTS: Final = "---\norphan: true\n---\n\n"
_OPTIONS: Final[Mapping[str, Any]] = {
    "project": "Coplace",
    "copyright": "2026 The Coplace contributors",
    "html_title": "Coplace",
    "html_theme": "furo",
    "html_show_sourcelink": False,
    "html_copy_source": False,
    "extensions": ["myst_parser"],
    "myst_heading_anchors": 6,
    "highlight_language": "text",
    # A block may be a part of a file, or have a comment where its language has none.
    "suppress_warnings": ["misc.highlighting_failure", "myst.header"],
    "templates_path": [],
    "exclude_patterns": ["files"],
    "language": "en",
}


class _RememberedStems(SearchEnglish):
    """Stems each word of the search index once: pages have most words in common."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._stems: dict[str, str] = {}

    def stem(self, word: str) -> str:
        """Return the stem of a word."""
        if word not in self._stems:
            self._stems[word] = super().stem(word)
        return self._stems[word]


languages["en"] = _RememberedStems


class BrokenSiteError(UnusableError):
    """A page, a link or a diagram is wrong."""


def build(out: Path, scratch: Path) -> None:
    """Make the site in a folder, anew. Raises BrokenSiteError."""
    shutil.rmtree(out, ignore_errors=True)
    source = scratch / "source"
    stage(source)
    warnings = scratch / "warnings.txt"
    with patch_docutils(), docutils_namespace(), warnings.open("w", encoding="utf-8") as warned:
        app = Sphinx(
            srcdir=source,
            confdir=None,
            outdir=out,
            doctreedir=scratch / "doctrees",
            buildername="html",
            confoverrides=dict(_OPTIONS),
            status=None,
            warning=warned,
            parallel=2,
        )
        app.build()
    if said := warnings.read_text(encoding="utf-8").strip():
        raise BrokenSiteError(said)


def stage(folder: Path) -> None:
    """Write the pages as Sphinx reads them, with what they show."""
    pages = frozenset(sources())
    for source in pages:
        made = staged(source, pages)
        target = folder / place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_in_contents(source, made.text), encoding="utf-8")
        for name, diagram in made.diagrams.items():
            target.with_name(name).write_text(_picture(diagram), encoding="utf-8")
        for file in made.files:
            _copy(file, folder)
    reference = folder / "reference"
    reference.mkdir()
    for module in (commands, metrics, settings, topics):
        name = f"{module.__name__.rpartition('.')[2]}.md"
        (reference / name).write_text(module.page(), encoding="utf-8")


def _in_contents(source: PurePosixPath, text: str) -> str:
    if source == _INDEX:
        return with_contents(text)
    return f"{_NOT_IN_CONTENTS}{text}" if source.match(_RECORDS) else text


def _picture(diagram: str) -> str:
    return str(Merman().render_svg(diagram, None))


def _copy(file: PurePosixPath, folder: Path) -> None:
    target = folder / "files" / file
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / file, target)
