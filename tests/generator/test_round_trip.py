# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Printing the model as YAML and reading it again gives the same model and the same bytes of output."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpgen.diagnostics import Source
from hpgen.plan import derive_operator
from hpgen.render import render_operator
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec
from hpgen.spec.model import Spec
from hpgen.spec.source import read_source
from hpgen.spec.unparse import unparse

from .spec_texts import ROOT

SPECS = sorted([*(ROOT / "specs").glob("*.yaml"), *(ROOT / "tests" / "fixtures" / "specs").glob("*.yaml")])


def read(text: str) -> Spec:
    spec = load_spec(Source("x.yaml", text))
    check_spec(spec)
    return spec


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_spec_survives_printing(path: Path) -> None:
    spec = load_spec(read_source(path, "x.yaml"))
    check_spec(spec)
    again = read(unparse(spec))
    assert again == spec
    assert unparse(again) == unparse(spec)
    assert render_operator(derive_operator(again, "x")) == render_operator(derive_operator(spec, "x"))


def test_words_that_look_like_numbers_stay_words() -> None:
    text = """
op: npu_words
summary: "yes"
format: F
dims: {D: "1e-6"}
args:
  x: {dtype: float32, dims: D}
  word: {type: str, default: "1e-6", choices: ["1e-6", "012", "no", "~", ""]}
outputs: {y: {like: x}}
sharding: {shard: [D]}
require: ['word != "~"', "D  >=1"]
backward: none
kernel: {aclnn: "aclnnWords(x, word, y)"}
reference: words:forward
"""
    spec = read(text)
    assert read(unparse(spec)) == spec
    assert [item.text for item in spec.requirements] == ['word != "~"', "D >= 1"]
