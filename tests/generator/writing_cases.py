# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An output folder on its way from one library to another: what it may look like, and what --check says about it."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hpgen.folder_lock import locked
from hpgen.journal import recover

from .spec_texts import LSE, lse_text, tree, write_spec
from .writing_process import Forks, Result

STAGING = re.compile(r"\.hpgen-[0-9]+/")
GONE, COME = "npu_gone", "npu_come"
Tree = dict[str, bytes]


@dataclass(frozen=True)
class Way:
    """From the files before to the files after, by a run on these specs."""

    before: Tree
    specs: str
    after: Tree


class Project:
    """`old/specs` and `new/specs` differ in one operator that changes, one that goes and one that comes.

    In `edited/specs` an operator of `old/specs` has changed, and only its spec is named on the command line.
    """

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder, self.forks = folder, forks
        self.generated = folder / "generated"
        for which, second in (("old", GONE), ("new", COME), ("edited", GONE)):
            write_spec(folder / which, lse_text() if which == "old" else lse_text(("sparse_mode", "sparsity")))
            write_spec(folder / which, lse_text((f"op: {LSE}", f"op: {second}")), second)
        self.old, self.new = self.written_by("old/specs"), self.written_by("new/specs")
        self.become(self.old)
        edited = f"edited/specs/{LSE}.yaml"
        self.edited = self.written_by(edited)
        self.ways = {
            "update": Way(self.old, "new/specs", self.new),
            "back": Way(self.new, "old/specs", self.old),
            "create": Way({}, "new/specs", self.new),
            "single": Way(self.old, edited, self.edited),
        }

    def written_by(self, specs: str) -> Tree:
        result = self.run(specs)
        assert result.code == 0, result.err
        return tree(self.generated)

    def run(self, specs: str, *more: str, **fault: object) -> Result:
        return self.forks.run("ops", specs, "-o", "generated", *more, cwd=self.folder, **fault)

    def start(self, specs: str, *more: str) -> subprocess.Popen[str]:
        """The same in a process started from nothing, which is not waited for."""
        command = [sys.executable, "-m", "hpgen", "ops", specs, "-o", "generated", *more]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def become(self, files: Tree) -> None:
        """The folder with exactly these files; without any it does not exist."""
        shutil.rmtree(self.generated, ignore_errors=True)
        for path, data in files.items():
            (self.generated / path).parent.mkdir(parents=True, exist_ok=True)
            (self.generated / path).write_bytes(data)

    def files(self) -> Tree:
        """What is there, but for what runs prepare."""
        return {path: data for path, data in tree(self.generated).items() if not STAGING.match(path)}

    def staging(self) -> list[Path]:
        return sorted(self.generated.glob(".hpgen-*"))

    def interrupt(self, step: int) -> bool:
        """Kill the run that updates before this change; whether it was in the middle of its changes."""
        self.become(self.old)
        assert self.run("new/specs", kill_at=step).killed
        return any((path / "journal").exists() for path in self.staging())

    @functools.cached_property
    def last_interrupted(self) -> int:
        """The last change before which a kill interrupts the update: all files but the journal are the new ones."""
        self.become(self.old)
        return next(step for step in range(self.run("new/specs").steps, 0, -1) if self.interrupt(step))

    def state(self, way: Way) -> str:
        """ "before", "after" or "interrupted"; --check tells which, and changes nothing."""
        self.wait()
        everything, files = tree(self.folder), self.files()
        check = self.run(way.specs, "--check")
        assert tree(self.folder) == everything
        assert check.code in {0, 1}, check.err
        staging = self.staging()
        assert (check.code == 0) == (files == way.after and not staging)
        assert ("left over: generated/.hpgen-" in check.out) == any(not (path / "journal").exists() for path in staging)
        if any((path / "journal").exists() for path in staging):
            assert "interrupted: generated/.hpgen-" in check.out
            for path in {*way.before, *way.after, *files}:
                assert files.get(path) in (way.before.get(path), way.after.get(path)), f"{path} is half written"
            return "interrupted"
        assert "interrupted" not in check.out
        assert files in (way.before, way.after), "neither the old nor the new files"
        return "after" if files == way.after else "before"

    def wait(self) -> None:
        """Until nobody is at work: what replaces the files goes on when the run is killed."""
        with locked(self.generated, writing=False):
            pass

    def mend(self, way: Way, state: str = "before") -> None:
        """The next run: what was interrupted is restored as it was before, what was left over is gone, all is well."""
        if state == "interrupted":
            with locked(self.generated, writing=True):
                assert recover(self.generated) == 1
            assert self.files() == way.before, "an interrupted run must be taken back completely"
        result = self.run(way.specs)
        assert result.code == 0, result.err
        self.assert_all_is_well(way)

    def assert_all_is_well(self, way: Way) -> None:
        assert tree(self.generated) == way.after
        folders = {path.relative_to(self.generated).as_posix() for path in self.generated.rglob("*") if path.is_dir()}
        assert folders == {path.partition("/")[0] for path in way.after if "/" in path}, "a folder was left behind"
        check = self.run(way.specs, "--check")
        assert (check.code, check.out, check.err) == (0, "", "")
