# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What runs on DTensors is what the registry files and the generated classes say.

The tests change a copy of the installed package and run a script on it in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from .lse_cases import OP

LIBRARY = f"hyper_parallel/generated/{OP}"
REGISTRY_FILE = f"{LIBRARY}/{OP}_ops.yaml"
DISTRIBUTED_OP = f"{LIBRARY}/parallel_{OP}.py"

# On one rank's view of a mesh of two: prints the layout of the outputs, or the error.
CALL = """
import numpy as np
import hyper_parallel
from hyper_parallel import Shard, custom_ops, distribute_tensor, init_device_mesh

mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",), init_backend=False)
shapes = ((4, 2, 8, 128), (4, 3, 1, 128), (4, 2, 8))
tensors = [distribute_tensor(np.ones(shape, np.float32), mesh, (Shard(0),)) for shape in shapes]
try:
    outputs = custom_ops.npu_dense_lightning_indexer_softmax_lse(*tensors)
    print("layouts", *(output.layout.compact_str for output in outputs))
except Exception as error:
    print(type(error).__name__, error)
print(hyper_parallel.__file__)
"""


@pytest.fixture
def site(tmp_path):
    """A folder with a copy of the package, operator library and references, to be changed at will."""
    folder = tmp_path / "site"
    for package in ("hyper_parallel", "hyper_parallel.generated", "hyper_parallel.reference"):
        (source,) = import_module(package).__path__
        target = folder.joinpath(*package.split("."))
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def run_on(site: Path, script: str = CALL, **environment: str) -> str:
    """What the script prints when it imports the package from `site`; its last line has to say that it did."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HYPER_PARALLEL")}
    variables |= {"HYPER_PARALLEL_PLATFORM": "numpy", "PYTHONPATH": str(site), **environment}
    completed = subprocess.run(
        [sys.executable, "-c", script], env=variables, cwd=site, capture_output=True, text=True, timeout=60, check=False
    )
    assert completed.returncode == 0, completed.stderr
    *lines, origin = completed.stdout.splitlines()
    assert Path(origin) == site / "hyper_parallel/__init__.py"
    return "\n".join(lines)


def test_the_unchanged_copy(site):
    assert run_on(site) == "layouts [dp, None, None] [dp, None, None]"


def test_without_its_registry_file_the_operator_says_how_to_register(site):
    (site / REGISTRY_FILE).unlink()
    assert run_on(site) == (
        f"RuntimeError No distributed operator is registered under the name '{OP}', so it cannot run on DTensors. "
        "Did you mean npu_dense_lightning_indexer_grad_kl_loss? Register one: generate it from a spec with 'hpgen ops', add a registry YAML through "
        f"HYPER_PARALLEL_OPS_YAML_DIR, or create a DistributedOp('{OP}') in Python. "
        "Or pass local tensors (DTensor.to_local())."
    )


def test_a_dim_removed_from_shard_is_refused(site):
    edit(site / DISTRIBUTED_OP, 'shard=("B", "S1", "T1", "T2")', 'shard=("S1", "T1", "T2")')
    assert run_on(site) == (
        f"ValueError For {OP}, B (dim 0) of query_index should be replicated, but got tensor_map=(0, -1, -1, -1)."
    )


def test_other_output_dims_are_another_output_layout(site):
    edit(site / DISTRIBUTED_OP, '"softmax_sum": ("B", "N2", "S1")', '"softmax_sum": ("N2", "S1", "B")')
    assert run_on(site) == "layouts [dp, None, None] [None, None, dp]"


def test_another_requirement_is_checked(site):
    edit(site / DISTRIBUTED_OP, "if N2 != 1:", "if N2 != 2:")
    assert run_on(site) == f"ValueError For {OP}, N2 == 1 is required, but got N2=1."


def test_the_registry_file_names_the_class(site):
    edit(site / REGISTRY_FILE, "SoftmaxLseDistributedOp", "SoftmaxLseOtherOp")
    message = run_on(site)
    assert message.startswith(f"ImportError {site / REGISTRY_FILE}: ")
    assert message.endswith(f"has no class NpuDenseLightningIndexerSoftmaxLseOtherOp for {OP}.")


# Registered from outside: the operator doubles a tensor in any layout.
DOUBLE = """
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp


class DoubleDistributedOp(DistributedOp):
    def preprocess(self, args, kwargs):
        (x,) = args
        return (x.to_local(),), {}, (x.layout,)

    def infer_layout(self, cache_values):
        return (cache_values[0],), None
"""

CALL_DOUBLE = f"""
from hyper_parallel.core.shard.dfunction import DFunction


class Double(DFunction):
    _op_name = "double"

    @staticmethod
    def forward(ctx, x):
        return 2 * x


{CALL.replace("try:", "print(Double.apply(tensors[2]).to_local().sum())" + chr(10) + "try:")}
"""


def registry_entry(op: str, **keys: str) -> str:
    return f"{op}:\n" + "".join(f"  {key}: {value}\n" for key, value in keys.items())


def test_an_operator_from_outside_works_beside_the_built_in_one(site, tmp_path):
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "parallel_double.py").write_text(DOUBLE)
    (extra / "mine.yaml").write_text(
        registry_entry("double", distributed_op_class="DoubleDistributedOp", distributed_op_file="parallel_double.py")
    )
    assert run_on(site, CALL_DOUBLE, HYPER_PARALLEL_OPS_YAML_DIR=str(extra)) == (
        "64.0\nlayouts [dp, None, None] [dp, None, None]"
    )


def test_its_python_file_may_lie_in_another_folder(site, tmp_path):
    extra, sources = tmp_path / "extra", tmp_path / "sources"
    extra.mkdir()
    sources.mkdir()
    (sources / "parallel_double.py").write_text(DOUBLE)
    (extra / "mine.yaml").write_text(
        registry_entry("double", distributed_op_class="DoubleDistributedOp", distributed_op_file="parallel_double")
    )
    folders = {"HYPER_PARALLEL_OPS_YAML_DIR": str(extra), "HYPER_PARALLEL_OPS_PYTHON_PATH": str(sources)}
    assert run_on(site, CALL_DOUBLE, **folders).startswith("64.0\nlayouts")


def test_one_operator_in_two_registry_files(site, tmp_path):
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "parallel_double.py").write_text(DOUBLE)
    (extra / "mine.yaml").write_text(
        registry_entry(OP, distributed_op_class="DoubleDistributedOp", distributed_op_file="parallel_double.py")
    )
    assert run_on(site, HYPER_PARALLEL_OPS_YAML_DIR=str(extra)) == (
        f"ValueError The operator {OP} is registered twice: in {site / REGISTRY_FILE} and in {extra / 'mine.yaml'}. "
        "Remove one of the entries."
    )


def test_one_operator_in_two_files_of_one_folder(site, tmp_path):
    extra = tmp_path / "extra"
    extra.mkdir()
    entry = registry_entry("double", distributed_op_class="DoubleDistributedOp", distributed_op_file="double.py")
    for name in ("first.yaml", "second.yaml"):
        (extra / name).write_text(entry)
    message = run_on(site, HYPER_PARALLEL_OPS_YAML_DIR=str(extra))
    assert message.startswith("ValueError The operator double is registered twice: ")
    assert f"in {extra / 'first.yaml'} and in {extra / 'second.yaml'}" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("double: {distributed_op_file: a.py}", "the entry double should name its distributed_op_class."),
        ("double: {distributed_op_class: A}", "should name its distributed_op_file or distributed_op_module."),
        (
            "double: {distributed_op_class: A, distributed_op_file: a.py, distributed_op_flie: b.py}",
            "the entry double has unknown keys ['distributed_op_flie']",
        ),
        ("- double", "should map operator names to entries."),
        ("double: [", "cannot be read:"),
    ],
    ids=["no class", "no file", "unknown key", "a list", "bad YAML"],
)
def test_a_registry_file_with_a_mistake_is_named(site, tmp_path, text, message):
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "mine.yaml").write_text(text)
    error = run_on(site, HYPER_PARALLEL_OPS_YAML_DIR=str(extra))
    assert error.startswith("ValueError ")
    assert str(extra / "mine.yaml") in error
    assert message in error


def test_a_folder_that_is_missing(site, tmp_path):
    missing = tmp_path / "missing"
    assert run_on(site, HYPER_PARALLEL_OPS_YAML_DIR=str(missing)) == (
        f"FileNotFoundError HYPER_PARALLEL_OPS_YAML_DIR names {missing}, which is not a folder."
    )


def test_a_folder_with_nothing_in_it(site, tmp_path):
    library = tmp_path / "acme_ops"
    empty = library / "csrc" / "cpu"
    empty.mkdir(parents=True)
    message = (
        f"LibraryError HYPER_PARALLEL_OPS_YAML_DIR names {empty}, which holds neither build.json nor *_ops.yaml; name the "
        "folder that 'hpgen ops' wrote"
    )
    assert run_on(site, HYPER_PARALLEL_OPS_YAML_DIR=str(empty)) == f"{message}."
    (library / "generated").mkdir()
    (library / "generated" / "build.json").write_text("{}")
    meant = f"{message} (did you mean {library / 'generated'}?)."
    assert run_on(site, HYPER_PARALLEL_OPS_YAML_DIR=str(empty)) == meant
