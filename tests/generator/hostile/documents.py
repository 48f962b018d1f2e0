# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are no text or no file, and YAML that is large, deep, or more than data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from .case import ACCEPTED, Case, many, spec


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


BOTH = "{x: {dtype: float32, dims: {BD: B D, D: D}}, layout: {type: str, default: BD}"
WITH_N = '{aclnn: "aclnnX(x, layout, n, y)"}'


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
    long = {
        "op": "HP101",
        "summary": "HP020",
        "doc": "HP020",
        "format": "HP105",
        "backward": "HP023",
        "reference": "HP404",
    }
    for key, rule in long.items():
        yield Case(f"a long {key}", spec(**{key: "x" * 990_000}), rule)
    yield Case("a long text in quotes", spec(doc='"' + "\\u0041" * 160_000 + '"'), "HP020")
    yield Case("a long folded text", spec(doc=">\n" + "  x\n" * 240_000), "HP020")
    yield Case("a long key", spec(args="{? " + "x" * 900_000 + " : {dtype: float32, dims: D}}"), "HP101")
    yield Case("a long unknown key", spec() + "? " + "x" * 900_000 + "\n: 1\n", "HP021")
    yield Case(
        "a long number",
        spec(args="{x: {dtype: float32, dims: D}, n: {type: int, default: " + "9" * 900_000 + "}}"),
        "HP201",
    )
    yield Case(
        "a long number with a point",
        spec(args=BOTH + ", n: {type: float, default: 0." + "9" * 900_000 + "}}", kernel=WITH_N),
        ACCEPTED,
    )
    yield Case("a long name of a dtype", spec(args="{x: {dtype: " + "f" * 900_000 + ", dims: D}}"), "HP203")
    yield Case("a long kernel call", spec(kernel='{aclnn: "aclnnX(' + "x, " * 300_000 + 'y)"}'), "HP005")
    yield Case("a long comment", spec() + "# " + "x" * 990_000, ACCEPTED)
    yield Case("many comments", spec() + "#\n" * 490_000, ACCEPTED)
    yield Case("many colons", ":" * 900_000, "HP002")
    yield Case("many quotes", "'" * 900_001, "HP002")
    yield Case("many unknown keys", spec() + many(380, "k#: v", "\n"), "HP021")
    yield Case(
        "many mistakes",
        spec(args="{" + many(128, "x#: {dtype: float33, dims: Q#, optionl: true, typ: 1}") + "}"),
        "HP021",
    )
    yield Case("one key many times", spec() + "op: x\n" * 300, "HP003")
    yield Case("many keys of one name", "a: 1\n" * 100_000, "HP005")
