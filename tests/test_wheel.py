# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The wheel holds everything that the installed tool and runtime need."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.generator.spec_texts import LSE, SPECS, tree
from tests.wheels import ROOT, empty_environment, hpgen_wheel, outside_variables

OUTSIDE = """
import json, sys
import numpy as np
import hyper_parallel
from hyper_parallel import custom_ops
from hyper_parallel.reference import dense_lightning_indexer

assert not {"torch", "mindspore"} & set(sys.modules)
q, k, w = (np.ones(shape, "f4") for shape in ((1, 2, 8, 128), (1, 2, 1, 128), (1, 2, 8)))
print(json.dumps([custom_ops.NAME(q, k, w)[0].tolist(), hyper_parallel.__file__]))
""".replace("NAME", LSE)


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    wheel = hpgen_wheel()
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "hpgen/spec/schema.json",
        "hpgen/templates/api.py.j2",
        "hpgen/templates/verify.html.j2",
        "hpgen/csrc/runner.h",
        "hpgen/csrc/cpu/dense_lightning_indexer.h",
        "hyper_parallel/generated/build.json",
        f"hyper_parallel/generated/{LSE}/{LSE}.cc",
        "hyper_parallel/reference/dense_lightning_indexer.py",
        "hyper_parallel/py.typed",
    ):
        assert needed in names
    for operator in SPECS.glob("*.yaml"):
        assert f"hyper_parallel/generated/{operator.stem}/api.py" in names
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "docs"))]

    python = empty_environment(tmp_path / "venv") / "python"
    environment = outside_variables()
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *constraints, str(wheel)], check=True, capture_output=True, env=environment)

    empty = tmp_path / "empty" / "specs"
    empty.mkdir(parents=True)
    for spec in SPECS.glob("*.yaml"):
        (empty / spec.name).write_bytes(spec.read_bytes())
    command = [str(tmp_path / "venv" / "bin" / "hpgen"), "ops", "specs/"]
    subprocess.run(command, cwd=empty.parent, check=True, capture_output=True, env=environment)
    shutil.copytree(SPECS / "reference", empty / "reference")
    for form in ("text", "html"):
        verify = [command[0], "verify", "specs/npu_mhc_post.yaml", "--format", form]
        subprocess.run(verify, cwd=empty.parent, check=True, capture_output=True, env=environment)
    assert tree(empty.parent / "generated") == tree(ROOT / "generated")

    result = subprocess.run(
        [str(python), "-c", OUTSIDE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"HYPER_PARALLEL_PLATFORM": "numpy"},
    )
    assert result.returncode == 0, result.stderr
    assert str(tmp_path / "venv") in result.stdout
