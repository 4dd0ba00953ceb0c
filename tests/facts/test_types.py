"""Values of other types than text where a name or a path is expected."""

import pytest

from derive import facts
from derive.notation.errors import DeriveError

V5P = facts.chip("v5p")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: facts.chip(5), "expected a chip's name such as tpu-v5p, found 5"),
        (lambda: facts.chip(None), "expected a chip's name such as tpu-v5p, found None"),
        (lambda: facts.chip(["v5p"]), "a chip's name such as tpu-v5p, found an array of 1"),
        (lambda: facts.chip(V5P), "a chip's name such as tpu-v5p, found <tpu-v5p: TPU v5p"),
        (lambda: facts.chip(10**6000), "found a whole number of 19932 bits"),
        (lambda: facts.model(5), "expected a model's name such as llama-3-70b, found 5"),
        (lambda: facts.model({}), "a model's name such as llama-3-70b, found a table"),
        (lambda: facts.chip("v5p", profile=5), "a profile's name such as scaling-book, found 5"),
        (lambda: facts.chip("v5p", override={5: "SB2"}), "a fact such as ici_axis, found 5"),
        (lambda: facts.chip("v5p", override=5), "expected facts to override and readings, found 5"),
        (lambda: V5P.reading(5), "expected a fact such as ici_axis, found 5"),
        (lambda: facts.source(5), "expected a source's key such as SB5, found 5"),
        (lambda: facts.chip("v5p", files=5), "expected paths of facts files, found 5"),
        (lambda: facts.chip("v5p", files=[5]), "expected the path of a facts file, found 5"),
        (lambda: facts.chip("v5p", files="no.toml"), "no.toml: expected a TOML file, found no"),
        (lambda: facts.chip("v5p", catalogue=5), "expected a catalogue, found 5"),
        (lambda: facts.model("llama-3-8b", catalogue="x"), "expected a catalogue, found the text"),
        (lambda: facts.load_file(5), "expected the path of a facts file, found 5"),
        (lambda: facts.load_file(None), "expected the path of a facts file, found None"),
        (lambda: facts.load_file(b"my.toml"), "expected the path of a facts file, found b'my"),
    ],
)
def test_a_value_of_another_type_is_told(call, said):
    with pytest.raises(DeriveError) as caught:
        call()
    assert said in str(caught.value)
