# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Names that would be code or another file, and texts that would end what they stand in."""

from __future__ import annotations

from collections.abc import Iterable

from .case import ACCEPTED, Case, spec, yaml_quoted

NAMES = """__class__ ../x ../../etc/passwd /etc/passwd x/y . .. class int64_t self size_t std void template None True def
    lambda match nullptr NULL errno EOF INT64_MAX inf fact rank x-y x.y x[0] x() 1x _x x__y \u00e9 \uff58 x\u0301
    __init__ __import__('os') $(reboot) `reboot` x;y %s {x} ~ -x ctx cls m runner""".split()


IN_EVERY_PLACE = 8


def names() -> Iterable[Case]:
    """Names that would be code, or another file."""
    for number, name in enumerate(NAMES):
        found = list(places(name))
        for place, made in found if number < IN_EVERY_PLACE else [found[number % len(found)]]:
            yield Case(f"{name} as {place}", made, ("HP101", "HP202"))
    yield Case("an operator of 400 characters", spec(op="npu_" + "x" * 396), "HP101")
    yield Case("an argument of 400 characters", spec(args="{" + "x" * 400 + ": {dtype: float32, dims: D}}"), "HP101")
    for header in ("../x.h", "/etc/passwd", "x/y.h", "x.h.h", "x", "-x.h", "x.h\\n#error", "X.h", ".h", "..h"):
        yield Case(
            f"{header} as the header", spec(kernel=f'{{aclnn: "aclnnX(x, layout, y)", cpu: "{header}"}}'), "HP020"
        )
    for module in (
        "os:system",
        "../m:f",
        "m:f()",
        "m.n:f",
        "m",
        "m:f:g",
        ":",
        "m:",
        "M:f",
        "class:def",
        "__m__:x",
        "m:f\\n",
    ):
        harmless = module in (
            "os:system",
            "class:def",
            "__m__:x",
        )  # words that nobody imports before a test asks for it
        rule = ACCEPTED if harmless else "HP404"
        yield Case(f"{module} as the reference", spec(reference=f'"{module}"'), rule)
    for module in ("a.b", "../m", "class", "m()", "1", "m; x", "m\\nx"):
        yield Case(f"{module} as the delegate", spec(platforms=f'{{torch: {{delegate: "{module}"}}}}'), "HP101")


def places(name: str) -> Iterable[tuple[str, str]]:
    """A spec for each place where a name may stand."""
    word = yaml_quoted(name)
    yield "the operator", spec(op=word)
    yield "an argument", spec(args=f"{{{word}: {{dtype: float32, dims: {{BD: B D, D: D}}}}, layout: {{type: str}}}}")
    yield "an output", spec(outputs=f"{{{word}: {{like: x}}}}")
    yield "a dim", spec(dims=f"{{B: b, D: d, {word}: x}}")
    yield "a format", spec(format=word, args=f"{{x: {{dtype: float32, dims: {{{word}: B D}}}}}}")
    yield (
        "a temporary",
        spec(kernel=f'{{aclnn: "aclnnX(x, layout, y)", temporaries: {{{word}: {{dtype: int32, dims: D}}}}}}'),
    )


TEXTS = {
    "three quotes": 'x """ y',
    "four quotes": '""""',
    "a quote at the end": 'x "',
    "a backslash at the end": "x \\",
    "many backslashes": "\\" * 80,
    "the end of a comment": "*/ #error x",
    "a line comment that goes on": "x \\\n#error x",
    "trigraphs": "??/ ??= ??'",
    "expressions of a template": "{{ 7 * 7 }} {{ op }} {{ self.__class__ }}",
    "statements of a template": "{% for x in range(9) %}{% endfor %} {% include '/etc/passwd' %} {# x #}",
    "other templates": "<% x %> %> ${x} #{x} %(x)s {0.__class__} {x!r:>99}",
    "escapes": "\\n \\x00 \\N{BULLET} \\u0041 \\777 \\",
    "lines": "one\ntwo\n\n\n  three\n",
    "a docstring's sections": "x\n\nArgs:\n    x: y\n\nReturns:\n    z",
    "code": '"""\nimport os\nos.system("true")\n"""',
    "linters' orders": "# noqa # type: ignore # fmt: off // clang-format off // NOLINT",
    "no latin letters": "\u6f22\u5b57 \U0001f600 \u00a0 \u200b \u00ad \u2028 \u2029 \u0085 e\u0301",
    "percent": "%s %d %n %",
    "a raw string": ')" R"(x)" r"""x',
}


def texts() -> Iterable[Case]:
    """Texts that would end what they stand in."""
    for name, text in TEXTS.items():
        word = yaml_quoted(text)
        args = f"{{x: {{dtype: float32, dims: {{BD: B D, D: D}}, doc: {word}}}, layout: {{type: str, default: BD, doc: {word}}}"
        everywhere = spec(
            summary=word,
            doc=word,
            dims=f"{{B: {word}, D: {word}}}",
            args=f"{args}, word: {{type: str, default: {word}, choices: [{word}, x]}}}}",
            outputs=f"{{y: {{like: x, doc: {word}}}}}",
            require=f"[{yaml_quoted(f'word != {text!r}')}, {yaml_quoted(f'word in ({text!r}, layout)')}]",
            kernel=f"{{aclnn: {yaml_quoted(f'aclnnX(x, layout, word, {text!r}, y)')}}}",
        )
        yield Case(f"{name} wherever there is text", everywhere, ACCEPTED)
    yield Case(
        "words of a template in the summary alone",
        spec(summary=yaml_quoted(TEXTS["statements of a template"])),
        ACCEPTED,
    )
    for name, text in {
        "NUL": "\\0",
        "escape": "\\e[31m",
        "bidi": "\\u202E",
        "delete": "\\x7f",
        "surrogate": "\\ud800",
        "noncharacter": "\\uFFFF",
        "too large": "\\UFFFFFFFF",
    }.items():
        yield Case(f"{name} by an escape", spec(doc=f'"{text}"'), "HP00")
    for name, char in {
        "NUL": "\0",
        "escape": "\x1b",
        "bell": "\x07",
        "bidi": "\u202e",
        "isolate": "\u2066",
        "BOM": "\ufeff",
        "C1": "\x9b",
    }.items():
        yield Case(f"{name} as it is", spec(doc=f"x{char}y"), "HP006")
    for name, text in {
        "NUL": "\\x00",
        "surrogate": "\\ud800",
        "bidi": "\\u202e",
        "escape": "\\x1b",
        "name": "\\N{RIGHT-TO-LEFT OVERRIDE}",
    }.items():
        yield Case(f"{name} by an escape of Python", spec(require=f"""['layout != "{text}"']"""), "HP202")
