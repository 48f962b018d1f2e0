# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An operator library from outside: announced by an entry point or named by the environment, beside the built-in one.

Each script runs in a process of its own, since libraries are looked for once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generator.spec_texts import hpgen, tree
from tests.operator_library import EXAMPLE, ON_NUMPY, ON_TORCH, OP, announce, install, run_with

YAML_DIR, PYTHON_PATH = "HYPER_PARALLEL_OPS_YAML_DIR", "HYPER_PARALLEL_OPS_PYTHON_PATH"


def test_the_example_is_what_its_specs_give() -> None:
    checked = hpgen("ops", "acme_ops/specs", "-o", "acme_ops/generated", "--check", cwd=EXAMPLE)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_hpgen_lists_it() -> None:
    listed = hpgen("list", "acme_ops/specs", cwd=EXAMPLE)
    assert OP in listed.stdout


def test_plain_and_sharded_and_gradients(tmp_path: Path) -> None:
    install(tmp_path)
    assert run_with(tmp_path, script=ON_NUMPY) == "right\n"


def test_on_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    install(tmp_path)
    assert run_with(tmp_path, script=ON_TORCH, platform="torch") == "right\n"


def test_it_stands_wherever_operators_stand(tmp_path: Path) -> None:
    install(tmp_path)
    script = f"""
import sys
from hyper_parallel import custom_ops, get_platform
from hyper_parallel.core.shard.ops.parallel_ops_register import REGISTRY
from hyper_parallel.platform.numpy.custom_ops import custom_op_impl

operators = get_platform().custom_ops
for names in (dir(custom_ops), custom_ops.__all__, dir(operators), REGISTRY.entries()):
    assert "{OP}" in names and "npu_mhc_post" in names, names
assert not [name for name in sys.modules if name.startswith("acme_ops")], "nothing of it has been imported so far"
assert hasattr(custom_ops, "{OP}") and not hasattr(custom_ops, "acme_gone") and not hasattr(operators, "acme_gone")
from acme_ops.generated import {OP}
assert custom_ops.{OP} is {OP} is vars(custom_ops)["{OP}"]
assert operators.{OP} is vars(operators)["{OP}"].__func__
assert custom_op_impl.AcmeGatedAddDFunction._op_name == "{OP}"
from hyper_parallel.custom_ops import *
assert {OP} is custom_ops.{OP} and npu_mhc_post
"""
    run_with(tmp_path, script=script)


def test_entry_points_are_read_on_the_first_use_and_once(tmp_path: Path) -> None:
    install(tmp_path)
    script = f"""
import importlib.metadata
reads, read = [], importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **group: (reads.append(group), read(**group))[1]

import hyper_parallel
from hyper_parallel import DTensor, custom_ops, get_platform
from hyper_parallel.core.shard.dfunction import DFunction
assert reads == []
custom_ops.npu_mhc_post
custom_ops.{OP}, get_platform().custom_ops.{OP}, dir(custom_ops)
assert reads == [{{"group": "hyper_parallel.op_libraries"}}], reads
"""
    run_with(tmp_path, script=script)


def test_a_mistyped_name_is_met_with_the_library_s(tmp_path: Path) -> None:
    install(tmp_path)
    script = """
from hyper_parallel import custom_ops
try:
    custom_ops.acme_gated_ad
except AttributeError as error:
    print(error)
"""
    assert run_with(tmp_path, script=script) == (f"The library has no operator 'acme_gated_ad'. Did you mean {OP}?\n")


def test_it_may_import_its_own_operators_while_it_is_imported(tmp_path: Path) -> None:
    package = install(tmp_path)
    (package / "__init__.py").write_text(f"from hyper_parallel.custom_ops import {OP} as gated\n")
    script = f"from hyper_parallel import custom_ops; custom_ops.{OP}; import acme_ops; assert acme_ops.gated"
    run_with(tmp_path, script=script)


def test_references_beside_the_generated_package(tmp_path: Path) -> None:
    """As where the specs lie outside of the package."""
    package = install(tmp_path)
    (package / "specs" / "reference").rename(package / "reference")
    shutil.rmtree(package / "specs")
    assert run_with(tmp_path, script=ON_NUMPY) == "right\n"


# --- by the environment ---


def test_a_folder_adds_its_operators(tmp_path: Path) -> None:
    """On no path: the folder is imported under a name made for it."""
    package = install(tmp_path)
    assert run_with(script=ON_NUMPY, **{YAML_DIR: package / "generated"}) == "right\n"


def test_a_folder_around_generated_folders_adds_them_all(tmp_path: Path) -> None:
    package = install(tmp_path / "libraries" / "one")
    shutil.rmtree(package / "specs" / "reference")
    references = EXAMPLE / "acme_ops" / "specs" / "reference"
    (package / "specs" / f"{OP}.yaml").unlink()
    variables = {YAML_DIR: tmp_path / "libraries", PYTHON_PATH: references}
    assert run_with(script=ON_NUMPY, **variables) == "right\n"


def test_a_folder_on_the_path_is_imported_under_its_own_name(tmp_path: Path) -> None:
    package = install(tmp_path)
    shutil.rmtree(tmp_path / "acme_ops-1.0.0.dist-info")
    script = f"from hyper_parallel import custom_ops; print(custom_ops.{OP}.__module__)"
    printed = run_with(tmp_path, script=script, **{YAML_DIR: package / "generated"})
    assert printed == f"acme_ops.generated.{OP}.api\n"


@pytest.mark.parametrize("way", ["as it is", "through a link", "from around it", "twice"])
def test_the_same_folder_reached_by_two_ways_is_no_clash(tmp_path: Path, way: str) -> None:
    generated = install(tmp_path / "site") / "generated"
    (tmp_path / "link").symlink_to(generated, target_is_directory=True)
    shutil.rmtree(tmp_path / "site" / "acme_ops" / "specs" / "__pycache__", ignore_errors=True)
    (tmp_path / "site" / "acme_ops" / "specs" / f"{OP}.yaml").unlink()
    folder = {
        "as it is": generated,
        "through a link": tmp_path / "link",
        "from around it": generated.parent,
        "twice": f"{generated}:{generated}",
    }[way]
    assert run_with(tmp_path / "site", script=ON_NUMPY, **{YAML_DIR: folder}) == "right\n"


def test_two_entry_points_of_one_package_are_no_clash(tmp_path: Path) -> None:
    install(tmp_path)
    announce(tmp_path, "again_ops", "acme_ops.generated")
    assert run_with(tmp_path, script=ON_NUMPY) == "right\n"


def test_a_folder_of_specs_in_the_place_of_what_is_generated(tmp_path: Path) -> None:
    script = f"""
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
try:
    get_distributed_op("{OP}")
except ValueError as error:
    print(error)
"""
    specs = EXAMPLE / "acme_ops" / "specs"
    assert run_with(script=script, **{YAML_DIR: specs}) == (
        f"{specs / OP}.yaml is a spec, not a registry file. Name the folder that 'hpgen ops' has written, not that of "
        "the specs.\n"
    )


# --- what is generated outside of this repository ---


def test_its_files_pass_the_linters_as_they_stand(tmp_path: Path) -> None:
    """With no configuration but the lines' length."""
    pytest.importorskip("ruff")
    package = install(tmp_path)
    shutil.copy(EXAMPLE / "pyproject.toml", tmp_path)
    for command in (["check", "--line-length=120"], ["format", "--check", "--line-length=120"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--no-cache", "--isolated", str(package)]
        done = subprocess.run(ruff, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_generating_anywhere_gives_the_same_bytes(tmp_path: Path) -> None:
    package = install(tmp_path / "elsewhere")
    before = tree(package / "generated")
    shutil.rmtree(package / "generated")
    assert hpgen("ops", package / "specs", "-o", package / "generated", cwd=tmp_path).returncode == 0
    assert tree(package / "generated") == before


def test_a_folder_whose_name_is_none_of_a_module(tmp_path: Path) -> None:
    package = install(tmp_path)
    folder = package / "generated-1.0"
    (package / "generated").rename(folder)
    assert run_with(script=ON_NUMPY, **{YAML_DIR: folder}) == "right\n"


def test_many_threads_ask_at_once(tmp_path: Path) -> None:
    package = install(tmp_path)
    script = f"""
import numpy as np
from hyper_parallel import custom_ops
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

ones = np.ones((2, 3))
assert all((out == 1.5).all() for out in run_ranks(lambda: custom_ops.{OP}(ones, ones, np.zeros(3)), 32))
"""
    run_with(tmp_path, script=script)
    run_with(script=script, **{YAML_DIR: package / "generated"})
