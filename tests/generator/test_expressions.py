# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The expression language: what it takes, what it refuses, and that Python and C++ mean the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpgen.diagnostics import Source, SpecError
from hpgen.spec.dims import parse_dims
from hpgen.spec.expression import Expression, parse_expression
from hpgen.spec.yaml_nodes import Scalar, read_nodes
from hpgen.text.cpp_expression import cpp, string
from hpgen.text.fold import fold
from hpgen.text.python_expression import negated, python, quoted
from hyper_parallel.core.shard.argument_checks import factorial
from tests.compiler import needs_compiler

ROOT = Path(__file__).resolve().parents[2]


def scalar(text: str) -> Scalar:
    found = read_nodes(Source("x.yaml", "k: |-\n  " + text + "\n")).get("k")
    assert isinstance(found, Scalar)
    return found


def parse(text: str) -> Expression:
    return parse_expression(scalar(text))


ROUND_TRIPS = [
    "S1 <= S2",
    "N1 in (8, 16, 32, 64)",
    "N1 not in (8, 16)",
    "(a is not None and b is None) or not c",
    "(a or b) and c",
    "a - (b - c)",
    "a - b - c",
    "(a + b) * c // d % e",
    "a if b else c if d else e",
    "(a if b else c) + 1",
    "-a * b",
    "-(a + b)",
    'layout == "TND"',
    "0 <= a < b != c",
    "max(a, min(b, 2))",
    "not (a and b)",
    "(not a) == b",
]


@pytest.mark.parametrize("text", ROUND_TRIPS)
def test_printing_gives_the_source_back(text: str) -> None:
    assert python(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os').system('x')", "is not a function of the language"),
        ("open('x')", "is not a function of the language"),
        ("a.b", "is not part of the expression language"),
        ("a[0]", "is not part of the expression language"),
        ("lambda: 1", "is not part of the expression language"),
        ("[x for x in y]", "is not part of the expression language"),
        ("a / b", "is not part of the expression language"),
        ("a ** b", "is not part of the expression language"),
        ("f'{a}'", "is not part of the expression language"),
        ("(a := 1)", "is not part of the expression language"),
        ("b'x'", "literal of type bytes"),
        ("1j", "literal of type complex"),
        ("...", "literal of type ellipsis"),
        ("9223372036854775808", "more than 64 bits"),
        ("a is b", "compares with None only"),
        ("a in b", "takes a list of values"),
        ("a in ()", "takes a list of values"),
        ("a < b in (1, 2)", "do not chain"),
        ("min(a)", "takes at least 2 argument(s), not 1"),
        ("min(*a)", "plain positional arguments"),
        ("a +", "not an expression"),
        ("a b", "not an expression"),
        ("(" * 300 + "a" + ")" * 300, "not an expression"),
        ("+".join(["a"] * 200), "nested more than"),
        ("a" * 5000, "more than 4000 characters"),
    ],
)
def test_what_is_outside_the_language_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match="HP202") as caught:
        parse(text)
    assert message in str(caught.value)


def test_the_place_of_a_fault_is_inside_the_text() -> None:
    with pytest.raises(SpecError) as caught:
        parse("S1 + foo(S2)")
    assert (caught.value.diagnostics[0].span.line, caught.value.diagnostics[0].span.column) == (2, 8)


@pytest.mark.parametrize(
    ("text", "opposite"),
    [
        ("S1 <= S2", "S1 > S2"),
        ("N == 1", "N != 1"),
        ("x < 1", "not x < 1"),  # x may be a float, and nan is not below 1 but not above either
        ("N in (1, 2)", "N not in (1, 2)"),
        ("a is None and N == 1", "a is not None or N != 1"),
        ("not a", "a"),
        ("N < M + 1", "N >= M + 1"),
    ],
)
def test_the_opposite_of_a_condition(text: str, opposite: str) -> None:
    assert python(negated(parse(text), {"S1", "S2", "N", "M"}.__contains__)) == opposite


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ('layout == "TND"', "True"),
        ('layout != "TND"', "False"),
        ('"BSND" == layout', "False"),
        ('layout == "TND" and a is None', "a is None"),
        ('layout == "BSND" or a == 1', "a == 1"),
        ('layout == "BSND" and a == 1', "False"),
        ('a if layout == "TND" else b', "a"),
        ('layout in ("BSND", "TND")', "True"),
        ('not layout == "BSND"', "True"),
        ('other == "TND"', 'other == "TND"'),
    ],
)
def test_what_is_known_of_the_format_is_folded_away(text: str, folded: str) -> None:
    assert python(fold(parse(text), "layout", "TND")) == folded


@pytest.mark.parametrize(
    "text", ["plain", 'say "x"', "it's", "\\", "a\\'b", "line\nline", "tab\t", '"""', "*/", "${x} {{ y }}"]
)
def test_string_literals_hold_their_text(text: str) -> None:
    import ast

    assert ast.literal_eval(quoted(text)) == text


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("B S1 N1 D", ["B", "S1", "N1", "D"]),
        ("B (fact(N) + 2*N) N*D", ["B", "(fact(N) + 2*N)", "N*D"]),
        ("(B) 64 D//2", ["B", "64", "D//2"]),
        ("2*num_iters", ["2*num_iters"]),
    ],
)
def test_dims_are_separated_by_spaces_outside_brackets(text: str, dims: list[str]) -> None:
    assert [dim.text for dim in parse_dims(scalar(text))] == dims


@pytest.mark.parametrize("text", ["B (S", "B S)", "B 'x'", "B 1.5", "B a==b", "B True", "B None"])
def test_dims_hold_extents_only(text: str) -> None:
    with pytest.raises(SpecError, match="HP202"):
        parse_dims(scalar(text))


INTEGER_EXPRESSIONS = [
    "a // b",
    "a % b",
    "-a // b",
    "a - b * c",
    "(a - b) * c",
    "a if a > b else b",
    "min(a, b, c) + max(a, b)",
    "cdiv(a, b)",
    "fact(3) + a",
    "-(a - b) % c",
    "1 if a in (1, 7) else 0",
    "1 if a < b <= c or a == b else 2",
    "1 if not (a < b and b < c) else 0",
]


@needs_compiler
def test_cpp_means_what_python_means(tmp_path: Path) -> None:
    """Each expression on a grid of values, negative ones too: floor division and modulo differ in plain C++."""
    values = [(a, b, c) for a in (-7, -1, 0, 1, 7) for b in (-3, 2, 7) for c in (-2, 5)]
    rows = [f"    std::cout << int64_t({cpp(parse(text))}) << ' ';" for text in INTEGER_EXPRESSIONS]
    calls = "\n".join(f"  row({a}, {b}, {c});" for a, b, c in values)
    source = tmp_path / "main.cc"
    source.write_text(
        '#include <cstdint>\n#include <iostream>\n#include "csrc/arithmetic.h"\nusing namespace hyper_parallel;\n'
        "void row(int64_t a, int64_t b, int64_t c) {\n" + "\n".join(rows) + "\n    std::cout << '\\n';\n}\n"
        "int main() {\n" + calls + "\n}\n"
    )
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Werror", f"-I{ROOT}", str(source), "-o", str(tmp_path / "main")], check=True
    )
    printed = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout
    expected = [
        [eval(python(parse(text)), {"factorial": factorial, "a": a, "b": b, "c": c}) for text in INTEGER_EXPRESSIONS]
        for a, b, c in values
    ]
    assert [[int(word) for word in line.split()] for line in printed.splitlines()] == expected


def test_cpp_strings_cannot_end_early() -> None:
    assert string('a"b\\c??/') == '"a\\042b\\134c\\077\\077/"'
    assert string("é\n") == '"\\303\\251\\012"'
