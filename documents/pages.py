"""Where a file of the repository is in the site, and what its links become there."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parents[1]
# Others' packages below an example, and what the tests say of themselves.
_LEFT_OUT: Final = ("node_modules",)
_FOLDERS: Final = ("agent", "coplace_testing", "docs", "examples", "lab", "services", "tests")
# A reader of the repository is led to a declaration, a reader of the site to its page.
_DECLARATIONS: Final[Mapping[str, str]] = {
    "cli/main.py": "reference/commands.md",
    "proto/topics": "reference/topics.md",
    "shared/process/settings.py": "reference/settings.md",
    "shared/process/telemetry.py": "reference/metrics.md",
}
_FENCED: Final = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_MERMAID: Final = re.compile(r"```mermaid\n(?P<source>.*?)^```", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:)(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)"
)


def sources() -> Iterator[PurePosixPath]:
    """Return the pages of the repository by their paths in it."""
    for path in sorted(ROOT.glob("*.md")):
        yield PurePosixPath(path.name)
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.md")):
            if not set(_LEFT_OUT) & set(path.parts):
                yield PurePosixPath(path.relative_to(ROOT))


def place(source: PurePosixPath) -> PurePosixPath:
    """Return where a page of the repository is in the site."""
    if source.parts[0] == "docs":
        within = PurePosixPath(*source.parts[1:])
        return within.with_name("index.md") if within.name == "README.md" else within
    if len(source.parts) == 1:
        return PurePosixPath("project", source.name.lower())
    folder = source.parent if source.name == "README.md" else source.with_suffix("")
    return PurePosixPath("parts", f"{folder}.md")


@dataclass(frozen=True, slots=True)
class Staged:
    """The text of a page in the site, and what it shows or hands out beside it."""

    text: str
    files: frozenset[PurePosixPath] = frozenset()
    """Of the repository, in the site below `files/`."""
    diagrams: Mapping[str, str] = field(default_factory=dict)
    """Sources in Mermaid by file name, beside the page."""


def staged(source: PurePosixPath, pages: frozenset[PurePosixPath]) -> Staged:
    """Return a page with its links turned to the site's pages and its diagrams to pictures."""
    files: set[PurePosixPath] = set()
    diagrams: dict[str, str] = {}
    here = place(source)

    def relative(to: PurePosixPath) -> str:
        return os.path.relpath(to, here.parent)

    def link(found: re.Match[str]) -> str:
        if not found["target"]:
            return found[0]
        target = PurePosixPath(os.path.normpath(source.parent / found["target"]))
        anchor = found["anchor"] or ""
        if target in pages:
            return f"[{found['text']}]({relative(place(target))}{anchor})"
        if page := _declared(target):
            return f"[{found['text']}]({relative(PurePosixPath(page[0]))}{page[1]})"
        if (ROOT / target).is_dir():
            return found["text"]
        files.add(target)
        return f"{found['image']}[{found['text']}]({relative('files' / target)})"

    def picture(found: re.Match[str]) -> str:
        name = f"{here.stem}-{len(diagrams) + 1}.svg"
        diagrams[name] = found["source"]
        # The picture opens alone, as large as it is.
        return f"[![Diagram]({name})]({name})"

    text = (ROOT / source).read_text(encoding="utf-8")
    parts = _FENCED.split(text)
    whole = "".join(
        _MERMAID.sub(picture, part) if part.startswith("```") else _LINK.sub(link, part)
        for part in parts
    )
    return Staged(whole, frozenset(files), diagrams)


def _declared(target: PurePosixPath) -> tuple[str, str] | None:
    if page := _DECLARATIONS.get(str(target)):
        return page, ""
    if target.match("proto/topics/*.yaml"):
        return _DECLARATIONS["proto/topics"], f"#{target.stem.replace('.', '')}"
    return None


def with_contents(text: str) -> str:
    """Return the index with the pages that it links to as the site's contents, by its headings."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    headed = zip(parts[1::2], parts[2::2], strict=True)
    contents = "".join(_contents(heading, body) for heading, body in headed)
    return f"{text.rstrip()}\n\n{contents}"


def _contents(heading: str, body: str) -> str:
    pages = dict.fromkeys(found["target"] for found in _LINK.finditer(body))
    return "\n".join(("```{toctree}", ":hidden:", f":caption: {heading}\n", *pages, "```\n\n"))
