# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions put as a reader expects them, and texts that stay inside their docstring."""

from __future__ import annotations

import ast
import itertools

import pytest

from hpgen.diagnostics import Source, Span
from hpgen.spec.expression import Expression, parse_expression
from hpgen.spec.names import natural
from hpgen.spec.yaml_nodes import Scalar
from hpgen.text.docstring import comment_lines, docstring
from hpgen.text.python_expression import python
from hpgen.text.tidy import tidy

INTEGERS = {"a", "b", "c", "N", "M"}

TIDIED = [
    ("128 == N", "N == 128"),
    ("N == a", "a == N"),
    ("a == N", "a == N"),
    ("2 * N > a", "a < 2 * N"),
    ("N % 2 == 0", "N % 2 == 0"),
    ("0 < a <= 8", "0 < a <= 8"),
    ("not (a < b)", "a >= b"),
    ("not (x < y)", "not x < y"),
    ("not (not x)", "x"),
    ("not (a == 1 and b in (1, 2))", "a != 1 or b not in (1, 2)"),
    ("a > 0 and not (b is None)", "a > 0 and b is not None"),
    ("a == 1 or a == 2 or b == 3", "a in (1, 2) or b == 3"),
    ("1 == a or a == 2", "a in (1, 2)"),
    ("a != 1 and a != 2 and a != 3", "a not in (1, 2, 3)"),
    ("a == 1 and a == 2", "a == 1 and a == 2"),
    ("a == 1 and b == 2 or c == 3", "(a == 1 and b == 2) or c == 3"),
    ("(a == 1 or b == 2) or c == 3", "a == 1 or b == 2 or c == 3"),
    ("max(a, max(b, c)) == 1", "max(a, b, c) == 1"),
    ("max(a, min(b, c)) == 1", "max(a, min(b, c)) == 1"),
    ("-(-a) == b", "a == b"),
    ("cdiv(-a, b) == -cdiv(a, c)", "-(a // b) == -a // c"),
    ("a == 1 if not (b == 2) else c == 3", "a == 1 if b != 2 else c == 3"),
]


def parse(text: str) -> Expression:
    return parse_expression(Scalar(text, text, Span(Source("spec.yaml", text), 1, 1), 0, False))


@pytest.mark.parametrize(("text", "expected"), TIDIED, ids=[text for text, _ in TIDIED])
def test_a_condition_is_tidied(text: str, expected: str) -> None:
    assert python(tidy(parse(text), INTEGERS.__contains__)) == expected


@pytest.mark.parametrize("text", [text for text, _ in TIDIED])
def test_the_meaning_stays(text: str) -> None:
    """Every small assignment gives the same truth value before and after."""
    names = sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} - FUNCTIONS.keys())
    tidied = python(tidy(parse(text), INTEGERS.__contains__))
    for values in itertools.product((1, 2, 3, 5), repeat=len(names)):
        scope = FUNCTIONS | dict(zip(names, values, strict=True))
        assert bool(eval(text, scope.copy())) == bool(eval(tidied, scope.copy())), (tidied, values)


FUNCTIONS: dict[str, object] = {"max": max, "min": min, "cdiv": lambda a, b: -(-a // b)}

TEXTS = [
    "plain",
    '"quoted"',
    'ends with a quote"',
    'three """ quotes',
    '""""',
    "ends with a backslash \\",
    "\\",
    '\\"',
    "\\N{DASH} \\x00 \\u1234",
    "{{ 7 * 7 }} {% raw %}",
    "a tab\tand a no-break\u00a0space",
    "w" * 300,
    "word " * 60,
    "two\nlines",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("more", ["", "    More."])
def test_a_text_stays_in_its_docstring(text: str, more: str) -> None:
    source = f"def f():\n    {docstring(text, 4, more)}\n    return 1\n"
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 2
    found = ast.get_docstring(function)
    assert found is not None
    plain = text.replace("\u00a0", " ").split() + more.split()
    assert found.split() == plain


@pytest.mark.parametrize("text", [*TEXTS, "ends with \\ \\", "??/"])
def test_a_text_stays_in_its_comment(text: str) -> None:
    assert all("\n" not in line and not line.endswith("\\") for line in comment_lines(text))


def test_digits_are_sorted_as_numbers() -> None:
    """As import sorters do it."""
    expected = "a a01 a1 a1b a2a a10a a_0 a_00 a_000_1 a_002 a_01_1 a_02 a_02b a_1_2 a_2 a_3_2 a_3_10 a_10 a_b ab b"
    assert sorted(sorted(expected.split()), key=natural) == expected.split()
