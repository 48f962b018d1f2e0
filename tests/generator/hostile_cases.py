# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs that were not written to be generated from: what the tool must make of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ACCEPTED = ""

PARTS = {
    "op": "npu_hostile",
    "summary": "A copy.",
    "doc": "",
    "format": "layout",
    "dims": "{B: batch, D: channels}",
    "args": "{x: {dtype: float32, dims: {BD: B D, D: D}}, layout: {type: str, default: BD}}",
    "outputs": "{y: {like: x}}",
    "require": "",
    "sharding": "{shard: [B]}",
    "context_parallel": "",
    "backward": "none",
    "kernel": '{aclnn: "aclnnHostile(x, layout, y)"}',
    "reference": "m:f",
    "platforms": "",
}


def spec(**parts: str) -> str:
    """A small spec with some of its values replaced by other YAML."""
    return "".join(f"{key}: {text}\n" for key, text in (PARTS | parts).items() if text)


@dataclass(frozen=True)
class Case:
    """Files for a folder of specs, and the id of the diagnostic that they get (ACCEPTED: none)."""

    name: str
    content: str | bytes | Callable[[Path], None]
    rule: str
    file: str = "npu_hostile.yaml"
    arguments: str = "specs"

    def prepare(self, folder: Path) -> None:
        specs = folder / "specs"
        specs.mkdir(parents=True)
        folder.joinpath("arguments").write_text(self.arguments)
        if callable(self.content):
            self.content(specs)
        else:
            data = self.content.encode() if isinstance(self.content, str) else self.content
            specs.joinpath(self.file).write_bytes(data)


def many(count: int, text: str, joint: str = ", ") -> str:
    """The text so often, each with its number for `#`."""
    return joint.join(text.replace("#", str(number)) for number in range(count))


def yaml_quoted(text: str) -> str:
    """Any text as a YAML scalar in double quotes."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(escapes.get(char, char) for char in text) + '"'


def files() -> Iterable[Case]:
    """What lies in the folder is no text, or no file."""
    good = spec()
    yield Case("empty file", "", "HP020")
    yield Case("only comments", "# nothing\n\n# here\n", "HP020")
    yield Case("only a document start", "---\n", "HP020")
    yield Case("only line breaks", "\n" * 900_000, "HP020")
    yield Case("two documents", good + "---\n" + good, "HP020")
    yield Case("a byte order mark", b"\xef\xbb\xbf" + good.encode(), "HP006")
    yield Case("UTF-16", good.encode("utf-16"), "HP001")
    yield Case("UTF-16 without a mark", good.encode("utf-16-le"), "HP006")
    yield Case("UTF-32", good.encode("utf-32"), "HP001")
    yield Case("Latin-1", spec(summary="d\u00e9j\u00e0 vu").encode("latin-1"), "HP001")
    yield Case("EBCDIC", good.encode("cp500"), "HP001")
    yield Case("a surrogate in UTF-8", good.encode() + b"# \xed\xa0\x80\n", "HP001")
    yield Case("an overlong slash", good.encode() + b"# \xc0\xaf\n", "HP001")
    yield Case("bytes at random", bytes(range(256)) * 100, "HP001")
    yield Case("a compressed file", b"\x1f\x8b\x08\x00" + bytes(1000), "HP001")
    yield Case("null bytes", good.encode() + bytes(1000), "HP006")
    yield Case("CR LF", good.replace("\n", "\r\n"), ACCEPTED)
    yield Case("CR", good.replace("\n", "\r"), ACCEPTED)
    yield Case("CR in a mistake", good.replace("\n", "\r").replace("float32", "float33"), "HP203")
    yield Case("line separators", "\u2028" + good.replace("\n", "\u2028").replace("float32", "float33"), "HP203")
    yield Case("next lines", good.replace("\n", "\x85").replace("float32", "float33"), "HP203")
    yield Case("tabs", good.replace("dims: {B", "dims:\n\t{B"), "HP002")
    yield Case("larger than allowed", good + "#" * 1_000_001, "HP005")
    yield Case("a folder called like a spec", lambda specs: (specs / "npu_hostile.yaml").mkdir(), "HP001")
    yield Case("a pipe", lambda specs: os.mkfifo(specs / "npu_hostile.yaml"), "HP001")
    pipe = "specs/npu_hostile.yaml"
    yield Case("a pipe by its name", lambda specs: os.mkfifo(specs / "npu_hostile.yaml"), "HP001", arguments=pipe)
    yield Case("an endless device", linked("/dev/zero"), "HP001")
    yield Case("an endless device by its name", linked("/dev/zero"), "HP001", arguments=pipe)
    yield Case("a terminal", linked("/dev/tty"), "HP001")
    yield Case("a link to nothing", linked("nothing"), "HP001")
    yield Case("a link to itself", linked("npu_hostile.yaml"), "HP001")
    yield Case("a link to its folder", linked("."), "HP001")
    yield Case("a name of control characters", good, "HP502", file="npu_\x1b[31m\u202e.yaml")
    yield Case("a name of two lines", good, "HP502", file="npu_hostile\nx.yaml")


def linked(target: str) -> Callable[[Path], None]:
    return lambda specs: (specs / "npu_hostile.yaml").symlink_to(target)


def documents() -> Iterable[Case]:
    """YAML that is large, deep, or more than data."""
    bomb = ["a0: &a0 [x, x]", *(f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]" for number in range(1, 60))]
    yield Case("an alias bomb", "\n".join(bomb), "HP004")
    yield Case("an alias of itself", "op: &a [*a]\n", "HP004")
    yield Case("merge keys", spec(args="{<<: {x: {dtype: float32, dims: D}}}"), "HP021")
    yield Case("a Python object", "op: !!python/object/apply:os.system ['echo x > pwned']\n", "HP004")
    yield Case("a tag", "op: !x y\n", "HP004")
    yield Case("a directive", "%YAML 9.9\n---\n" + spec(), "HP002")
    yield Case("tag directives", "%TAG ! tag:x,2000:\n" * 2 + "---\n" + spec(), "HP002")
    for name, text in {
        "lists": "[" * 400_000 + "]" * 400_000,
        "open lists": "[" * 900_000,
        "mappings": "{a: " * 100_000 + "}" * 100_000,
        "block lists": "- " * 450_000 + "x",
        "block mappings": "".join(f"\n{' ' * depth}a:" for depth in range(1000)),
        "question marks": "? " * 450_000 + "x",
    }.items():
        yield Case(f"nested {name}", f"op: {text}\n" if name != "block lists" else f"op:\n {text}\n", "HP00")
    for key in ("op", "summary", "doc", "format", "backward", "reference"):
        yield Case(f"a long {key}", spec(**{key: "x" * 990_000}), "HP")
    yield Case("a long text in quotes", spec(doc='"' + "\\u0041" * 160_000 + '"'), "HP020")
    yield Case("a long folded text", spec(doc=">\n" + "  x\n" * 240_000), "HP020")
    yield Case("a long key", spec(args="{? " + "x" * 900_000 + " : {dtype: float32, dims: D}}"), "HP")
    yield Case("a long unknown key", spec() + "? " + "x" * 900_000 + "\n: 1\n", "HP021")
    yield Case(
        "a long number",
        spec(args="{x: {dtype: float32, dims: D}, n: {type: int, default: " + "9" * 900_000 + "}}"),
        "HP",
    )
    yield Case(
        "a long number with a point",
        spec(args="{x: {dtype: float32, dims: D}, n: {type: float, default: 0." + "9" * 900_000 + "}}"),
        "HP",
    )
    yield Case("a long name of a dtype", spec(args="{x: {dtype: " + "f" * 900_000 + ", dims: D}}"), "HP")
    yield Case("a long kernel call", spec(kernel='{aclnn: "aclnnX(' + "x, " * 300_000 + 'y)"}'), "HP005")
    yield Case("a long comment", spec() + "# " + "x" * 990_000, ACCEPTED)
    yield Case("many comments", spec() + "#\n" * 490_000, ACCEPTED)
    yield Case("many colons", ":" * 900_000, "HP")
    yield Case("many quotes", "'" * 900_001, "HP002")
    yield Case("many unknown keys", spec() + many(399, "k#: v", "\n"), "HP")
    yield Case(
        "many mistakes",
        spec(args="{" + many(128, "x#: {dtype: float33, dims: Q#, optionl: true, typ: 1}") + "}"),
        "HP021",
    )
    yield Case("one key many times", spec() + "op: x\n" * 300, "HP003")
    yield Case("many keys of one name", "a: 1\n" * 100_000, "HP005")


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
    yield Case("400 dims of a tensor", spec(args="{x: {dtype: float32, dims: {BD: " + "D " * 400 + "}}}"), "HP")
    yield Case(
        "390 formats",
        spec(args="{x: {dtype: float32, dims: {" + many(390, "F#: B D") + "}}, layout: {type: str}}"),
        "HP",
    )
    yield Case("everything at its most", everything(128, 64, 16, 100, 64), ACCEPTED)
    yield Case("many tensors and few formats", everything(128, 64, 2, 150, 16), ACCEPTED)
    yield Case("many formats", everything(2, 1, 16, 130, 64), ACCEPTED)
    yield Case("long requirements in many formats", long_requirements(240, 16), "HP005")
    yield Case("requirements in many formats", long_requirements(10, 16), ACCEPTED)
    yield Case("many launches, each long", many_launches(390), "HP005")
    yield Case("many launches", many_launches(25), ACCEPTED)
    yield Case("many tensors, formats and dims", everything(100, 1, 190, 1, 1), "HP005")
    yield Case("many tensors with the same long dims", same_dims(100, 390, 499), "HP")
    yield Case(
        "many requirements, each long", spec(require="[" + many(230, "D > " + " + ".join(["B"] * 900)) + "]"), "HP"
    )
    yield Case("many unknown names, each long", unknown_names(), "HP")


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


NAMES = """__class__ ../x ../../etc/passwd /etc/passwd x/y . .. class int64_t self size_t std void template None True def
    lambda match nullptr NULL errno EOF INT64_MAX inf fact rank x-y x.y x[0] x() 1x _x x__y \u00e9 \uff58 x\u0301
    __init__ __import__('os') $(reboot) `reboot` x;y %s {x} ~ -x ctx cls m runner""".split()


IN_EVERY_PLACE = 8


def names() -> Iterable[Case]:
    """Names that would be code, or another file."""
    for number, name in enumerate(NAMES):
        found = list(places(name))
        for place, made in found if number < IN_EVERY_PLACE else [found[number % len(found)]]:
            yield Case(f"{name} as {place}", made, "HP")
    yield Case("an operator of 400 characters", spec(op="npu_" + "x" * 396), "HP101")
    yield Case("an argument of 400 characters", spec(args="{" + "x" * 400 + ": {dtype: float32, dims: D}}"), "HP")
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
        yield Case(f"{module} as the delegate", spec(platforms=f'{{torch: {{delegate: "{module}"}}}}'), "HP")


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
    "many backslashes": "\\" * 99,
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
        yield Case(f"{name} in a condition", spec(require=f'["{text}"]'), "HP202" if text.strip() else "HP")
    for name, text in CONDITIONS.items():
        yield Case(f"{name}, which is allowed", spec(require=f'["{text}"]'), ACCEPTED)
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
        yield Case(f"{text[:30]} as a dim", spec(args=found), "HP")
    for text in ("0", "-1", "9223372036854775807", "fact(20)", "D//-1", "B-B", "cdiv(D,D-D)"):
        resized = f'{{y: {{dtype: x, dims: {{BD: "B {text.replace("B", "D")}", D: "{text.replace("B", "D")}"}}, combine: sum}}}}'
        yield Case(f"{text} as a dim of an output", spec(outputs=resized), "HP")
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
        yield Case(f"{text[:30]} as the kernel call", spec(kernel=f'{{aclnn: "{text}"}}'), "HP")


def all_cases() -> list[Case]:
    return [*files(), *documents(), *counts(), *names(), *texts(), *expressions()]
