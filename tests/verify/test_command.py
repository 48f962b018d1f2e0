# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`hpgen verify`: the specs of this repository, a wrong one in every format, and what cannot be verified."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpgen.library import load_library
from hpgen.verify import processes, ranks
from hpgen.verify.task import Task

from .small_specs import ROOT, WINDOW, small_spec, verify, write_small


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one spec that claims that the sequence may be sharded."""
    folder = tmp_path_factory.mktemp("wrong")
    write_small(folder, {"npu_window": small_spec("npu_window", "B, S")}, {"window": WINDOW})
    return folder


def report_of(folder: Path, *options: str, **environment: str) -> dict[str, Any]:
    result = verify("specs/", "--format", "json", *options, cwd=folder, **environment)
    assert result.stderr == ""
    found: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == (0 if found["passed"] else 1)
    return found


def test_the_specs_of_this_repository_are_right(tmp_path: Path) -> None:
    cache = str(tmp_path)  # of its own: what other tests have found may be there already
    report = report_of(ROOT, HPGEN_CACHE_DIR=cache)
    assert len(report["operators"]) == len(list((ROOT / "specs").glob("*.yaml"))) == 7
    for operator in report["operators"]:
        assert operator["passed"], operator
        assert operator["right"] > 30
        assert not operator["cached"]
    assert report["options"] == {"thorough": False, "seed": 0}

    again = verify("specs/", cwd=ROOT, HPGEN_CACHE_DIR=cache)
    assert (again.returncode, again.stderr) == (0, "")
    lines = again.stdout.splitlines()[1:8]
    assert [line.split()[:2] for line in lines] == [["ok", one["op"]] for one in report["operators"]]
    assert all(line.endswith("cached") for line in lines)
    assert len(set(map(len, lines))) == 1
    assert again.stdout.splitlines()[-1] == "7 operators: all right; --verbose lists what was covered"


def test_a_wrong_spec_is_shown_with_its_smallest_case(wrong: Path) -> None:
    result = verify("specs/", cwd=wrong)
    assert (result.returncode, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert lines[1].split()[:2] == ["FAIL", "npu_window"]
    assert lines[-1] == "1 operator: 1 wrong or not verified; --verbose lists what was covered"
    (title,) = [line for line in lines if line.startswith("npu_window: format BSD: out is wrong on rank 1:")]
    facts = {line.split()[0]: line.split()[1:] for line in lines[lines.index(title) + 1 :] if line.startswith("  ")}
    assert facts["mesh"] == ["cp=2"]
    assert facts["placements"] == ["x", "S=cp"]
    assert facts["where"][0] == "element"
    assert facts["expected"] != facts["got"]
    assert "  npu_window, format BSD: reduce: {D: sum}" in lines


def test_the_command_and_the_script_of_a_report_reproduce_it(wrong: Path) -> None:
    lines = verify("specs/", cwd=wrong).stdout.splitlines()
    (command,) = [line for line in lines if line.startswith("hpgen verify")]
    words = shlex.split(command)
    again = verify(*words[2:], cwd=wrong)
    assert again.returncode == 1
    assert "output out on rank 0: right" in again.stdout
    assert "output out on rank 1: WRONG at" in again.stdout
    claim = report_of(wrong)["operators"][0]["claims"][0]
    assert f"expected {claim['expected']}, got {claim['got']}" in again.stdout

    (wrong / "case.json").write_text(words[-1])
    assert verify(words[2], "--case", "@case.json", cwd=wrong).stdout == again.stdout

    start = lines.index("import os")
    end = next(at for at, line in enumerate(lines) if line.startswith('print("got"'))
    (wrong / "reproduce.py").write_text("\n".join(lines[start : end + 1]) + "\n")
    shown = subprocess.run(
        [sys.executable, "reproduce.py"], cwd=wrong, capture_output=True, text=True, timeout=100, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    expected, got = shown.stdout.split("expected\n")[1].split("got\n")
    assert expected != got
    assert "rank 1 passes" in shown.stdout
    assert end - start < 20


def test_the_same_seed_gives_the_same_report(wrong: Path) -> None:
    found = []
    for hash_seed in ("1", "2"):
        (operator,) = json.loads(
            verify("specs/", "--format", "json", "--no-cache", cwd=wrong, PYTHONHASHSEED=hash_seed).stdout
        )["operators"]
        found.append({name: value for name, value in operator.items() if name != "seconds"})
    assert found[0] == found[1]


def test_a_case_that_the_rule_no_longer_takes_is_refused(wrong: Path, tmp_path: Path) -> None:
    case = report_of(wrong)["operators"][0]["claims"][0]["case"]
    write_small(tmp_path, {"npu_window": small_spec("npu_window", "B")}, {"window": WINDOW})
    result = verify("specs/npu_window.yaml", "--case", case, cwd=tmp_path)
    assert result.returncode == 0
    assert "refused: For npu_window, S (dim 1) of x should be replicated" in result.stdout


def test_annotations_stand_beside_the_sharding(wrong: Path) -> None:
    result = verify("specs/", "--format", "github", cwd=wrong)
    assert (result.returncode, result.stderr) == (1, "")
    line = (wrong / "specs" / "npu_window.yaml").read_text().splitlines().index("sharding:") + 1
    errors = [text for text in result.stdout.splitlines() if text.startswith("::error ")]
    assert len(errors) == 1
    where, _, text = errors[0].removeprefix("::error ").partition("::")
    assert where == f"file=specs/npu_window.yaml,line={line},title=npu_window"
    assert text.startswith("format BSD: out is wrong on rank 1")
    assert "::notice " in result.stdout


def test_a_report_is_written_to_a_file(wrong: Path, tmp_path: Path) -> None:
    result = verify("specs/", "--format", "json", "-o", tmp_path / "report.json", cwd=wrong)
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads((tmp_path / "report.json").read_text())["operators"][0]["op"] == "npu_window"
    nowhere = verify("specs/", "--format", "json", "-o", tmp_path / "none" / "report.json", cwd=wrong)
    assert nowhere.returncode == 2
    assert "No such file or directory" in nowhere.stderr


UNVERIFIED = {
    "npu_absent": ("absent:absent", "", "import nowhere", "cannot be imported"),
    "npu_crash": ("crash:f", "", "import os\nf = lambda x: os.abort()", "its process died of SIGABRT"),
    "npu_exit": ("leave:f", "", "import sys\nf = lambda x: sys.exit(3)", "ended the process with exit code 3"),
    "npu_hang": ("hang:f", "", "import time\nf = lambda x: time.sleep(1000)", "it was not done within 4 s"),
    "npu_more": ("more:f", "", "f = lambda x: (x, x)", "the reference should return 1 outputs, out, but returned 2"),
    "npu_none": ("", "", "", "has no reference to be judged by"),
    "npu_raise": ("raising:f", "", "f = lambda x: 1 // 0", "ZeroDivisionError"),
    "npu_unsatisfiable": ("window:window", "B * B == B + 1", WINDOW, "no attributes and optional tensors satisfy"),
}


def test_what_cannot_be_verified_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    specs = {op: small_spec(op, "B", reference, require) for op, (reference, require, _, _) in UNVERIFIED.items()}
    specs["npu_fine"] = small_spec("npu_fine", "B", "prints:window")
    references = {reference.partition(":")[0]: text for reference, _, text, _ in UNVERIFIED.values() if reference}
    references["prints"] = WINDOW.replace("    out =", '    print("no report")\n    out =', 1)
    write_small(tmp_path, specs, references)
    result = verify("specs/", "--format", "json", "--timeout", "4", cwd=tmp_path)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    operators = {one["op"]: one for one in json.loads(result.stdout)["operators"]}
    assert operators.pop("npu_fine")["passed"]
    assert operators.keys() == UNVERIFIED.keys()
    for op, (_, _, _, expected) in UNVERIFIED.items():
        assert not operators[op]["passed"]
        told = [operators[op]["error"], *(claim["text"] for claim in operators[op]["claims"])]
        assert any(expected in text for text in told), (op, told)


def test_a_process_that_is_killed_is_the_environment_s_fault(tmp_path: Path) -> None:
    killed = "import os, signal\nf = lambda x: os.kill(os.getpid(), signal.SIGKILL)"
    write_small(tmp_path, {"npu_kill": small_spec("npu_kill", reference="killed:f")}, {"killed": killed})
    result = verify("specs/", cwd=tmp_path)
    assert result.returncode == 2
    assert "is there enough memory?" in " ".join(result.stdout.split())


def test_the_platform_is_numpy_whatever_is_set(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    for framework in ("torch", "mindspore"):
        (tmp_path / "site" / f"{framework}.py").write_text("raise SystemExit('imported')")
    write_small(tmp_path, {"npu_window": small_spec("npu_window")}, {"window": WINDOW})
    environment = {"PYTHONPATH": str(tmp_path / "site"), "HYPER_PARALLEL_KERNELS": "native"}
    result = verify("specs/", "--no-cache", cwd=tmp_path, HYPER_PARALLEL_PLATFORM="torch", **environment)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_framework_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "torch.py").write_text("raise ImportError('libtorch.so is missing')")
    write_small(tmp_path, {"npu_window": small_spec("npu_window")}, {"window": WINDOW})
    options = ("--platform", "torch", "--no-cache")
    result = verify("specs/", *options, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert result.returncode == 2
    text = " ".join(result.stdout.split())
    assert "the 2 processes of torch could not be started: rank 0: ImportError: libtorch.so is missing" in text


def test_a_framework_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "find_spec", lambda name: None)
    for platform, extra in (("torch", "'hpgen[torch]'"), ("mindspore", "'hpgen[mindspore]', on Python 3.10 to 3.12")):
        with pytest.raises(ranks.PlatformError) as error:
            ranks.check_platform(platform)
        expected = f"{platform} is not installed in this Python; install it with: pip install {extra}"
        assert str(error.value) == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["specs/", "-o", "x.json"], "-o takes a report of --format json or html"),
        (["specs/", "--case", "nothing"], "a case should be JSON with problem, mesh, placed, order"),
        (["specs/", "--case", "@absent"], "--case @absent: No such file"),
        (["specs/", "--case", "{}", "--format", "html"], "--case prints text only"),
        (["specs/", "--rule", "a:B"], "--rule belongs to one operator: give its spec alone"),
        (["specs/", "--timeout", "0"], "0"),
        (["specs/", "--platform", "jax"], "'jax' is not one of 'numpy', 'torch', 'mindspore'"),
        (["specs/", "--nproc", "2"], "--nproc belongs to --platform torch or mindspore"),
        (["specs/", "--platform", "torch", "--nproc", "5"], "no mesh has 5 ranks: there are meshes of 2, 3, 4, 6, 8"),
        (["nowhere/"], "does not exist"),
    ],
)
def test_usage(tmp_path: Path, arguments: list[str], text: str) -> None:
    specs = {op: small_spec(op) for op in ("npu_one", "npu_two")}
    write_small(tmp_path, specs, {"window": WINDOW})
    result = verify(*arguments, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert text in result.stderr


def test_a_case_of_another_operator_is_a_mistake_of_usage(wrong: Path) -> None:
    case = report_of(wrong)["operators"][0]["claims"][0]["case"].replace('"BSD"', '"TND"')
    result = verify("specs/npu_window.yaml", "--case", case, cwd=wrong)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: specs/npu_window.yaml: the operator has no format 'TND'; known: BSD\n"


def test_mistakes_of_specs_are_the_usual_diagnostics(tmp_path: Path) -> None:
    write_small(tmp_path, {"npu_window": small_spec("npu_window", "Q")}, {"window": WINDOW})
    result = verify("specs/", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert "error[HP" in result.stderr
    found = json.loads(verify("specs/", "--format", "json", cwd=tmp_path).stdout)
    assert found["errors"][0]["file"] == "specs/npu_window.yaml"


def test_help_imports_nothing_of_it() -> None:
    code = (
        "import sys\nfrom hpgen.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "names = [name for name in sys.modules if name.startswith(('hpgen.verify', 'numpy', 'hyper_parallel'))]\n"
        "assert not names, names"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "verify " in done.stdout
    options = verify("--help", cwd=ROOT).stdout
    assert "--thorough" in options
    assert "--case TEXT|@FILE" in options


SLOW = """
import os, time
from pathlib import Path

def window(x):
    Path("running").write_text(str(os.getpid()))
    time.sleep(0.05)
    return x.sum(-1)
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A run whose reference takes its time, and the process that verifies."""
    write_small(tmp_path, {"npu_slow": small_spec("npu_slow", reference="slow:window")}, {"slow": SLOW})
    command = [sys.executable, "-m", "hpgen", "verify", "specs/", "--no-cache"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        deadline = time.monotonic() + 100
        told = tmp_path / "running"
        while not (told.is_file() and told.read_text()):
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield run, int(told.read_text())
        run.kill()


def test_a_key_that_interrupts_ends_everything(running: tuple[subprocess.Popen[str], int]) -> None:
    run, worker = running
    os.killpg(run.pid, signal.SIGINT)
    _, told = run.communicate(timeout=100)
    assert (run.returncode, told) == (130, "interrupted\n")
    assert_ends(worker)


def test_a_run_that_is_killed_leaves_no_process(running: tuple[subprocess.Popen[str], int]) -> None:
    run, worker = running
    run.kill()
    assert_ends(worker)


def assert_ends(process: int) -> None:
    """A process ends, or is a dead one for which nobody has waited."""
    state = Path(f"/proc/{process}/stat")
    deadline = time.monotonic() + 100
    while state.is_file() and ") Z " not in state.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_processes_that_are_not_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems that cannot."""
    write_small(tmp_path, {"npu_window": small_spec("npu_window")}, {"window": WINDOW})
    library = load_library([tmp_path / "specs"])
    monkeypatch.setattr(processes, "get_all_start_methods", lambda: ["spawn"])
    found = list(processes.outcomes([Task(library.specs[0], library.folder)], 1, 100.0))
    assert [outcome for _, outcome in found[:-1]] == [None] * (len(found) - 1)
    number, last = found[-1]
    assert (number, last.kind if last else "") == (0, "done")
    assert last is not None
    assert last.value["passed"]
