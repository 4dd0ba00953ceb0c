"""`derive value`: an expression in the symbols of the vocabulary, with its number and its tree; and
the number of any question as it is typed, which templates and comments ask."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import Any

from derive.commands import ask, plan
from derive.commands.inputs import catalogue_of, givers_of, set_values
from derive.commands.parser import parser
from derive.cost.assumptions import assume
from derive.cost.stage import run_terms
from derive.facts import Catalogue, Model, shipped
from derive.facts.catalogue import cited, tree
from derive.facts.fact import FOLLOWS
from derive.notation import tex
from derive.notation.errors import DeriveError, quoted
from derive.notation.quantity import Quantity, evaluated, number
from derive.notation.read import expression
from derive.notation.symbols import P, P_act, find, rank, unit_of_symbol
from derive.solve.values import facts_of, given_facts, one_of

LONGEST = 1000


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The number of an expression as data, and as text with its tree. Raises DeriveError."""
    quantity = _value(options)
    data = {"expression": options.expression, "printed": quantity.printed()}
    data |= ask.number_data(quantity)
    known = catalogue_of(options)
    return data, "\n".join([*tree(quantity), *cited([quantity], catalogue=known)])


def _value(options: Namespace) -> Quantity:
    expr, typed = expression(options.expression), set_values(options.set)
    givers, under = givers_of(options), assume(precision=options.precision or "bf16")
    known = {**facts_of(one_of(Model, givers), None, under), **given_facts(givers, under)}
    for symbol, constant in under.elements.items():
        if symbol not in known and not constant.free_symbols:
            known[symbol] = number(constant, unit_of_symbol(symbol), symbol.name, status="assumed")
    known |= {find(name): quantity for name, quantity in typed.items()}
    # With experts, those parameters take part in a token to which it goes.
    parts = {P: P_act} if P_act in known else {}
    defined = {**FOLLOWS, **{s: term.xreplace(parts) for s, term in run_terms().items()}}
    needed = set(expr.free_symbols)
    for symbol in sorted(needed & defined.keys() - known.keys(), key=rank):
        needed |= defined[symbol].free_symbols
        known[symbol] = evaluated(defined[symbol], known, unit_of_symbol(symbol), symbol.name)
    for name in typed:
        if name not in {symbol.name for symbol in needed}:
            raise DeriveError(f"--set {name} plays no part in {tex.text(expr)}; leave it out")
    return evaluated(expr, known)


def words_of(question: str) -> list[str]:
    """The words of a question; raises DeriveError where it is none that `answer` could take."""
    if len(question) > LONGEST:
        raise DeriveError(f"a question of {len(question)} characters, the limit is {LONGEST}")
    try:
        words = shlex.split(question)
    except ValueError as error:
        raise DeriveError(f"{quoted(question)}: {str(error).lower()}") from None
    if words[:1] not in (["ask"], ["value"], ["why"]):
        told = "expected ask ..., value ... or why plan.RANK.NAME ..."
        raise DeriveError(f"{told}, found {quoted(question)}")
    if any(word == "--help" or word.startswith("-h") for word in words):
        raise DeriveError("--help plays no part in one number; leave it out")
    return words


def answer(question: str, catalogue: Catalogue | None = None) -> Quantity:
    """The number of a question as it is typed after `derive`: "ask fsdp B/X --chip tpu-v5p", "value
    C/W --chip tpu-v5p", or "why plan.1.mfu ..." with the options of a plan.

    Raises DeriveError for any other command, for options that only change how an answer is shown,
    and where there is no one number.
    """
    words = words_of(question)
    options = parser().parse_args(words)
    options.catalogue = catalogue or shipped()
    for option in ("json", "steps", "smt", "feasible"):
        if getattr(options, option, None):
            raise DeriveError(f"--{option} plays no part in one number; leave it out")
    if options.facts:
        raise DeriveError("--facts: a text names no files; the chapter or the command does")
    if words[0] == "ask":
        return ask.number(options)
    if words[0] == "value":
        return _value(options)
    _, _, quantity = plan.wanted(options)
    return quantity
