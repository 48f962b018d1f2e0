# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Names, texts and values that a generator of code may trip over."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hpgen.spec.names import fault

T = TypeVar("T")

NAMES = """x y z q k v B S T N D H W C E a b c i j n s t q1 k_v Bx x_ X_1 self_ cls ctx ctx_ args kwargs grad_x grad out
    output outputs shape shapes dims dim size value key query input inputs mask scale eps weight bias layout mode rank_ op
    ops name names mesh rule layouts platform kernel launch runner_ result tensor tensors dtype dtypes torch np numpy ms_
    list_ dict tuple set sum max_ abs len id type object str repr format vars iter next all any map zip filter range open
    print hash input_ string vector optional move begin end data move_ array pair function unique_ptr memory cstdint tie
    empty min_ floor ceil abs_ pow stdin errno assert_ stderr EOF_ I J O l I_ O_ l_ _a dx dy d_x loss grad_out forward
    backward apply saved save needs_input_grad saved_tensors DTensor Tensor Lengths Integers DType Shard Replicate Partial
    Layout get_platform CHECKS checks call Chain none true_ false_ nil undefined NaN Infinity inf_ lambda_ async_ await_
    match_ case_ format_ first second third other others T1 T2 S1 S2 N1 N2 Args args_ Launch Run get device_lengths
    host_lengths integers require_ requires_ extents extent local global_ group groups docs count copy index positions
    yaml json os sys annotations typing Any Sequence TYPE_CHECKING Callable overload cast dataclass field property""".split()
"""Names that are fine or nearly so; many are used by generated code, by Python or by C++."""

BAD_NAMES = """class def int64_t size_t self __class__ _x None True nullptr template and lambda std int float bool str
    fact min rank inf INT64_MAX x__y 1x x-y x.y x[0] ../x /etc/passwd .. . ~ x/y é \uff58 ß µ π x\u0301 print()""".split()

TEXTS = (
    "Rows.",
    "a",
    "With \"quotes\" and 'others'.",
    '"""',
    'ends with a quote "',
    '"starts and ends"',
    "backslash at the end \\",
    "\\n \\t \\x41 \\u0041 \\N{BULLET} \\",
    "*/ /* // ??/ ??= #include <x>",
    "{{ 7 * 7 }} {% for x in y %} {# c #} <% x %> ${HOME} %s %(x)s {0} {x!r}",
    "line one\nline two",
    "tab\there",
    "trailing space ",
    "  leading",
    "a\n\n\nb",
    "- item\n- item\n\n    code\n",
    "é ü 漢字 \U0001f600 \u00a0nbsp \u200b zero \u00ad soft \u2028ls \u0085nel",
    "# noqa # type: ignore # fmt: off # yapf: disable",
    "clang-format off\n// NOLINT",
    "w" * 150,
    "word " * 60,
    ">>> import os",
    ":param x: y\nArgs:\n    x: y\nReturns:\n    z",
    "true",
    "1e-6",
    "~",
    "null",
    "a: b",
    "- a",
    "? b",
    "!tag",
    "&anchor *alias",
    "@at `tick` %percent |pipe >gt",
    "100%",
    "'''",
    "r'''x'''",
    "[a, b]",
    "{a: b}",
)

INTEGERS = (0, 1, -1, 2, 3, 7, 8, 64, 128, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63 - 1))
FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e-6, 1e300, 5e-324, 1e16, 123456789.0, float("inf"), float("-inf"))

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    -(2**63),
    10**39,
    10**60,
    1.5,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x",
    "...",
    "... ...",
    "none",
    "None",
    "1",
    "0",
    "-1",
    "1e999",
    "((((((((((",
    "a" * 3000,
    "9" * 4000,
    "x.y",
    "x[0]",
    "x()",
    "__import__('os').system('true')",
    "lambda: 0",
    "(yield)",
    "x := 1",
    "[i for i in x]",
    "*x",
    "f'{x}'",
    "b''",
    "1j",
    "x if y",
    "x < y < z",
    "-" * 300 + "x",
    "~" * 300 + "x",
    "not " * 300 + "x",
    "2**99999999",
    "fact(99999999)",
    "fact(fact(fact(9)))",
    "1//0",
    "1%0",
    "D D",
    "D,D",
    "grad(x)",
    "grad(grad(x))",
    "aclnn()",
    "aclnnX()",
    "aclnnX(x, **y)",
    "aclnnX(*x)",
    "m:f",
    "../m:f",
    "rank(x)",
    "rank()",
    "like",
    [],
    {},
    [[]],
    [{}],
    {"": ""},
    {"x": None},
    ["x", "x"],
    [1, 2],
    {"if": "x", "then": "y"},
    {"dims": "D"},
    {"type": "lengths"},
    {"like": "x"},
)

ODD_CHARACTERS = "\t\r\n \x00\x07\x1b\x7f\x85\u00a0\u00ad\u2028\u2029\u200b\u202e\u2066\ufeff\ufffd\U0001f600é漢\"'`\\#&*!|>%@:;,?-+=/[]{}()<>~$^_.0129axXN"


def pick(draw: random.Random, choices: Sequence[T]) -> T:
    return choices[draw.randrange(len(choices))]


def chance(draw: random.Random, one_in: int) -> bool:
    return draw.randrange(one_in) == one_in - 1


def name(draw: random.Random, taken: set[str], usable: Callable[[str], str] = fault) -> str:
    """A name nobody has yet; nearly always one that the language admits."""
    found = pick(draw, NAMES)
    if chance(draw, 8):
        found = pick(draw, ("n", "Z", "long_name_")) * draw.randint(1, 9) + str(draw.randint(0, 99))
    if chance(draw, 300):
        found = pick(draw, BAD_NAMES)
    elif usable(found):
        found = f"n{len(taken)}"
    while found in taken:
        found += str(len(taken))
    taken.add(found)
    return found


def text(draw: random.Random) -> str:
    """A text for a docstring or a choice."""
    parts = [pick(draw, TEXTS) for _ in range(1 + chance(draw, 4) + chance(draw, 8))]
    return pick(draw, (" ", "\n", "")).join(parts) or "x"
