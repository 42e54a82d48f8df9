"""A docstring alone says what a function does, and prose is in the words of the field."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.snippets import REPOSITORY
from tests.unit.docs.words import ANY, COMPILED, NO_VERBS, PRIVATE

_CODE: Final = ("agent", "cli", "client/coplace_client", "deploy", "lab", "services", "shared")
_PROSE: Final = (*_CODE, "docs", "helm", "proto", "tests")
_SUFFIXES: Final = frozenset((".py", ".md", ".proto", ".yaml", ".yml"))
# The lists of words themselves, and the tests of them.
_ABOUT_WORDS: Final = Path("tests/unit/docs")
_VERB: Final = re.compile(r"[A-Z][a-z]+")
# A text of Python with its prefix and quotes, or a comment: a fifth of the time that ast takes.
_LITERAL: Final = re.compile(
    r"""([a-zA-Z]*)("{3}|'{3}|"|')((?:[^\\"']|\\.|(?!\2)["'])*+)\2|\#([^\n]*)""", re.DOTALL
)
_COMMENT: Final = re.compile(r"(?:^|\s)# .*$", re.MULTILINE)
_PROTO_COMMENT: Final = re.compile(r"//.*$", re.MULTILINE)
_DESCRIPTION: Final = re.compile(r"^\s*(?:description|summary):.*$", re.MULTILINE)
_FORMATTED: Final = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
_BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`[^`\n]*`")
# Where a link leads is no prose.
_LINKED: Final = re.compile(r"\]\([^)\n]*\)")


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the public functions of a module and its public classes with their docstrings."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name[0] != "_":
                yield f"{prefix}{name}", ast.get_docstring(node) or ""
            case ast.ClassDef(name=name, body=inner) if name[0] != "_":
                yield from functions(inner, f"{prefix}{name}.")


def begins_with_verb(docstring: str) -> bool:
    """Return whether the first word may be a verb: one word, and none that is known to be none."""
    first = docstring.split(maxsplit=1)[0].rstrip(",;:.")
    return bool(_VERB.fullmatch(first)) and first.lower() not in NO_VERBS


def prose(text: str, suffix: str) -> Iterator[str]:
    """Yield what people read of a file: comments, texts and paragraphs, without code in them."""
    match suffix:
        case ".py":
            for prefix, _, literal, comment in _LITERAL.findall(text):
                yield comment
                if " " in literal:
                    yield _INLINE.sub("", _of_literal(literal, prefix.lower()))
        case ".md":
            yield _LINKED.sub("]", _INLINE.sub("", _BLOCK.sub("", text)))
        case ".proto":
            yield from _PROTO_COMMENT.findall(text)
        case _:
            yield from _COMMENT.findall(text)
            yield from _DESCRIPTION.findall(text)


def _of_literal(literal: str, prefix: str) -> str:
    """Return the words of a literal: without the code of one that is formatted, and escapes."""
    text = _FORMATTED.sub("", literal) if "f" in prefix else literal
    return text if "r" in prefix else _ESCAPE.sub(" ", text)


def private_words(text: str, suffix: str) -> Counter[str]:
    """Count the private words in the prose of a file."""
    found: Counter[str] = Counter()
    for each in prose(text, suffix) if ANY.search(text) else ():
        if ANY.search(each):
            found.update({word: len(one.findall(each)) for word, one in COMPILED.items()})
    return found


@pytest.mark.parametrize("root", _CODE)
def test_a_docstring_of_a_function_begins_with_a_verb(root: str) -> None:
    without = [
        (path, function, docstring)
        for path in (REPOSITORY / root).rglob("*.py")
        for function, docstring in functions(ast.parse(path.read_text("utf-8")).body)
        if docstring and not begins_with_verb(docstring)
    ]
    assert not without


@pytest.mark.parametrize("root", [*_PROSE, "README.md", "SECURITY.md"])
def test_prose_has_no_private_word(root: str) -> None:
    for path in (REPOSITORY / root, *(REPOSITORY / root).rglob("*")):
        is_about_words = path.is_relative_to(REPOSITORY / _ABOUT_WORDS)
        if path.suffix in _SUFFIXES and not is_about_words:
            words = private_words(path.read_text("utf-8"), path.suffix)
            assert not words.total(), (path, {each: PRIVATE[each] for each in +words})


@pytest.mark.parametrize(
    ("docstring", "is_verb"),
    [
        ("Return the nodes that are free.", True),
        ("Disconnect; then it may be opened again.", True),
        ("The nodes that are free.", False),
        ("Whether it runs.", False),
        ("`jobs` that run.", False),
        ("JSON of a job.", False),
        ("likewise", False),
    ],
)
def test_what_a_docstring_begins_with(docstring: str, is_verb: bool) -> None:
    assert begins_with_verb(docstring) is is_verb


@pytest.mark.parametrize(
    ("text", "suffix", "words"),
    [
        ('def f(told: int) -> None:\n    """What it tells."""\n', ".py", 1),
        ("told = 1  # told\n", ".py", 1),
        ('raise ValueError(f"{told} is told")\n', ".py", 1),
        ('"told"\n"`told` is a name"\n', ".py", 0),
        ("It is told.\n```\ntold\n```\n`told`\n", ".md", 1),
        ("string told = 1;  // What was told.\n", ".proto", 1),
        ("description: What is told.\ntold: 1  # told\n", ".yaml", 2),
    ],
)
def test_prose_is_what_people_read(text: str, suffix: str, words: int) -> None:
    assert private_words(text, suffix).total() == words
