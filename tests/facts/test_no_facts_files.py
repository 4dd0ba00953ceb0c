"""Files that hold no facts at all, and paths at which nothing can be read."""

import pytest

from derive import facts
from derive.notation.errors import FactError


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("value = ", "expected TOML, found: Invalid value (at end of document)"),
        ("[chips\n", "expected TOML"),
        ("a = 1\na = 2", "expected TOML"),
        ("a = " + "9" * 5000, "a number out of range"),
        ("a = 1e99999999999999999999999", "found"),
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        (b"\xff\xfe\x00\x01", "expected TOML text in UTF-8"),
        (b"\x00" * 100, "expected TOML"),
        (b"#" * (2**20 + 1), "at most 1048576 bytes"),
        ("", "expected at least one of [sources], [chips], [models], [profiles]"),
        ("chips = 3", "chips: expected a table, found 3"),
        ("chips = []", "chips: expected a table, found an array"),
    ],
)
def test_a_file_that_is_no_facts_file(write, content, said):
    path = write(content)
    with pytest.raises(FactError) as caught:
        facts.load_file(path)
    assert str(caught.value).startswith(f"{path}:")
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    for path, said in [
        (tmp_path / "none.toml", "found no file"),
        (tmp_path, "found a directory"),
        ("/dev/zero", "found something else"),
        ("a\0b", "found no file"),
        (tmp_path / ("n" * 5000), "found"),
    ]:
        with pytest.raises(FactError, match=said):
            facts.load_file(path)
