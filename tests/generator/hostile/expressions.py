# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions that would run, or be too large to be run."""

from __future__ import annotations

from collections.abc import Iterable

from .case import ACCEPTED, Case, spec

EXPRESSIONS = {
    "a call": "__import__('os').system('true')",
    "a method": "x.__class__.__base__ == 1",
    "an index": "D[0] > 1",
    "a lambda": "(lambda: 0)() == 0",
    "a comprehension": "[i for i in (1, 2)] == D",
    "an assignment": "(D := 1) == 1",
    "a generator": "(yield) == 1",
    "await": "await D",
    "a format string": "f'{D}' == layout",
    "bytes": "layout == b'x'",
    "a complex number": "D == 1j",
    "an ellipsis": "D == ...",
    "a star": "D in (*x,)",
    "keywords": "min(D, key=D) > 1",
    "a power": "9**9**9**9 > D",
    "a shift": "1 << 99999999999 > D",
    "a factorial": "fact(99999999) > D",
    "factorials of factorials": "fact(fact(fact(20))) > D",
    "a product": "9223372036854775807 * 9223372036854775807 > D",
    "a sum": "9223372036854775807 + 1 > D",
    "a product of products": " * ".join(["4294967296"] * 30) + " > D",
    "a long number": "9" * 3900 + " > D",
    "a long hexadecimal number": "0x" + "f" * 3900 + " > D",
    "a list of a long hexadecimal number": "[0x" + "f" * 3900 + "] > D",
    "a division by zero": "D // 0 > 1",
    "a division by nothing": "D % (3 - 3) > 1",
    "nested brackets": "(" * 1900 + "D" + ")" * 1900 + " > 1",
    "nested brackets, fewer": "(" * 90 + "D" + ")" * 90 + " > 1 > fact(D) if",
    "nested minus": "-" * 3900 + "D > 1",
    "nested plus": "+" * 3900 + "D > 1",
    "nested inversion": "~" * 900 + "D > 1",
    "nested inversion, more": "~" * 3900 + "D > 1",
    "nested not": "not " * 900 + "D > 1",
    "nested calls": "min(1, " * 500 + "D" + ")" * 500 + " > 1",
    "nested attributes": "D" + ".a" * 1900 + " > 1",
    "nested conditionals": "D > 1 if " * 300 + "D > 1" + " else D > 2" * 300,
    "nested comparisons": "(" * 35 + "D" + " < B < 3)" * 35,
    "nested membership": "(" * 35 + "D" + " in (1, 2, 3))" * 35,
    "a chain of comparisons": " < ".join(["D"] * 900) + " in x",
    "a chain of comparisons between choices": "(D if B > 1 else B) < (D if B > 2 else B) < D",
    "two lines": "D > 1\\nimport os",
    "a semicolon": "D > 1; import os",
    "nothing": "",
    "blanks": "   ",
}

CONDITIONS = {
    "a long sum": " + ".join(["D"] * 38) + " > 1",
    "many and": " and ".join(["D > 1"] * 400),
    "many choices": "D in (" + ", ".join(map(str, range(700))) + ")",
    "a chain": " < ".join(["D"] * 900),
    "factorials": "fact(fact(D)) > fact(20) // fact(3)",
    "a choice in a choice": "(" * 30 + "D" + " if B > 1 else 2)" * 30 + " > 1",
    "infinity": "D < 1e999 and D > -1e999",
    "the least number": "D > -9223372036854775807",
    "division by a dim": "D // B % D > cdiv(D, B - B)",
    "or in and in or": "(" * 12 + "D > 1" + " or B > 1) and (B > 2 or D > 2)" * 12,
    "a comment": "D > 1 # x",
    "a fullwidth name": "\uff24 > 1",
}


def expressions() -> Iterable[Case]:
    """Expressions that would run, or be too large to be run."""
    for name, text in EXPRESSIONS.items():
        yield Case(f"{name} in a condition", spec(require=f'["{text}"]'), "HP202")
    for name, text in CONDITIONS.items():
        yield Case(f"{name}, which is allowed", spec(require=f'["{text}"]'), ACCEPTED)


def extents() -> Iterable[Case]:
    """Dims of arguments that are no extent, and dims of outputs of odd sizes."""
    for text in (
        "D**9**9",
        "fact(99)",
        "D//0",
        "D[0]",
        "D.x",
        "x()",
        "f'{D}'",
        "'D'",
        "1.5",
        "None",
        "True",
        "9" * 30,
        "-" * 900 + "D",
        "(",
        ")",
        "((((",
        "D,D",
        "inf",
        "INT64_MAX*2",
        "rank(x)",
        "grad(x)",
    ):
        found = f'{{x: {{dtype: float32, dims: {{BD: "B D", D: "D {text}"}}}}, layout: {{type: str, default: BD}}}}'
        yield Case(f"{text[:30]} as a dim", spec(args=found), "HP202")
    for text, rule in {
        "0": ACCEPTED,
        "9223372036854775807": ACCEPTED,
        "fact(20)": ACCEPTED,
        "D//-1": ACCEPTED,
        "D-D": ACCEPTED,
        "cdiv(D,D-D)": ACCEPTED,
        "-1": "HP202",
        "2-3": "HP202",
        "D//0": "HP202",
        "D%(1-1)": "HP202",
        "fact(fact(20))": "HP202",
        "4294967296*4294967296": "HP202",
    }.items():
        sized = f'{{y: {{dtype: x, dims: {{BD: "B {text}", D: "{text}"}}}}}}'
        yield Case(f"{text} as a dim of an output", spec(outputs=sized), rule)


def kernel_calls() -> Iterable[Case]:
    """Kernel calls that call something else."""
    for text in (
        "print(x)",
        "aclnnX(x",
        "aclnnX(x)(y)",
        "aclnnX[x]",
        "x.aclnnX(y)",
        "aclnnX(*x)",
        "aclnnX(x=y)",
        "aclnnx(x)",
        "aclnnX\\n(x); y",
        "",
        "aclnn\u00c9(x)",
        "aclnnX(" + "x, " * 129 + "y)",
        "aclnnX(exec('x'))",
        "aclnnX(x.y)",
        "aclnnX(" + "f(" * 300,
    ):
        yield Case(f"{text[:30]} as the kernel call", spec(kernel=f'{{aclnn: "{text}"}}'), ("HP401", "HP202", "HP020"))
