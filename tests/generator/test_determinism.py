# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The same specs give the same bytes: whatever the order of keys, the Python, the locale, the hash seed, the folder.

What has an order in a spec: lists, and the names that its author chose (arguments, outputs, dims, temporaries, the
formats as the first tensor lists them, the entries of `precomputed`, `reduce`, `resize` and `lengths`). They are
emitted in the order in which they are written. The keys of the language have none.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import hpgen
import hpgen.templates
from hpgen.diagnostics import Source
from hpgen.plan import derive_library
from hpgen.render import render_library
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec

from ..golden.update import GOLDEN, case_folders, expected
from .spec_texts import ROOT, SPECS, tree

SPEC_FILES = [
    *sorted(SPECS.glob("*.yaml")),
    *(path for case in case_folders() for path in sorted(case.glob("specs/*"))),
]
NAMES_BELOW = {"args", "outputs", "dims", "temporaries", "precomputed", "reduce", "resize", "lengths"}
"""The keys whose values map names of the author."""

TEXTS = GOLDEN / "hostile_prose"  # a case with characters outside of ASCII
DEPENDENCIES = ("click", "jinja2", "jsonschema-rs", "pyyaml")
VERSIONS = ("python3.10", "python3.11", "python3.12", "python3.13", "python3.14")


def rendered(text: str, path: Path) -> dict[str, str]:
    spec = load_spec(Source(path.name, text))
    check_spec(spec)
    return {str(name): found for name, found in render_library(derive_library([spec], "specs")).items()}


def shuffled(text: str, draw: random.Random) -> str:
    """The same spec with the language's keys in another order."""
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    first = next(formats_of(root), None)
    shuffle(root, "", first, draw)
    return str(yaml.serialize(root, width=100_000, allow_unicode=True))


def formats_of(root: yaml.MappingNode) -> Iterator[yaml.MappingNode]:
    """The mappings from formats to dims, of the arguments in their order."""
    arguments = next(value for key, value in root.value if key.value == "args")
    for _, argument in arguments.value:
        yield from (
            value for key, value in argument.value if key.value == "dims" and isinstance(value, yaml.MappingNode)
        )


def shuffle(node: yaml.Node, key: str, first: yaml.Node | None, draw: random.Random, depth: int = 0) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            shuffle(item, "", first, draw, depth + 1)
    if not isinstance(node, yaml.MappingNode):
        return
    is_formats = key == "dims" and depth > 1
    if node is not first and (is_formats or key not in NAMES_BELOW):
        draw.shuffle(node.value)
    for name, value in node.value:
        # Below a mapping of names stand arguments, outputs and the like, whose keys are the language's again.
        shuffle(value, "" if key in NAMES_BELOW else name.value, first, draw, depth + 1)


@pytest.mark.parametrize("path", SPEC_FILES, ids=lambda path: path.stem[:40])
def test_the_order_of_keys_changes_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    draw = random.Random(path.stem)
    before = rendered(text, path)
    for _ in range(3):
        other = shuffled(text, draw)
        assert rendered(other, path) == before, other


def test_shuffling_moves_keys() -> None:
    """The test above compares something: keys of every level have moved."""
    text = (SPECS / "npu_dense_lightning_indexer_softmax_lse.yaml").read_text()
    other = shuffled(text, random.Random(1))
    assert list(yaml.safe_load(other)) != list(yaml.safe_load(text))
    assert list(yaml.safe_load(other)["args"]) == list(yaml.safe_load(text)["args"])
    assert list(yaml.safe_load(other)["args"]["weights"]) != list(yaml.safe_load(text)["args"]["weights"])


def test_comments_and_layout_of_the_yaml_change_nothing() -> None:
    path = SPECS / "npu_mhc_post.yaml"
    text = path.read_text()
    assert rendered("# A comment.\n\n" + str(yaml.serialize(yaml.compose(text))), path) == rendered(text, path)


def run(
    folder: Path,
    specs: Path | str,
    python: str = sys.executable,
    cwd: Path = ROOT,
    **environment: str,
) -> dict[str, bytes]:
    """What the command writes, run as a process of its own."""
    output = folder / "generated"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    result = subprocess.run(
        [python, "-m", "hpgen", "ops", str(specs), "-o", str(output)],
        cwd=cwd,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return tree(output)


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_the_hash_seed_changes_nothing(tmp_path: Path, seed: str) -> None:
    assert run(tmp_path, SPECS, PYTHONHASHSEED=seed) == committed()


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8", "en_US.UTF-8", "de_DE.ISO8859-1"])
def test_the_locale_changes_nothing(tmp_path: Path, locale: str) -> None:
    found = run(tmp_path, TEXTS / "specs", LC_ALL=locale, LANG=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert found == expected(TEXTS)
    assert any(not data.isascii() for data in found.values())


def test_the_working_directory_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert run(tmp_path / "a", "specs", cwd=ROOT) == committed()
    assert run(tmp_path / "b", ".", cwd=SPECS) == committed()
    assert run(tmp_path / "c", SPECS, cwd=tmp_path / "elsewhere", TZ="Asia/Tokyo", HOME=str(tmp_path)) == committed()


def test_the_place_of_the_specs_changes_nothing(tmp_path: Path) -> None:
    copy = shutil.copytree(SPECS, tmp_path / "deep" / "down" / "specs")
    assert run(tmp_path, copy) == committed()


def committed() -> dict[str, bytes]:
    return tree(ROOT / "generated")


def other_pythons() -> dict[str, str]:
    """One interpreter of each other version that hpgen supports: on the PATH, or installed by pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [path for name in VERSIONS if (path := shutil.which(name))]
    candidates += [str(path) for path in sorted(pyenv.glob("versions/3.*/bin/python"))]
    found: dict[str, str] = {}
    for path in candidates:
        probe = [path, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"]
        result = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
        found.setdefault(result.stdout.strip(), path)
    own = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return {name: path for name, path in found.items() if name in VERSIONS and name != own}


@pytest.mark.slow
def test_the_python_version_changes_nothing(tmp_path: Path) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip(f"there is no other Python here among {', '.join(VERSIONS)}")
    site = tmp_path / "site"
    shutil.copytree(Path(next(iter(hpgen.__path__))), site / "hpgen", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(next(iter(hpgen.templates.__path__))), site / "hpgen" / "templates", dirs_exist_ok=True)
    for name, path in pythons.items():
        subprocess.run([path, "-m", "venv", str(tmp_path / name)], check=True, capture_output=True)
        python = str(tmp_path / name / "bin" / "python")
        install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        install += ["--constraint", str(ROOT / "constraints.txt"), *DEPENDENCIES]
        subprocess.run(install, check=True, capture_output=True)
        made = run(tmp_path / f"{name}s", SPECS, python=python, cwd=tmp_path, PYTHONPATH=str(site))
        assert made == committed(), name
        found = run(tmp_path / f"{name}t", TEXTS / "specs", python=python, cwd=tmp_path, PYTHONPATH=str(site))
        assert found == expected(TEXTS), name
