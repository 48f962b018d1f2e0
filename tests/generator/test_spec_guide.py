# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every example of docs/spec.md is read, checked and generated."""

from __future__ import annotations

import re

import pytest
import yaml

from hpgen import diagnostics
from hpgen.diagnostics import Source
from hpgen.plan import derive_operator
from hpgen.render import render_operator
from hpgen.spec import dims, expression, kernel_call, load, load_rules, names, source, yaml_nodes
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec
from hpgen.spec.schema import schema_text
from hyper_parallel.core.shard import argument_checks

from .spec_texts import ROOT

GUIDE = (ROOT / "docs" / "spec.md").read_text()
BLOCKS = re.findall(r"^```yaml ([\w:]+)\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)
WHOLE = [text for kind, text in BLOCKS if kind == "spec"]
PARTS = [(kind.removeprefix("part:"), text) for kind, text in BLOCKS if kind.startswith("part:")]


def generate(text: str) -> dict[str, str]:
    spec = load_spec(Source("x.yaml", text))
    check_spec(spec)
    return {
        str(path): content for path, content in render_operator(derive_operator(spec, "specs/x.yaml")).files.items()
    }


def insert(key: str, part: str) -> str:
    """The guide's first spec with a part put in under a top-level key, and with what the part needs."""
    base = WHOLE[0]
    if key == "top":
        base = base.replace("  eps: {type: float", "  sparse: {type: bool, default: false}\n  eps: {type: float")
        base = base.replace("layout, eps, norm)", "layout, sparse, eps, norm)")
        base = base.replace("D: hidden size}", "D: hidden size, K: keys}")
        base = base.replace(
            "  layout: {type: str",
            "  keys: {dtype: x, dims: {BSD: B K D, TD: K D}, differentiable: false}\n  layout: {type: str",
        )
        return base.replace("(x, scale, layout", "(x, scale, keys, layout") + part
    added = [line.split(":")[0].strip() for line in part.splitlines() if re.match(r"  \w+:", line)]
    if key in ("backward", "kernel"):
        return re.sub(rf"^{key}:\n(  .*\n)+", lambda _: f"{key}:\n{part}", base, flags=re.MULTILINE)
    base = re.sub(rf"^{key}:\n", lambda _: f"{key}:\n", base, flags=re.MULTILINE)
    before = {"args": "outputs:\n", "outputs": "require:\n", "require": "sharding:\n"}[key]
    base = base.replace(before, part + before)
    if key == "args":
        base = base.replace("layout, eps, norm)", f"layout, eps, {', '.join(added)}, norm)")
    if key == "outputs":
        base = base.replace("eps, norm)", f"eps, norm, {', '.join(added)})")
        base = base.replace("grad(x))\n", "grad(x))\n  grads_unused: ignored\n")
    return base


@pytest.mark.parametrize("text", WHOLE, ids=lambda text: text.split()[1])
def test_a_whole_spec_is_generated(text: str) -> None:
    assert generate(text)


@pytest.mark.parametrize(("key", "part"), PARTS, ids=lambda value: value.strip()[:30])
def test_a_part_is_generated_in_a_spec(key: str, part: str) -> None:
    assert generate(insert(key, part))


def test_every_key_of_the_language_is_in_the_guide() -> None:
    def keys(node: object) -> set[str]:
        if isinstance(node, dict):
            found = set(node.get("properties", {}))
            return found.union(*(keys(value) for value in node.values()))
        return set().union(*(keys(item) for item in node)) if isinstance(node, list) else set()

    missing = {key for key in keys(yaml.safe_load(schema_text())) if not re.search(rf"\b{key}\b", GUIDE)}
    assert missing == set()


def test_the_limits_are_those_of_the_code() -> None:
    section = GUIDE.split("## Limits")[1].split("\n## ")[0]
    named = {
        int(number.replace(",", "")) for number in re.findall(r"\b\d[\d,]*\b(?! = )", section.split("|---|---|")[1])
    }
    limits = {
        source.MOST_BYTES,
        yaml_nodes.MOST_NODES,
        yaml_nodes.MOST_NESTED,
        yaml_nodes.MOST_ENTRIES,
        kernel_call.MOST_ARGUMENTS,
        load.MOST_FORMATS,
        load_rules.MOST_CHARACTERS,
        dims.MOST_DIMS,
        names.MOST_CHARACTERS,
        expression.LONGEST,
        expression.DEEPEST,
        expression.LONGEST_TEXT,
        expression.MOST_FACTORIAL,
        argument_checks.MOST_FACTORIAL,
        diagnostics.MOST_FINDINGS,
        diagnostics.MOST_TEXT,
        (2**63 - 1).bit_length() + 1,
    }
    assert named == limits
