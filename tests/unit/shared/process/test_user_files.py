"""Files that users name are read within bounds."""

import gzip
import time
from pathlib import Path

import pytest

from coplace_client.errors import UnusableError
from shared.process import user_files
from shared.process.user_files import BrokenOffError, lines, read_yaml

LAUGHS = "\n".join(
    ["a0: &a0 [ha]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))]
)


def test_compressed_and_plain_text_have_the_same_lines_whatever_they_are_called(
    tmp_path: Path,
) -> None:
    plain, packed = tmp_path / "a.gz", tmp_path / "b.txt"
    plain.write_text("one\ntwo")
    packed.write_bytes(gzip.compress(b"one\ntwo"))
    assert list(lines(plain)) == list(lines(packed)) == ["one\n", "two"]


def test_a_line_without_end_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    began_s = time.monotonic()
    with pytest.raises(UnusableError, match="has a line of over"):
        list(lines(path))
    assert time.monotonic() - began_s < 1


def test_a_text_without_end_is_refused_once_it_is_too_long() -> None:
    read = lines(Path("/dev/zero"))
    with pytest.raises(UnusableError, match="has a line of over"):
        next(read)


def test_more_than_is_taken_is_refused_behind_what_is(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_text("four\n" * 10)
    read = lines(path, most=12)
    assert [next(read), next(read)] == ["four\n"] * 2
    with pytest.raises(UnusableError, match="more than 12 characters"):
        next(read)


def test_a_damaged_file_gives_its_lines_and_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"line\n" * 100_000)[:-20])
    read = lines(path)
    assert next(read) == "line\n"
    with pytest.raises(BrokenOffError, match="is damaged"):
        list(read)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LAUGHS, "aliases"),
        ("[" * 10_000, "levels deep"),
        ("- " * 10_000, "levels deep"),
        ("x" * (user_files.MOST_YAML_CHARACTERS + 1), "characters"),
        ("!!python/object/apply:os.system [id]", "not usable YAML"),
        ("nodes: 2024-99-99", "not usable YAML"),
        ("9" * 5_000, "not usable YAML"),
        ("a: b: c", "not usable YAML"),
    ],
)
def test_hostile_yaml_is_refused_at_once(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    began_s = time.process_time()
    with pytest.raises(UnusableError, match=told):
        read_yaml(path)
    assert time.process_time() - began_s < 2


def test_plain_yaml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text("clusters: [{name: p1, nodes: 4}]\n")
    assert read_yaml(path) == {"clusters": [{"name": "p1", "nodes": 4}]}
