# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The output folder has the old files or the new ones: whatever kills a run, and whatever runs beside it."""

from __future__ import annotations

import collections
import random
import subprocess
import sys
import time

import pytest

from hpgen.folder_lock import OutputError, locked

from .spec_texts import LSE, tree
from .writing_cases import COME, Project

slow = pytest.mark.slow
HOLD = """
import sys, time
from pathlib import Path
from hpgen.folder_lock import locked
with locked(Path(sys.argv[1]), writing=True):
    print("held", flush=True)
    time.sleep(60)
"""


# --- kills ---


@pytest.mark.parametrize(
    ("name", "stride"),
    [
        ("update", 5),
        ("create", 7),
        ("single", 2),
        pytest.param("update", 1, marks=slow),
        pytest.param("back", 1, marks=slow),
        pytest.param("create", 1, marks=slow),
        pytest.param("single", 1, marks=slow),
    ],
)
def test_killed_before_any_change_in_the_file_system(between: Project, name: str, stride: int) -> None:
    way = between.ways[name]
    between.become(way.before)
    steps = between.run(way.specs).steps
    between.assert_all_is_well(way)
    assert steps > 2 * len(set(way.after.items()) - set(way.before.items())), "the hook misses changes"
    seen = collections.Counter[str]()
    for step in sorted({*range(1, steps + 1, stride), steps}):
        between.become(way.before)
        assert between.run(way.specs, kill_at=step).killed
        state = between.state(way)
        seen[state] += 1
        between.mend(way, state)
    assert set(seen) == {"before", "interrupted", "after"}


@slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["update", "create"])
def test_killed_at_any_line_of_the_modules_that_write(between: Project, name: str) -> None:
    way = between.ways[name]
    between.become(way.before)
    count = between.run(way.specs, line=0).steps
    assert count > 200
    seen = collections.Counter[str]()
    for line in range(1, count + 1):
        between.become(way.before)
        assert between.run(way.specs, line=line).killed
        state = between.state(way)
        seen[state] += 1
        if state == "interrupted" or line % 10 == 0:
            between.mend(way, state)
    assert set(seen) == {"before", "interrupted", "after"}


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=slow)])
def test_killed_while_it_restores_what_another_had_left(between: Project, stride: int) -> None:
    way, last = between.ways["update"], between.last_interrupted
    between.interrupt(last)
    steps = between.run(way.specs).steps
    assert steps > last
    for step in range(1, steps, stride):
        between.interrupt(last)
        assert between.run(way.specs, kill_at=step).killed
        between.mend(way, between.state(way))


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=slow)])
def test_killed_at_random_moments(between: Project, kills: int) -> None:
    draw = random.Random(kills)
    start = time.perf_counter()
    between.run("new/specs")
    duration = time.perf_counter() - start
    for _ in range(kills):
        way = between.ways[draw.choice(["update", "back", "create", "single"])]
        between.become(way.before)
        between.run(way.specs, after=draw.uniform(0, duration))
        state = between.state(way)
        assert state in ("before", "after"), "the old files or the new ones"
        between.mend(way, state)


@slow
@pytest.mark.timeout(1200)
def test_fresh_processes_killed_at_random_moments(between: Project) -> None:
    """As a user's process is: 200 of them, one after another in the same folder, nothing tidied up in between."""
    draw = random.Random(4)
    start = time.perf_counter()
    assert between.start("old/specs").wait() == 0
    duration = time.perf_counter() - start
    current = between.old
    for _ in range(200):
        specs, wanted = draw.choice([("new/specs", between.new), ("old/specs", between.old)])
        process = between.start(specs)
        time.sleep(draw.uniform(0.5, 1.05) * duration)
        process.kill()
        process.communicate()
        between.wait()
        files, staging = between.files(), between.staging()
        assert files in (current, wanted), "the old files or the new ones"
        current = files
        check = between.run(specs, "--check")
        assert (check.code == 0) == (files == wanted and not staging)
        assert "interrupted" not in check.out
    between.mend(between.ways["update"])


# --- two runs at once ---


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=slow)])
def test_full_runs_at_once(between: Project, count: int) -> None:
    """Whoever comes last has the last word, and nobody, not even --check in between, sees anything but old or new."""
    runs = [between.start(("old/specs", "new/specs")[number % 2]) for number in range(count)]
    looks = [between.start("new/specs", "--check") for _ in range(max(1, count // 4))]
    for process in runs:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
    for process in looks:
        out, err = process.communicate(timeout=120)
        assert process.returncode == (1 if out else 0), out + err
        assert out in ("", all_differences(between))
    assert tree(between.generated) in (between.old, between.new)


def all_differences(between: Project) -> str:
    """What --check says of the old files when the new ones are wanted."""
    old, new = between.old, between.new
    kinds = {
        "stale": sorted(path for path in old.keys() & new.keys() if old[path] != new[path]),
        "missing": sorted(new.keys() - old.keys()),
        "orphaned": sorted(old.keys() - new.keys()),
    }
    return "".join(f"{kind}: generated/{path}\n" for kind, paths in kinds.items() for path in paths)


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=slow)])
def test_runs_on_single_files_beside_full_ones(between: Project, count: int) -> None:
    """Each operator is as one of the runs wanted it, in one piece, and the index files are of one run."""
    arguments = ["old/specs", f"edited/specs/{LSE}.yaml", "edited/specs", f"old/specs/{LSE}.yaml"]
    runs = [between.start(arguments[number % 4]) for number in range(count)]
    for process in runs:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
    assert tree(between.generated) in (between.old, between.edited)
    between.mend(between.ways["update"])


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=slow)])
def test_first_runs_at_once(between: Project, count: int) -> None:
    """None of them has the folder yet; those that fail remove it only if nobody uses it."""
    between.become({})
    runs = [between.start(("new/specs", f"new/specs/{COME}.yaml")[number % 2]) for number in range(count)]
    for number, process in enumerate(runs):
        out, err = process.communicate(timeout=120)
        if number % 2 and process.returncode == 2:
            assert f"generated lacks {LSE}" in err
        else:
            assert process.returncode == 0, out + err
    between.assert_all_is_well(between.ways["create"])


def test_a_live_run_is_waited_for(between: Project) -> None:
    (between.generated / ".hpgen-77").mkdir()  # where the other one, which the test plays, prepares its files
    with locked(between.generated, writing=True):
        process = between.start("new/specs")
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line == "waiting for another hpgen (process 77) that is using generated\n"
        assert between.files() == between.old
    process.communicate(timeout=60)
    assert process.returncode == 0
    between.assert_all_is_well(between.ways["update"])


def test_a_run_that_does_not_end_is_not_waited_for_endlessly(between: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpgen.folder_lock.PATIENCE", 0.1)
    message = r"another hpgen has been using .*generated for 0 s; wait for it, or end it, and run again"
    with (
        locked(between.generated, writing=True),
        pytest.raises(OutputError, match=message),
        locked(between.generated, writing=False),
    ):
        pytest.fail("two runs had the folder")


def test_the_lock_of_a_killed_run_is_free(between: Project) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(between.generated)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    result = between.run("new/specs")
    assert (result.code, result.err) == (0, "")
    between.assert_all_is_well(between.ways["update"])
