"""The figures of this chapter: each number under the name by which chapter.md.j2 prints it."""

from derive import B, X, fsdp, steps, threshold
from derive.book import Chapter, Plot, cell, integer, math

# The chapter: its number and its title; files="facts.toml" reads facts of its own.
chapter = Chapter("01", "First chapter")

# A chip and a model of the catalogue (`derive facts` lists them); [...] asks for a value.
v5p, h100 = (chapter.chip(name) for name in ("tpu-v5p", "h100"))
llama = chapter.model("llama-3-70b")

# Given: an input, which the template states in words that have to equal it.
chapter.given("memory", v5p["memory"])

# Shown: a number that is printed again at every build; by a rule, if not as a whole number.
chapter.shown("intensity", v5p["alpha"], integer())
chapter.shown("width", llama["F"])

# A condition, numbered in the order of the page, and the steps that prove it.
condition = threshold(fsdp, B / X)
chapter.condition("fsdp", condition)
chapter.derivation("fsdp", steps(fsdp, B / X))

# Claimed: the condition in numbers; the template words it, and the build checks the words.
least = chapter.claim("least", condition.on(v5p, M_X=1))

# Required: what has to stay true for a sentence to stay true.
chapter.require("more-than-gpu", least, ">", condition.on(h100))

# A table: its header, then rows of text, of numbers and of formulas.
axes = (1, 2, 3)
rows = [[cell(n, integer()), cell(condition.on(v5p, M_X=n), integer(), unit=True)] for n in axes]
chapter.table("axes", ("Torus axes", math(B / X)), rows)

# A plot: title, axes, and lines, each with its label, its x and its y.
bounds = [condition.on(v5p, M_X=n) for n in axes]
chapter.plot(
    "axes",
    Plot("FSDP on v5p", "torus axes", "tokens per chip", [("least", axes, bounds)]),
    alt="The least tokens per chip against the torus axes of FSDP",
)
