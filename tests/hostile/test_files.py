"""Facts files, templates and claims of chapters, and what is piped into the prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hostile.guards import INPUTS, answered, clean, commanded, guarded, run
from hostile.strategies import JUNK, NUMBERS, SYMBOLS, damaged, layouts, shardings, values, words
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.book import Chapter, integer
from derive.book.claims import CLAIM_RULES, holds, restated
from derive.book.folders import Shelf
from derive.book.marks import parsed
from derive.book.problems import BookError
from derive.book.prose import Ledger, Prose
from derive.book.template import compiled, rendered, source_of
from derive.commands.parser import FORMATS
from derive.facts import chip, load_file, model
from derive.notation.quantity import number

READING = (
    '{ value = 1.8e11, unit = "byte/second", source = "X1", status = "published", '
    'where = "table 1", basis = "one-way per link" }'
)
SHAPE = (
    "{ layers = 2, hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, ffn = 128, vocab = 1000, "
    "norms_per_layer = 2, gated = true, tied_embeddings = false, final_norm = true, "
    'source = "X1", where = "table 1", status = "published" }'
)
FACTS = f"""
[sources.X1]
title = "Title"
publisher = "X"
kind = "vendor"
dated = "2026"
read = 2026-01-31

[chips.own]
title = "Own"
aliases = ["mine"]
prefer = ["X1"]
[chips.own.facts]
ici_link = [{READING}]

[models.small]
title = "Small"
shape = {SHAPE}

[profiles.own]
like = "scaling-book"
order = ["X1", "SB2"]
picks = {{ "own.ici_link" = "X1" }}
"""
TOML = [
    "[chips.own]", "[[chips]]", "[sources]", "[models.x.shape]", "[profiles.own.picks]", "title",
    "facts", "value", "unit", "basis", "=", "{", "}", "[", "]", '"X1"', "'''", '"""', "\n", "\n",
    "#", ",", ".", "a.b.c", "true", "1979-05-27T07:32:00Z", '"\\u001b[31m"', '"\\u202e"', READING,
    "ici_link = [", "1e999999999", "0x" + "f" * 5000, "inf", "nan", "1_0", "a." * 20_000,
    "[" * 3000, "{a=" * 3000, '"a"=1\n' * 50,
]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("facts") / "facts.toml"


@given(
    text=st.one_of(
        damaged(st.just(FACTS)), damaged(damaged(st.just(FACTS))), words(TOML, 12, ("", " ", "\n"))
    ),
    stray=st.sampled_from([b"", b"", b"", b"\xff", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf"]),
)
def test_facts_files(file: Path, text: str, stray: bytes) -> None:
    file.write_bytes(stray + text.encode("utf-8", "surrogatepass"))
    known = answered(load_file, file)
    if known is not None:
        for name in ("own", "small"):
            for read in (chip, model):
                got = answered(lambda: read(name, catalogue=known))  # noqa: B023
                assert got is None or clean(repr(got))


TEMPLATE = [
    "<< show('a') >>", "<< claim('a', 'about 3') >>", "<<", ">>", "<%", "%>", "<#", "#>", "show(",
    "'a'", ")", "claim", "given('a', ", "require", "derived", "cite('SB5')", "for x in", "endfor",
    "if", "endif", "else", "set x =", "'", '"', "~", "|upper", ".__class__", "[0]", "x", " ", "\n",
    "True", "1e400", "'\\ud800'", "'\\ue000'", "range(9)", "(1, 2)", "==", "not", "and", "`$x$`",
    "\\", "```", "notation()", "sources()", "errata()", "ref('a')", "table('a')", "loop", "self",
    "<% for x in ['a'] %>", "<% endfor %>", "<% if show %>", "<% endif %>", "<< show >>",
    "{{ show('a') }}", "<<<<<<< HEAD", "<% autoescape true %>", "*", "**", "12", "none", "true",
    "<% raw %>", "<% endraw %>", "show('a', unit=", "['a', 'b']", "<% set x = 'a' %>", "x ~ x",
    "<< x >>", "\t", "\r",
]  # fmt: skip


def _book() -> Chapter:
    chapter = Chapter("06", "A chapter")
    chapter.shown("a", number(3), integer())
    chapter.claim("b", number(30))
    return chapter


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    place = tmp_path_factory.mktemp("chapters")
    (place / "06-mesh").mkdir()
    return Shelf(place)


@given(text=words(TEMPLATE, 14))
def test_templates(shelf: Shelf, text: str) -> None:
    try:
        with guarded():
            ledger = Ledger(_book(), "chapter.md.j2", shelf)
            prose = Prose(ledger)
            source = source_of(text.encode("utf-8", "surrogatepass"), "chapter.md.j2")
            printed = rendered(compiled(source, "chapter.md.j2", prose.names()), "chapter.md.j2")
            answered(parsed, prose.completed(printed), ledger.marks, "")
            problems = ledger.problems
    except BookError as error:
        problems = list(error.problems)
    assert all(len(problem.text.splitlines()) == 1 for problem in problems), problems


AUDITED = [
    "<!-- derive: value C/W --chip tpu-v5p -->", "<!-- derive: ask fsdp B/X --chip tpu-v5p -->",
    "<!-- derive exact: value C --chip h100 -->", "<!-- derive:", "derive:", "<!--", "-->", "--",
    "`", "```", "```math", "~~~", "$", "$$", "\\[", "\\frac{1}{2}", "\\approx ", "{,}", "10^{", "|",
    "**", "_", "<sup>", "&nbsp;", "&#0;", "](", "[^1]", "ask fsdp B/X", "value",
    "why 06.a --chapters .", "floor", "--set F=3", "--facts /dev/zero", "--help", "-h", "'", '"',
    "2,550", "about ", "an eighth ", "one ", "second", "5x", "5th", "GB", "tokens", "10 000",
    "\n\n", "\n", "- ", "> ", "# ", "1. ",
]  # fmt: skip


@given(
    words(AUDITED, 14, ("", " ", "\n")),
    st.sampled_from([b"", b"", b"", b"\xff", b"\0", b"\xef\xbb\xbf", b"\r"]),
    st.sampled_from(FORMATS),
)
def test_audited_texts(file: Path, text: str, stray: bytes, form: str) -> None:
    file.write_bytes(stray + text.encode("utf-8", "surrogatepass"))
    code, out, err = run("audit", str(file), "--bare", "--format", form)
    assert code in (0, 1, 2) and clean(out) and clean(err)
    assert bool(err) == (code == 2 and form == "text") and "a fault of" not in err
    if form == "json":
        assert json.loads(out)["clean"] == (code == 0)


CLAIMS = [
    "about", "nearly", "at most", "over", "exactly", "up to", "less than", "a", "an", "the", "half",
    "third", "eighth", "a dozen", "twenty", "hundred", "one", "thirty-second", "times", "x", "5x",
    "1/8", "3rd", "%", "percent", "GB/s", "tokens", "thousand", "million", "billion", " ", " ", "-",
    *NUMBERS,
]  # fmt: skip


@given(
    st.sampled_from(sorted(CLAIM_RULES)), words(CLAIMS, 5, (" ", "", " ")), st.fractions(-9, 9**9)
)
def test_claims(rule: str, text: str, value: object) -> None:
    assert answered(holds, rule, text, value) in (None, True, False)
    answered(restated, rule, text, value)


_typed = st.one_of(
    st.builds("{}({!r})".format, st.sampled_from(
        ["chip", "model", "strategy", "block", "find", "number", "load_file", "layer", "gated"]
    ), st.one_of(values, shardings, words(SYMBOLS, 3))),
    st.builds("layer({!r}, {!r})".format, shardings, layouts),
    st.builds("threshold(fsdp, {})".format, st.sampled_from(SYMBOLS)),
    st.builds("threshold(fsdp, {!r})".format, shardings),
    st.builds("threshold(fsdp, B/X).on(chip('tpu-v5p'), {}={!r})".format, st.sampled_from(
        ["alpha", "C", "W", "M_X", "B", "X", "e", "N"]), values),
    st.builds("assume({}={!r})".format, st.sampled_from(["keep", "overlap", "wrap"]), values),
    st.builds("mesh({{{!r}: 2}}, 8, {!r})".format, words(["tp", "dp"], 2), words(["tp", ","], 3)),
)  # fmt: skip


@settings(max_examples=-(-INPUTS // 10))
@given(st.lists(_typed, min_size=10, max_size=10))
def test_the_prompt_tells_each_mistake_in_a_line(lines: list[str]) -> None:
    code, out, err = run(stdin="\n".join(lines).encode())
    assert code == 0 and clean(out) and clean(err)
    assert "Traceback" not in err, err
    assert err.count("\n") <= len(lines)


PIPED = [
    b"B/X", b"3", b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\0", b"\r", b"\x1b[31m", b"'\x9b'",
    b"\xef\xbb\xbf", b"(", b"#",
]  # fmt: skip


@settings(max_examples=-(-INPUTS // 10))
@given(st.lists(st.sampled_from(PIPED), max_size=10))
def test_bytes_piped_into_the_prompt(lines: list[bytes]) -> None:
    code, out, err = run(stdin=b"\n".join(lines))
    assert code in (0, 2) and clean(out) and clean(err)
    if code == 2:
        assert err.splitlines()[-1].startswith("derive: ")


@given(
    st.sampled_from(["--facts", "--chapters"]),
    st.one_of(st.sampled_from(JUNK), words(["..", "/"], 3)),
)
def test_paths(option: str, path: str) -> None:
    commanded("facts" if option == "--facts" else "figures", option, path or ".")
