# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the system or the folder does not let a run do: exit code 2, a message, and nothing has changed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .spec_texts import LSE, tree
from .writing_cases import COME, GONE, Project
from .writing_process import Result

slow = pytest.mark.slow
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can own files of others")


def assert_refused(between: Project, result: Result, *said: str) -> None:
    """Exit code 2 and one line; the old files are there, and nothing else."""
    assert result.code == 2, result.err
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    for text in said:
        assert text in result.err
    assert tree(between.generated) == between.old
    assert not between.staging()
    assert not (between.generated / COME).exists()


# --- full disk ---


@pytest.mark.parametrize("name", ["single", pytest.param("update", marks=slow), pytest.param("create", marks=slow)])
def test_any_change_in_the_file_system_may_fail(between: Project, name: str) -> None:
    """Either the run says so and nothing has changed, or it did without (a hard link, an empty folder)."""
    way = between.ways[name]
    between.become(way.before)
    steps = between.run(way.specs).steps
    refused = 0
    for step in range(1, steps + 1):
        between.become(way.before)
        result = between.run(way.specs, refuse_at=step)
        if result.code == 0:
            assert between.files() == way.after
            continue
        assert result.code == 2, result.err
        assert result.err.count("\n") == 1
        assert os.strerror(errno.ENOSPC) in result.err
        if "is not needed any more" in result.err:  # all is done, but for tidying up
            assert between.files() == way.after
        else:
            refused += 1
            assert tree(between.generated) == way.before
            assert between.generated.exists() == bool(way.before), "a failure must not leave an empty folder"
    assert refused > 2 * len(set(way.after.items()) - set(way.before.items()))
    between.mend(way)


@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=slow)])
def test_the_disk_may_fail_for_good(between: Project, stride: int) -> None:
    """Then nothing can be restored either: the message says where the old files are, the next run puts them back."""
    way = between.ways["update"]
    steps = between.run(way.specs).steps
    said = 0
    for step in range(1, steps + 1, stride):
        between.become(way.before)
        result = between.run(way.specs, refuse_from=step, error=errno.EIO)
        assert result.code == 2
        assert result.err.count("\n") == 1
        assert os.strerror(errno.EIO) in result.err
        state = between.state(way)
        if state == "interrupted":
            said += 1
            assert "the files as they were before are kept in generated/.hpgen-" in result.err
        between.mend(way, state)
    assert said


@pytest.mark.parametrize("largest", [200, 1000, 3000])
def test_a_file_may_not_grow(between: Project, largest: int) -> None:
    """A write that really fails half-way (a quota, a full disk): the limit on the size of files."""
    result = between.run("new/specs", largest=largest)
    assert_refused(between, result, f"generated cannot be written: {os.strerror(errno.EFBIG)}; nothing has changed")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of this size, where the environment lets us have one."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_fills_up(between: Project) -> None:
    """With a little more room each time, until it is enough: before that nothing changes."""
    shutil.rmtree(between.generated)
    refused = 0
    with small_disk(between.generated, "2m"):
        for room in range(0, 2_000_000, 12_288):
            copy_into(between)
            filler = between.generated / "filler"
            filler.write_bytes(b"")
            free = shutil.disk_usage(between.generated).free
            filler.write_bytes(bytes(max(0, free - room)))
            before = filler.stat().st_size
            result = between.run("new/specs")
            assert filler.stat().st_size == before
            filler.unlink()
            if result.code == 0:
                break
            refused += 1
            assert_refused(between, result, f"{os.strerror(errno.ENOSPC)}; nothing has changed")
        between.assert_all_is_well(between.ways["update"])
    assert refused > 3
    between.generated.rmdir()


def copy_into(between: Project) -> None:
    """The old files, in a folder that has to stay."""
    for entry in between.generated.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for path, data in between.old.items():
        (between.generated / path).parent.mkdir(exist_ok=True)
        (between.generated / path).write_bytes(data)


def test_a_disk_that_is_mounted_for_reading_only(between: Project) -> None:
    shutil.rmtree(between.generated)
    with small_disk(between.generated, "2m"):
        copy_into(between)
        subprocess.run(["mount", "-o", "remount,ro", str(between.generated)], check=True)
        assert_refused(between, between.run("new/specs"), os.strerror(errno.EROFS))
        assert between.run("new/specs", "--check").code == 1
        assert between.run("old/specs").code == 0
    between.generated.rmdir()


# --- no permission ---


@pytest.fixture
def readable(between: Project) -> Iterator[Project]:
    """A project that another user may read (temporary folders are closed to others)."""
    closed = [path for path in (between.folder, *between.folder.parents) if not path.stat().st_mode & stat.S_IXOTH]
    modes = [path.stat().st_mode for path in closed]
    for path, mode in zip(closed, modes, strict=True):
        path.chmod(mode | stat.S_IXOTH)
    yield between
    for path, mode in zip(closed, modes, strict=True):
        path.chmod(mode)


@pytest.mark.parametrize("where", [".", LSE, GONE])
def test_a_folder_that_may_not_be_written(readable: Project, where: str) -> None:
    """Of somebody else: the whole output folder, or that of one operator, which is noticed only in the middle."""
    for folder in (readable.generated, *filter(Path.is_dir, readable.generated.iterdir())):
        folder.chmod(0o777)
    (readable.generated / where).chmod(0o555)
    assert_refused(
        readable, readable.run("new/specs", nobody=True), f"{os.strerror(errno.EACCES)}; nothing has changed"
    )
    assert readable.run("new/specs", "--check", nobody=True).code == 1
    (readable.generated / where).chmod(0o755)


@needs_root
def test_files_that_may_not_be_replaced(readable: Project) -> None:
    """In a sticky folder everybody can make files, but not rename over those of others."""
    for folder in (readable.generated, *filter(Path.is_dir, readable.generated.iterdir())):
        folder.chmod(0o1777)
    assert_refused(readable, readable.run("new/specs", nobody=True), f"{os.strerror(errno.EPERM)}; nothing has changed")


def test_without_permission_what_is_up_to_date_is_fine(readable: Project) -> None:
    readable.generated.chmod(0o555)
    result = readable.run("old/specs", nobody=True)
    readable.generated.chmod(0o755)
    assert (result.code, result.err) == (0, "")
    assert "up to date" in result.out


def test_without_permission_no_folder_is_made(readable: Project) -> None:
    readable.become({})
    mode = readable.folder.stat().st_mode
    readable.folder.chmod(0o555)
    result = readable.run("new/specs", nobody=True)
    readable.folder.chmod(mode)
    assert (result.code, result.err) == (2, "error: generated cannot be used: Permission denied\n")


@pytest.mark.parametrize("where", [LSE, GONE, "."])
def test_a_folder_that_may_not_be_entered(readable: Project, where: str) -> None:
    folder = readable.generated / where
    folder.chmod(0o644)
    results = [readable.run("new/specs", *more, nobody=True) for more in ([], ["--check"], ["--diff"])]
    folder.chmod(0o755)
    for result in results:
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("error: generated")
        assert result.err.endswith("cannot be read: Permission denied\n")
    assert tree(readable.generated) == readable.old


def test_a_file_that_may_not_be_read(readable: Project) -> None:
    (readable.generated / LSE / "api.py").chmod(0)
    for more in ([], ["--check"], ["--diff"]):
        result = readable.run("new/specs", *more, nobody=True)
        assert (result.code, result.err) == (2, f"error: generated/{LSE}/api.py cannot be read: Permission denied\n")
