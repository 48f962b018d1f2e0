# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operator library of docs/operator_library as a wheel, installed beside ours in an empty environment and removed.

Its guide is followed as it is written: its commands are run, and what it shows of the package is what is there.
"""

from __future__ import annotations

import re
import shlex
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hyper_parallel.op_libraries import OperatorLibrary, clash
from tests.generator.spec_texts import tree
from tests.operator_library import EXAMPLE, ON_NUMPY, ON_TORCH, OP, TITLE, WITHOUT_REFERENCES, install, run_with
from tests.wheels import ROOT, build_wheel, empty_environment, hpgen_wheel, outside_variables

GUIDE = (ROOT / "docs" / "operator_library.md").read_text(encoding="utf-8")
GONE = f"""
from hyper_parallel import custom_ops
from hyper_parallel.core.shard.ops.parallel_ops_register import REGISTRY
assert "{OP}" not in {{*dir(custom_ops), *REGISTRY.entries()}} and not hasattr(custom_ops, "{OP}")
print("gone")
"""
EDITED = """
from hyper_parallel.native.translation_unit import units
print(units()[1].title, units()[1].includes[1], sep="\\n")
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles the built-in kernels, too
def test_installed_called_and_removed(tmp_path: Path) -> None:
    project = tmp_path / "acme"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))
    programs = empty_environment(tmp_path / "venv")
    python, pip = programs / "python", [programs / "python", "-m", "pip", "--disable-pip-version-check"]

    def run(*command: str | Path, **variables: str) -> str:
        environment = outside_variables() | {
            "HYPER_PARALLEL_PLATFORM": "numpy",
            "HPGEN_CACHE_DIR": str(tmp_path / "cache"),
            **variables,
        }
        done = subprocess.run(
            [*map(str, command)], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(*pip, "install", "--quiet", "--no-deps", hpgen_wheel())
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    # What both need and no wheel here has; behind the environment's own packages, so that ours come from the wheels.
    places = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "behind.pth").write_text("\n".join(places or site.getsitepackages()))
    before = files(packages)

    wheel = build_wheel(project, tmp_path / "dist")
    names = zipfile.ZipFile(wheel).namelist()
    for needed in ("build.json", f"{OP}/{OP}_ops.yaml", f"{OP}/{OP}.cc"):
        assert f"acme_ops/generated/{needed}" in names
    for needed in ("specs/reference/gated_add.py", "csrc/cpu/gated_add.h"):
        assert f"acme_ops/{needed}" in names
    run(*pip, "install", "--quiet", "--no-deps", wheel)

    said = {words[1]: run(programs / "hpgen", *words[1:]) for words in commands() if words[0] == "hpgen"}
    assert tree(project / "acme_ops") == tree(EXAMPLE / "acme_ops"), "hpgen ops changes nothing"
    shutil.rmtree(project / "acme_ops")  # from here on it is the installed one
    where = "import acme_ops, hyper_parallel; print(acme_ops.__file__, hyper_parallel.__file__)"
    assert run(python, "-c", where).split() == [
        str(packages / package / "__init__.py") for package in ("acme_ops", "hyper_parallel")
    ]
    assert re.search(rf"^host: 1 operator of {re.escape(TITLE)}, compiled in \d+ s: ", said["build"], re.MULTILINE)
    has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode == 0
    for kernels, before_script in (("reference", ""), ("native", WITHOUT_REFERENCES)):
        variables = {"HYPER_PARALLEL_KERNELS": kernels}
        assert run(python, "-c", before_script + ON_NUMPY, **variables) == "right\n"
        if has_torch:
            variables |= {"HYPER_PARALLEL_PLATFORM": "torch"}
            assert run(python, "-c", before_script + ON_TORCH, **variables) == "right\n"
    run(python, "-c", "\n".join(blocks("python")))
    run(python, "-m", "mypy", "--strict", f"--cache-dir={tmp_path / 'types'}", "-p", "acme_ops")

    run(*pip, "uninstall", "--quiet", "--yes", "acme-ops")
    assert files(packages) == before
    assert run(python, "-c", GONE) == "gone\n"

    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    run(*pip, "install", "--quiet", "--no-deps", "--editable", project)
    assert run(python, "-c", EDITED).splitlines() == [TITLE, str(project / "acme_ops")]
    assert f"host: 1 operator of {TITLE}, up to date: " in run(programs / "hpgen", "build", "--platform", "host")
    assert run(python, "-c", WITHOUT_REFERENCES + ON_NUMPY, HYPER_PARALLEL_KERNELS="native") == "right\n"


def files(folder: Path) -> set[Path]:
    """What is in a folder but for the bytecode of packages that stay."""
    found = {path for path in folder.rglob("*") if "__pycache__" not in path.parts}
    return found | {path for path in folder.iterdir() if path.name.startswith("acme")}


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def test_the_guide_has_no_command_that_nobody_runs() -> None:
    assert [words[1] for words in commands() if words[0] == "hpgen"] == ["ops", "list", "build"]
    assert {words[0] for words in commands()} == {"hpgen", "pip"}
    assert [words[1:] for words in commands() if words[0] == "pip"] == [["install", "."], ["uninstall", "acme-ops"]]


def test_the_guide_shows_the_files_of_the_example() -> None:
    assert blocks("toml") == [(EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")]
    assert blocks("yaml") == [(EXAMPLE / "acme_ops" / "specs" / f"{OP}.yaml").read_text(encoding="utf-8")]
    (kernel,) = blocks("cpp")
    assert kernel in (EXAMPLE / "acme_ops" / "csrc" / "cpu" / "gated_add.h").read_text(encoding="utf-8")
    (shown,) = [block for block in blocks("text") if block.startswith("acme/")]
    listed = {line.split()[0] for line in shown.splitlines()[1:]}
    there = {path.relative_to(EXAMPLE).as_posix() for path in EXAMPLE.rglob("*") if path.is_file()}
    assert listed - there == {"acme_ops/generated/"}
    missing = {path for path in there - listed if not path.startswith("acme_ops/generated/")}
    assert {path for path in missing if "__pycache__" not in path} == set()


def test_the_guide_s_python_runs(tmp_path: Path) -> None:
    install(tmp_path)
    assert "The operator library 'acme' (acme-ops 1.0.0)" in run_with(tmp_path, script="\n".join(blocks("python")))


def test_the_guide_s_error_is_the_one_that_is_raised() -> None:
    (shown,) = [" ".join(block.split()) for block in blocks("text") if block.startswith("ValueError")]
    libraries = [
        OperatorLibrary(name, Path(name), f"{name}_ops.generated", f"{name}-ops") for name in ("acme", "other")
    ]
    files = [Path(folder, OP, f"{OP}_ops.yaml") for folder in ("/a", "/b")]
    assert shown == f"ValueError: {clash(f'operator {OP}', (files[0], files[1]), (libraries[0], libraries[1]))}"
