# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Reading YAML: the 1.2 core schema, places, and what is refused."""

from __future__ import annotations

import math

import pytest

from hpgen.diagnostics import Source, SpecError
from hpgen.spec.yaml_nodes import Scalar, plain, read_nodes


def read(text: str) -> dict[str, object]:
    return plain(read_nodes(Source("x.yaml", text)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("1:30", "1:30"),
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("2026-11-30", "2026-11-30"),
        ("=", "="),
        ("1_000", "1_000"),
        ("~", None),
        ("", None),
        (".5", 0.5),
        ("-1.", -1.0),
        ("+.inf", math.inf),
        ("-.inf", -math.inf),
        ("'5'", "5"),
        ('"true"', "true"),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_scalars_follow_the_yaml_1_2_core_schema(text: str, value: object) -> None:
    found = read(f"key: {text}\n")["key"]
    assert found == value
    assert type(found) is type(value)


def test_merge_keys_are_ordinary_keys() -> None:
    assert read("a: {<<: {b: 1}}\n") == {"a": {"<<": {"b": 1}}}


@pytest.mark.parametrize(
    ("text", "rule", "line", "column"),
    [
        ("a: 1\na: 2\n", "HP003", 2, 1),
        ("a: &x 1\n", "HP004", 1, 4),
        ("a: *x\n", "HP004", 1, 4),
        ("a: !!str 1\n", "HP004", 1, 4),
        ("a: !!python/object/apply:os.system [x]\n", "HP004", 1, 4),
        ("a: [1, 2\nb: 3\n", "HP002", 2, 2),
        ("a:\n\t- 1\n", "HP002", 2, 1),
        ("a: b: c\n", "HP002", 1, 5),
        ("- 1\n", "HP020", 1, 1),
        ("", "HP020", 1, 1),
        ("a: 1\n---\nb: 2\n", "HP020", 2, 1),
        ("a: \x07\n", "HP006", 1, 4),
        ("a: x\u202ey\n", "HP006", 1, 5),
        ("a: " + "[" * 60 + "]" * 60 + "\n", "HP005", 1, 36),
        ("{[1]: 2}\n", "HP020", 1, 2),
    ],
)
def test_what_is_refused_and_where(text: str, rule: str, line: int, column: int) -> None:
    with pytest.raises(SpecError) as caught:
        read(text)
    first = caught.value.diagnostics[0]
    assert (first.rule, first.span.line, first.span.column) == (rule, line, column)


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    with pytest.raises(SpecError, match="HP004"):
        read("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "word", "line", "column"),
    [
        ("k: foo(a, bar)\n", "bar", 1, 11),
        ('k: "foo(a, bar)"\n', "bar", 1, 12),
        ("k: >-\n  foo(a,\n    bar)\n", "bar", 3, 5),
        ("k: |\n  foo\n\n  bar\n", "bar", 4, 3),
        ("k: foo\n  bar\n", "bar", 2, 3),
        ("k: 'foo bar'\n", "foo", 1, 5),
    ],
)
def test_a_word_inside_a_scalar_has_its_own_place(text: str, word: str, line: int, column: int) -> None:
    scalar = read_nodes(Source("x.yaml", text)).get("k")
    assert isinstance(scalar, Scalar)
    span = scalar.at(scalar.text.index(word))
    assert (span.line, span.column) == (line, column)
