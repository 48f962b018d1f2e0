# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the system or the folder does not let a run do: exit code 2, a message, and nothing has changed."""

from __future__ import annotations

import errno
import json
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
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another user's place")


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
    """A project that another user may read (pytest's own folders are closed to others)."""
    closed = [path for path in (between.folder, *between.folder.parents) if not path.stat().st_mode & stat.S_IXOTH]
    modes = [path.stat().st_mode for path in closed]
    for path, mode in zip(closed, modes, strict=True):
        path.chmod(mode | stat.S_IXOTH)
    yield between
    for path, mode in zip(closed, modes, strict=True):
        path.chmod(mode)


@needs_root
@pytest.mark.parametrize("where", [".", LSE, GONE])
def test_a_folder_that_may_not_be_written(readable: Project, where: str) -> None:
    """Of somebody else: the whole output folder, or that of one operator, which is noticed only in the middle."""
    for folder in (readable.generated, *filter(Path.is_dir, readable.generated.iterdir())):
        folder.chmod(0o777)
    (readable.generated / where).chmod(0o755)
    assert_refused(
        readable, readable.run("new/specs", nobody=True), f"{os.strerror(errno.EACCES)}; nothing has changed"
    )
    assert readable.run("new/specs", "--check", nobody=True).code == 1


@needs_root
def test_files_that_may_not_be_replaced(readable: Project) -> None:
    """In a sticky folder everybody can make files, but not rename over those of others."""
    for folder in (readable.generated, *filter(Path.is_dir, readable.generated.iterdir())):
        folder.chmod(0o1777)
    assert_refused(readable, readable.run("new/specs", nobody=True), f"{os.strerror(errno.EPERM)}; nothing has changed")


@needs_root
def test_without_permission_what_is_up_to_date_is_fine(readable: Project) -> None:
    result = readable.run("old/specs", nobody=True)
    assert (result.code, result.err) == (0, "")
    assert "up to date" in result.out


@needs_root
def test_without_permission_no_folder_is_made(readable: Project) -> None:
    readable.become({})
    result = readable.run("new/specs", nobody=True)
    assert (result.code, result.err) == (2, "error: generated cannot be used: Permission denied\n")


@needs_root
def test_a_file_that_may_not_be_read(readable: Project) -> None:
    (readable.generated / LSE / "api.py").chmod(0)
    for more in ([], ["--check"], ["--diff"]):
        result = readable.run("new/specs", *more, nobody=True)
        assert (result.code, result.err) == (2, f"error: generated/{LSE}/api.py cannot be read: Permission denied\n")


# --- what lies in the way ---


@pytest.mark.parametrize("way_in", ["a file in place of a file", "a file in place of a folder", "a folder"])
def test_somebody_elses_file_in_the_way(between: Project, way_in: str) -> None:
    come = between.generated / COME
    if way_in == "a file in place of a folder":
        mine = come
    else:
        come.mkdir()
        mine = come / "api.py"
    if way_in == "a folder":
        mine.mkdir()
        mine = mine / "mine.txt"
    mine.write_text("precious\n")
    before = tree(between.generated)
    result = between.run("new/specs")
    assert result.code == 2
    assert f"generated/{COME}" in result.err
    assert result.err.count("\n") == 1
    assert tree(between.generated) == before
    shutil.rmtree(come) if come.is_dir() else come.unlink()
    between.mend(between.ways["update"])


def test_files_of_others_stay_when_an_operator_goes(between: Project) -> None:
    mine = {f"{GONE}/notes.txt": b"mine\n", f"{GONE}/deep/er.py": b"mine = 1\n", ".hpgen": b"mine too\n"}
    for path, data in mine.items():
        (between.generated / path).parent.mkdir(exist_ok=True)
        (between.generated / path).write_bytes(data)
    (between.generated / GONE / "__pycache__").mkdir()
    (between.generated / GONE / "__pycache__" / "api.cpython-311.pyc").write_bytes(b"")
    assert between.run("new/specs").code == 0
    assert tree(between.generated) == between.new | mine


@pytest.mark.parametrize("what", ["the folder itself", "an operator", "a file", "an operator that goes"])
def test_symbolic_links(between: Project, what: str) -> None:
    """The output folder may be one; inside, hpgen neither follows them nor removes them."""
    name = {"the folder itself": ".", "an operator": LSE, "a file": f"{LSE}/api.py", "an operator that goes": GONE}[
        what
    ]
    link, outside = between.generated / name, between.folder / "outside"
    link.rename(outside)
    link.symlink_to(outside)
    before = tree(between.folder)
    result = between.run("new/specs")
    if what == "the folder itself":
        assert result.code == 0
        between.assert_all_is_well(between.ways["update"])
        between.generated.unlink()
    elif what == "an operator that goes":
        assert result.code == 0
        assert link.is_symlink()
        assert tree(outside) == {path.split("/")[1]: data for path, data in between.old.items() if GONE + "/" in path}
        link.unlink()
    else:
        assert result.code == 2
        assert f"generated/{name} is a symbolic link" in result.err
        assert tree(between.folder) == before
    shutil.rmtree(outside) if outside.is_dir() else outside.unlink()


def test_a_link_that_leads_nowhere_is_no_output_folder(between: Project) -> None:
    between.become({})
    between.generated.symlink_to("nowhere")
    result = between.run("new/specs")
    assert result.code == 2
    assert "leads nowhere" in result.err
    between.generated.unlink()


# --- after a kill ---


def interrupt(between: Project) -> Path:
    """Kill a run in the middle of its changes; its staging folder."""
    for step in range(between.run("new/specs").steps, 0, -1):
        between.become(between.old)
        between.run("new/specs", kill_at=step)
        if any((path / "journal").exists() for path in between.staging()) and between.files() != between.new:
            return between.staging()[0]
    pytest.fail("no kill hit the middle")


def test_what_was_changed_after_a_kill_is_not_lost(between: Project) -> None:
    """Somebody puts files of his own where a killed run was at work: restoring leaves them alone."""
    interrupt(between)
    mine = between.generated / LSE / "api.py"
    mine.write_text("precious = 1\n")
    result = between.run("new/specs")
    assert result.code == 2
    assert "these are restored first" in result.err
    assert f"not generated by hpgen, so not overwritten: generated/{LSE}/api.py" in result.err
    assert mine.read_text() == "precious = 1\n"
    assert tree(between.generated) == between.old | {f"{LSE}/api.py": b"precious = 1\n"}


def test_a_run_after_a_kill_says_that_it_restores(between: Project) -> None:
    interrupt(between)
    result = between.run(f"edited/specs/{LSE}.yaml")
    assert result.code == 0
    assert result.err == "an earlier run was killed while it replaced files: these are restored first\n"
    assert tree(between.generated) == between.edited


def test_diff_tells_of_an_interrupted_run_too(between: Project) -> None:
    staging = interrupt(between)
    result = between.run("new/specs", "--diff")
    assert result.code == 1
    assert result.out.startswith(f"interrupted: generated/{staging.name} (the next run restores the files first)\n")


@pytest.mark.parametrize(
    "line",
    [
        "create {0} ../outside.txt",
        "create {0} ../__init__.py",
        "create {0} /etc/passwd",
        "remove - ../outside.txt",
        "create {0} notes.txt",
        f"create {{0}} {LSE}/notes.txt",
        "nonsense",
        "create {0}",
    ],
)
def test_a_journal_cannot_name_other_files(between: Project, line: str) -> None:
    """The folder may come from anywhere, a journal in it too: it must not get hpgen to remove or write other files."""
    outside = between.folder / "outside.txt"
    outside.write_bytes(b"")
    (between.folder / "__init__.py").write_bytes(b"")
    (between.generated / "notes.txt").write_bytes(b"")
    staging = between.generated / ".hpgen-1"
    staging.mkdir()
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (staging / "journal").write_text(line.format(empty) + "\n")
    (staging / "old-0").write_text("evil\n")
    before = tree(between.folder)
    result = between.run("new/specs")
    assert result.code == 2
    assert "journal is damaged at" in result.err
    assert tree(between.folder) == before
    assert between.run("new/specs", "--check").code == 1
    for path in (outside, between.folder / "__init__.py"):
        path.unlink()


def test_a_staging_folder_that_is_a_link_is_not_followed(between: Project) -> None:
    outside = between.folder / "outside"
    outside.mkdir()
    (outside / "new-0").write_text("mine\n")
    (between.generated / ".hpgen-1").symlink_to(outside)
    assert between.run("new/specs").code == 0
    assert tree(outside) == {"new-0": b"mine\n"}
    shutil.rmtree(outside)


def test_somebody_elses_files_in_a_staging_folder_stay(between: Project) -> None:
    staging = between.generated / ".hpgen-1"
    staging.mkdir()
    (staging / "mine.txt").write_text("mine\n")
    result = between.run("new/specs")
    assert result.code == 2
    assert result.err == f"error: generated/.hpgen-1 is not needed any more, but cannot be removed: {NOT_EMPTY}\n"
    assert (staging / "mine.txt").read_text() == "mine\n"


NOT_EMPTY = os.strerror(errno.ENOTEMPTY)


# --- specs that come and go ---


@pytest.mark.parametrize("kill", [False, True])
def test_a_deleted_and_a_renamed_spec(between: Project, kill: bool) -> None:
    """Renamed: new/specs has COME for GONE. Deleted: one operator is left. With a killed run before each."""
    if kill:
        interrupt(between)
    assert between.run("new/specs").code == 0
    between.assert_all_is_well(between.ways["update"])
    shutil.copytree(between.folder / "new", between.folder / "fewer")
    (between.folder / "fewer" / "specs" / f"{COME}.yaml").unlink()
    if kill:
        between.run("fewer/specs", kill_at=20)
    assert between.run("fewer/specs").code == 0
    files = tree(between.generated)
    assert {path.split("/")[0] for path in files if "/" in path} == {LSE}
    assert list(json.loads(files["build.json"])["operators"]) == [LSE]
    assert between.run("fewer/specs", "--check").code == 0
    shutil.rmtree(between.folder / "fewer")
