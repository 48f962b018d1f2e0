# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Far more of something than an operator has."""

from __future__ import annotations

from collections.abc import Iterable

from .case import ACCEPTED, Case, many, spec


def counts() -> Iterable[Case]:
    """Far more of something than an operator has."""
    one = "{dtype: float32, dims: D}"
    yield Case("10,000 arguments", spec(args="{" + many(10_000, f"x#: {one}") + "}"), "HP005")
    yield Case("200 arguments", spec(args="{" + many(200, f"x#: {one}") + "}"), "HP020")
    yield Case("10,000 dims", spec(dims="{" + many(10_000, "D#: d") + "}"), "HP005")
    yield Case("10,000 outputs", spec(outputs="{" + many(10_000, "y#: {like: x}") + "}"), "HP005")
    yield Case("10,000 requirements", spec(require="[" + many(10_000, "D > #") + "]"), "HP005")
    yield Case("10,000 choices", spec(args=f"{{x: {one}, n: {{type: int, choices: [{many(10_000, '#')}]}}}}"), "HP005")
    yield Case("10,000 sharded dims", spec(sharding=f"{{shard: [{many(10_000, 'D#')}]}}"), "HP005")
    yield Case("10,000 launches", spec(kernel=f"{{aclnn: [{many(10_000, 'aclnnX(x)')}]}}"), "HP005")
    yield Case(
        "10,000 aliases", spec(kernel="", backward="", reference="") + f"aliases: [{many(10_000, 'A#')}]\n", "HP005"
    )
    yield Case("300,000 values", "a:\n" + "- [1, 2, 3]\n" * 75_000, "HP005")
    yield Case(
        "10,000 dims of a tensor", spec(args="{x: {dtype: float32, dims: {BD: " + "D " * 10_000 + "}}}"), "HP020"
    )
    yield Case(
        "400 dims of a tensor",
        spec(args="{x: {dtype: float32, dims: {BD: B D, D: " + "D " * 400 + "}}, layout: {type: str, default: BD}}"),
        "HP005",
    )
    yield Case(
        "390 formats",
        spec(args="{x: {dtype: float32, dims: {" + many(390, "F#: B D") + "}}, layout: {type: str}}"),
        "HP005",
    )
    yield Case("everything at its most", everything(128, 64, 16, 100, 64), ACCEPTED)
    yield Case("many tensors and few formats", everything(128, 64, 2, 150, 16), ACCEPTED)
    yield Case("many formats", everything(2, 1, 16, 130, 64), ACCEPTED)
    yield Case("long requirements in many formats", long_requirements(240, 16), "HP005")
    yield Case("requirements in many formats", long_requirements(10, 16), ACCEPTED)
    yield Case("many launches, each long", many_launches(390), "HP005")
    yield Case("many launches", many_launches(25), ACCEPTED)
    yield Case("many tensors, formats and dims", everything(100, 1, 190, 1, 1), "HP005")
    yield Case("many tensors with the same long dims", same_dims(100, 390, 499), "HP005")
    yield Case(
        "many requirements, each long", spec(require="[" + many(230, "D > " + " + ".join(["B"] * 900)) + "]"), "HP005"
    )
    yield Case("many unknown names, each long", unknown_names(), "HP005")


def everything(arguments: int, outputs: int, formats: int, conditions: int, dims: int) -> str:
    """A spec that is correct, and large in every respect."""
    own = [f"D{number}" for number in range(dims)]
    forms = ", ".join(f"F{number}: {' '.join(own[4 * number % dims :][:4])}" for number in range(formats))
    inputs = arguments - 1
    args = "{" + many(inputs, f"x#: {{dtype: float32, dims: {{{forms}}}}}") + ", layout: {type: str}}"
    outs = "{" + many(outputs, f"y#: {{dtype: float32, dims: {{{forms}}}}}") + "}"
    used = own[: 4 * formats]
    launches = [f"aclnnX{number}({many(inputs, 'x#')}, layout)" for number in range(3)] + [
        f"aclnnZ({many(outputs, 'y#')})"
    ]
    return spec(
        dims="{" + ", ".join(f"{dim}: d" for dim in used) + "}",
        args=args,
        outputs=outs,
        require="["
        + ", ".join(f"{' + '.join(used[4 * number % len(used) :][:4] * 9)} > {number}" for number in range(conditions))
        + "]",
        sharding="{shard: [" + ", ".join(used) + "]}",
        kernel="{aclnn: [" + ", ".join(f'"{launch}"' for launch in launches) + "]}",
    )


def long_requirements(count: int, formats: int) -> str:
    """Conditions that are written out once for each format."""
    condition = many(250, "D > #", " and ")
    return spec(
        dims="{D: d}",
        args="{x: {dtype: float32, dims: {" + many(formats, "F#: D") + "}}, layout: {type: str}}",
        sharding="{shard: [D]}",
        require="[" + ", ".join([f"'layout == \"F0\" or {condition}'"] * count) + "]",
    )


def many_launches(count: int) -> str:
    call = f"aclnnX({', '.join(['D + 1'] * 120)}, layout, x)"
    calls = ", ".join(f'"{call}"' for _ in range(count))
    return spec(
        kernel=f'{{aclnn: [{calls}, "aclnnY(y)"]}}', args="{x: {dtype: float32, dims: {BD: B D}}, layout: {type: str}}"
    )


def same_dims(arguments: int, formats: int, dims: int) -> str:
    """One tensor tells the formats, the others have one long text of dims for all of them."""
    text = " ".join(["D"] * dims)
    args = "{x: {dtype: float32, dims: {" + many(formats, "F#: D") + "}}, layout: {type: str}, "
    args += many(arguments, f"x#: {{dtype: float32, dims: {text}}}") + "}"
    return spec(
        dims="{D: d}", args=args, sharding="{}", kernel=f'{{aclnn: "aclnnX(x, layout, {many(arguments, "x#")}, y)"}}'
    )


def unknown_names() -> str:
    """A thousand long names that are almost, but not quite, those of the dims."""
    dims = "{" + many(128, "D" * 80 + "#: d") + "}"
    wrong = many(40, "E" + "D" * 79 + "#", " + ")
    return spec(dims=dims, require="[" + many(40, wrong + " > #") + "]")
