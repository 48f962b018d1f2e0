# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The schema is applied as its standard says: another validator has the same opinion of every spec."""

from __future__ import annotations

import json
import random
import re

import pytest
from jsonschema import Draft7Validator

from hpgen.diagnostics import Source, SpecError
from hpgen.spec.schema import FORMS, SOMETHING, schema_text, violations
from hpgen.spec.yaml_nodes import Mapping, plain, read_nodes

from ..fuzz.broken_specs import broken_spec
from .spec_texts import ROOT

PEER = Draft7Validator(json.loads(schema_text()))
TEXTS = [path.read_text(errors="replace") for path in sorted(ROOT.glob("tests/errors/*/*.yaml"))]


def nodes(text: str) -> Mapping | None:
    try:
        return read_nodes(Source("x.yaml", text))
    except SpecError:
        return None


def faults(root: Mapping) -> set[tuple[str, ...]]:
    """Where something is wrong, and by which keyword."""
    return {(*map(str, item.path), item.keyword) for item in violations(root)}


def peer_faults(root: Mapping) -> set[tuple[str, ...]]:
    return {(*map(str, error.absolute_path), error.validator) for error in PEER.iter_errors(plain(root))}


def test_every_mistake_of_the_collection() -> None:
    roots = [root for root in map(nodes, TEXTS) if root is not None]
    assert len(roots) > 20
    assert any(faults(root) for root in roots)
    for root in roots:
        assert faults(root) == peer_faults(root)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_mistakes(seed: int) -> None:
    draw, seen, wrong = random.Random(seed), 0, 0
    for _ in range(60):
        root = nodes(broken_spec(draw).decode("utf-8", errors="ignore"))
        if root is not None:
            seen += 1
            wrong += bool(faults(root))
            assert faults(root) == peer_faults(root)
    assert seen > 10
    assert wrong > 2


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan", "1e400", "9" * 39, "'\\0'", "true", "~"])
def test_values_that_json_does_not_have(value: str) -> None:
    text = f"op: x\nargs: {{a: {{type: float, default: {value}}}}}\n"
    root = nodes(text)
    assert root is not None
    assert faults(root) == peer_faults(root)


def test_every_pattern_has_words_for_messages() -> None:
    assert set(re.findall(r'"pattern": ("[^\n]*")', schema_text())) == {
        json.dumps(each) for each in (SOMETHING, *FORMS)
    }
