# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What earlier runs have rendered is found again, and never in place of something else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpgen import cache as cache_module
from hpgen import generate as generate_module
from hpgen import user_cache
from hpgen.artifacts import Files
from hpgen.cache import DAY, KEPT_DAYS, STAMP, Cache, generator_digest
from hpgen.diagnostics import SpecError
from hpgen.generate import generate
from hpgen.package import package_files
from hpgen.progress import untracked
from hpgen.spec_folder import read_folder

from ..golden.update import case_folders
from .spec_texts import LSE, ROOT, SPECS, hpgen, lse_text, tree, write_spec


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """An empty cache, which runs of the command use too."""
    monkeypatch.setenv("HPGEN_CACHE_DIR", str(tmp_path / "cache"))
    return Cache(tmp_path / "cache")


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the specs that are rendered, in order."""
    names: list[str] = []
    spread = generate_module.spread

    def recording(function: Any, items: Sequence[Any], jobs: int) -> Iterator[Any]:
        names.extend(file.path.name for file, _ in items)
        return spread(function, items, jobs)

    monkeypatch.setattr(generate_module, "spread", recording)
    return names


def made(specs: Path, cache: Cache) -> Files:
    return generate(read_folder([specs]), cache, untracked, jobs=1)


def entries(cache: Cache) -> list[Path]:
    assert cache.folder
    return [path for path in cache.folder.iterdir() if path.name != STAMP]


@pytest.mark.parametrize(
    "specs", [SPECS, *(case / "specs" for case in case_folders())], ids=lambda path: path.parts[-2]
)
def test_what_is_found_is_what_would_be_made(specs: Path, cache: Cache, rendered: list[str]) -> None:
    fresh = made(specs, Cache(None))
    assert made(specs, cache) == fresh
    rendered.clear()
    assert made(specs, cache) == fresh
    assert rendered == []


def test_only_what_has_changed_is_rendered(tmp_path: Path, cache: Cache, rendered: list[str]) -> None:
    specs = write_spec(tmp_path, lse_text())
    write_spec(tmp_path, lse_text((LSE, "npu_other")), "npu_other")
    made(specs, cache)
    write_spec(tmp_path, lse_text((LSE, "npu_other"), ("Row maximum", "Line maximum")), "npu_other")
    rendered.clear()
    files = made(specs, cache)
    assert rendered == ["npu_other.yaml"]
    assert files == made(specs, Cache(None))
    assert "Line maximum" in "".join(files.values())


def test_the_folder_s_name_is_part_of_what_is_made(tmp_path: Path, cache: Cache) -> None:
    specs = write_spec(tmp_path, lse_text())
    made(specs, cache)
    specs.rename(tmp_path / "others")
    assert all("from others/" in text for text in made(tmp_path / "others", cache).values())


@pytest.mark.parametrize(
    "damage", ["half", "flipped", "empty", "a folder", "a pipe", "another hash", "another's", "no hash"]
)
def test_a_damaged_entry_is_as_good_as_absent(tmp_path: Path, cache: Cache, damage: str) -> None:
    """Of operators, of the index files and of compiled templates."""
    write_spec(tmp_path, lse_text())
    assert hpgen("ops", "specs", "-o", "first", cwd=tmp_path).returncode == 0
    paths = entries(cache)
    assert len(paths) > 8
    others = {path: other.read_bytes() for path, other in zip(paths, [*paths[1:], paths[0]], strict=True)}
    for path in paths:
        data = path.read_bytes()
        if damage in ("a folder", "a pipe"):
            path.unlink()
            path.mkdir() if damage == "a folder" else os.mkfifo(path)
        else:
            path.write_bytes(
                {
                    "half": data[: len(data) // 2],
                    "flipped": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
                    "empty": b"",
                    "another hash": b"0" * 64 + data[64:],
                    "another's": others[path],
                    "no hash": data[65:],
                }[damage]
            )
    result = hpgen("ops", "specs", "-o", "second", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert tree(tmp_path / "first") == tree(tmp_path / "second")


def test_a_spec_with_a_mistake_is_not_kept(tmp_path: Path, cache: Cache) -> None:
    specs = write_spec(tmp_path, lse_text(("T1 N1 D", "T9 N1 D")))
    messages = []
    for _ in range(2):
        with pytest.raises(SpecError, match="HP102") as caught:
            made(specs, cache)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    write_spec(tmp_path, lse_text())
    assert made(specs, cache) == made(specs, Cache(None))


def test_names_that_clash_are_found_between_kept_operators(tmp_path: Path, cache: Cache, rendered: list[str]) -> None:
    """Each is right by itself and in the cache; together they would give one class."""
    for number, op in enumerate(("npu_a_1b", "npu_a1b")):
        made(write_spec(tmp_path / str(number), lse_text((LSE, op)), op), cache)
        specs = write_spec(tmp_path, lse_text((LSE, op)), op)
    rendered.clear()
    with pytest.raises(SpecError) as caught:
        made(specs, cache)
    assert rendered == []
    with pytest.raises(SpecError) as fresh:
        made(specs, Cache(None))
    assert str(caught.value) == str(fresh.value)
    assert "HP501" in str(fresh.value)


def test_every_file_of_the_generator_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = set(package_files())
    assert set((ROOT / "codegen").rglob("*.py")) <= own
    assert set((ROOT / "templates").glob("*.j2")) <= own
    assert ROOT / "codegen" / "spec" / "schema.json" in own
    digests = set()
    for name, text, time_of_change in (("a.py", "x = 1\n", 5), ("a.py", "x = 2\n", 5), ("a.py", "x = 2\n", 6)):
        for kind in ("package_files", "library_files"):
            (tmp_path / kind).mkdir(exist_ok=True)
            path = tmp_path / kind / name
            path.write_text(text + "# longer" * len(digests))
            os.utime(path, (time_of_change, time_of_change))
            monkeypatch.setattr(cache_module, kind, lambda path=path: iter([path]))
            digests.add(generator_digest())
    assert len(digests) == 6


@pytest.mark.parametrize("obstacle", ["a file", "all may write", "a link to a folder", "a broken link"])
def test_a_cache_folder_that_cannot_be_trusted_or_used_is_not(tmp_path: Path, obstacle: str) -> None:
    specs, folder = write_spec(tmp_path, lse_text()), tmp_path / "cache"
    if obstacle == "a file":
        folder.write_text("mine")
    elif obstacle == "a broken link":
        folder.symlink_to(tmp_path / "nowhere" / "at" / "all")
    else:
        (folder / "other").mkdir(parents=True)
        (folder / "other").chmod(0o777 if obstacle == "all may write" else 0o700)
        if obstacle == "a link to a folder":
            (folder / "rendered").symlink_to("other")
        else:
            (folder / "other").rename(folder / "rendered")
    before = tree(tmp_path)
    assert made(specs, Cache(folder)) == made(specs, Cache(None))
    if obstacle != "a broken link":
        assert tree(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that is somebody else's")
def test_somebody_else_s_folder_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "rendered"
    folder.mkdir(parents=True, mode=0o700)
    os.chown(folder, 65534, 65534)
    made(write_spec(tmp_path, lse_text()), Cache(folder.parent))
    assert list(folder.iterdir()) == []


def test_the_folder_is_the_user_s_own_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        made(write_spec(tmp_path, lse_text()), Cache(tmp_path / "caches" / "hpgen"))
    finally:
        os.umask(before)
    assert (tmp_path / "caches" / "hpgen").stat().st_mode & 0o777 == 0o700
    assert len(entries(Cache(tmp_path / "caches" / "hpgen"))) == 2


def test_what_nobody_uses_is_removed_in_time(tmp_path: Path, cache: Cache) -> None:
    specs = write_spec(tmp_path, lse_text())
    made(specs, cache)
    old = time.time() - (KEPT_DAYS + 1) * DAY
    kept = {path.name for path in entries(cache)}
    unused = "0" * 64
    cache.store(unused, 1)
    assert cache.folder
    (cache.folder / "notes.md").write_text("mine")
    (cache.folder / "mine").mkdir()
    for path in entries(cache):
        os.utime(path, (old, old))
    write_spec(tmp_path, lse_text((LSE, "npu_other")), "npu_other")
    made(specs, cache)
    assert unused in {path.name for path in entries(cache)}, "looked for once a day"
    os.utime(cache.folder / STAMP, (old, old))
    write_spec(tmp_path, lse_text((LSE, "npu_third")), "npu_third")
    made(specs, cache)
    names = {path.name for path in entries(cache)}
    assert unused not in names
    assert {"notes.md", "mine"} <= names, "not hpgen's"
    spec_key = cache.key("specs", f"{LSE}.yaml", (specs / f"{LSE}.yaml").read_text())
    assert spec_key in kept & names, "used all the time"


def test_the_command_keeps_nothing_if_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPGEN_CACHE_DIR", str(tmp_path / "cache"))
    write_spec(tmp_path, lse_text())
    assert hpgen("ops", "specs", "--no-cache", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "cache").exists()
    assert hpgen("ops", "specs", "--check", cwd=tmp_path).returncode == 0
    assert (tmp_path / "cache" / "rendered").stat().st_mode & 0o777 == 0o700
    # The entry of the spec is found: a file that is not what it says is stale.
    (tmp_path / "generated" / LSE / "api.py").write_text("# Code generated by hpgen from specs/x.yaml. DO NOT EDIT.\n")
    result = hpgen("ops", "specs", "--check", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, f"stale: generated/{LSE}/api.py\n")


def test_the_user_s_cache_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HPGEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert user_cache.default_folder() == tmp_path / "xdg" / "hpgen"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache.default_folder() == tmp_path / ".cache" / "hpgen"


def test_nothing_is_kept_if_the_generator_changes_meanwhile(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by a checkout: what has been loaded may not be what was hashed."""
    specs = write_spec(tmp_path, lse_text())
    path = tmp_path / "code.py"
    path.write_text("x = 1\n")
    os.utime(path, (5, 5))
    monkeypatch.setattr(cache_module, "package_files", lambda: iter([path]))
    cache = Cache(tmp_path / "cache")
    path.write_text("x = 2\n")
    os.utime(path, (5, 5))
    made(specs, cache)
    assert cache.folder is None
    assert not list((tmp_path / "cache").glob("rendered/*"))
    fresh = Cache(tmp_path / "cache")
    made(specs, fresh)
    assert len(entries(fresh)) == 2
    path.touch()  # after this process started
    touched = Cache(tmp_path / "cache")
    made(write_spec(tmp_path, lse_text((LSE, "npu_other")), "npu_other"), touched)
    assert len(entries(fresh)) == 2


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HPGEN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", staticmethod(nowhere))
    assert user_cache.default_folder() is None
    assert Cache(None).key("x") == ""


def test_a_file_name_that_is_no_text_has_a_key(tmp_path: Path, cache: Cache) -> None:
    specs = write_spec(tmp_path, lse_text(), "npu_\udcff")
    with pytest.raises(SpecError, match="HP502"):
        made(specs, cache)


def test_an_entry_is_json_behind_its_hash(tmp_path: Path, cache: Cache) -> None:
    cache.store("key", {"a": [1, None]})
    assert cache.folder
    assert json.loads((cache.folder / "key").read_bytes().split(b"\n", 1)[1]) == {"a": [1, None]}
    assert cache.load("key") == {"a": [1, None]}
    assert cache.load("other") is None
