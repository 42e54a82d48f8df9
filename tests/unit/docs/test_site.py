"""The documents become a site, which needs nothing from outside."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from documents.pages import place, sources, staged
from documents.reference import commands, metrics, settings, topics
from shared.catalogue.topics import load_topics
from tests.support.snippets import REPOSITORY

_PAGES: Final = frozenset(sources())
_INDEX: Final = next(each for each in _PAGES if str(each) == "docs/index.md")
# What a browser fetches by itself, and where from: not what a reader may click on.
_FETCHED: Final = re.compile(
    r'<(?:script|img|iframe|source|embed)\b[^>]*?\bsrc="([^"]+)"|<link\b[^>]*?\bhref="([^"]+)"'
    r"|@import[^;]*?[\"'(]([^\"')]+)|url\([\"']?([^\"')]+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a link that leads nowhere, or a page that no list names, is an error. In a
    process of its own, as a user builds it: Sphinx forks, and what other tests left in this
    process (the threads of gRPC) does not survive a fork."""
    out = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "documents", "--out", out], cwd=REPOSITORY, check=True)
    return out


# Three quarters of a minute of CPU, on two cores.
@pytest.mark.rest
def test_the_site_has_every_page_and_fetches_nothing_from_outside(site: Path) -> None:
    missing = [each for each in _PAGES if not (site / place(each)).with_suffix(".html").exists()]
    assert missing == []
    fetched = {
        (file.relative_to(site), address)
        for file in site.rglob("*")
        if file.suffix in (".html", ".css", ".svg")
        for groups in _FETCHED.findall(file.read_text(encoding="utf-8"))
        for address in groups
        if re.match(r"(https?:)?//", address)
    }
    assert fetched == set()


@pytest.mark.rest
def test_each_diagram_is_a_picture_and_no_script_draws_it(site: Path) -> None:
    page = (site / "architecture.html").read_text(encoding="utf-8")
    assert "flowchart LR" not in page
    drawn = [each.read_text(encoding="utf-8") for each in (site / "_images").glob("architecture-*")]
    source = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(drawn) == source.count("```mermaid\n")
    assert any("placement.sequencer" in picture for picture in drawn)


def test_a_link_to_a_declaration_leads_to_the_page_that_follows_from_it() -> None:
    text = staged(_INDEX, _PAGES).text
    for name in ("commands", "metrics", "settings", "topics"):
        assert f"](reference/{name}.md)" in text


def test_the_reference_has_every_topic_with_its_example() -> None:
    page = topics.page()
    for name, topic in load_topics().items():
        assert f"## {name}\n" in page
        assert str(topic.example["headers"]["ce_id"] if topic.messages else name) in page


def test_the_reference_has_commands_with_their_options_and_variables() -> None:
    page = commands.page()
    assert "## coplace cap set\n" in page
    assert re.search(
        r"^\| `--placement` \| `127.0.0.1:50053` \| .*`COPLACE_PLACEMENT_ADDRESS`",
        page,
        re.MULTILINE,
    )
    assert "### coplace-agent attach\n" in page


def test_the_reference_has_settings_with_their_defaults_and_bounds() -> None:
    page = settings.page()
    assert "| `COPLACE_PRICING_GRACE_S` | `60.0` |" in page
    assert "| `COPLACE_HTTP_PORT` | `0` | from 0, to 65,535 |" in page
    assert "| `COPLACE_AGENT_PERIOD_S` | `0.2` | above 0, to 3600 |" in page
    assert "/root/" not in page


def test_an_alert_asks_for_metrics_of_the_reference_alone() -> None:
    known = {each.name for found in metrics.by_process().values() for each in found}
    alerts = (REPOSITORY / "helm" / "coplace" / "files" / "alerts.yml").read_text()
    asked = {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bcoplace_\w+", alerts)
    }
    assert asked
    assert asked <= known
