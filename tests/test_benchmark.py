# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of docs/performance.md runs and prints its table. What it measures is nobody's assertion."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text()


def benchmark(*options: str) -> str:
    command = [sys.executable, "benchmarks/codegen.py", "--specs", "7", "--runs", "1", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout


def test_it_prints_a_line_for_each_size_and_the_profile() -> None:
    lines = benchmark("--profile").splitlines()
    titles = next(line for line in lines if line.startswith(" specs"))
    row = next(line for line in lines if line.startswith("     7 "))
    assert re.split(r"\s{2,}", titles.strip())[-3:] == ["peak MB", "files/s", "lines/s"]
    assert row.split()[:2] == ["7", "54"]
    assert len(row.split()) == 10
    shares = [int(share) for share in re.findall(r"^ +(\d+)%  ", "\n".join(lines), flags=re.MULTILINE)]
    assert len(shares) == 10
    assert 95 <= sum(shares) <= 105


@pytest.mark.slow
def test_it_runs_torchgen_beside() -> None:
    shown = benchmark("--torchgen")
    assert re.search(r"^torchgen --per-operator-headers: \d{4,} files of \d{6,} lines", shown, flags=re.MULTILINE)
    assert shown.count("hpgen does") == 2


def test_the_page_names_the_command_that_the_makefile_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (options,) = re.findall(r"python benchmarks/codegen.py (.*)", makefile)
    assert f"make benchmark        # python benchmarks/codegen.py {options}\n" in PAGE


@pytest.mark.slow
def test_the_kernels_benchmark_compares_results_and_prints_a_row_for_each_case() -> None:
    command = [sys.executable, "benchmarks/kernels.py", "--lengths", "80", "--threads", "1,2", "--rounds", "1"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=280).stdout
    titles, *rows = shown.splitlines()
    assert re.split(r"\s{2,}", titles.strip())[:3] == ["kernel", "S", "threads"]
    assert [row.split()[:3] for row in rows] == [[kernel, "80", n] for kernel in ("lse", "kl") for n in ("1", "2")]
    assert all(len(row.split()) == 10 for row in rows)
    assert "python benchmarks/kernels.py\n" in PAGE


@pytest.mark.slow
def test_the_context_parallel_benchmark_prints_a_row_for_each_order() -> None:
    command = [sys.executable, "benchmarks/context_parallel.py", "--tokens", "64", "--rounds", "1", "--calls", "3"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=280).stdout
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown.splitlines()]
    balance, steps, calls = rows[1:7], rows[8:11], rows[12:]
    assert [(name, f"{float(share):.3f}") for name, share in balance[:3]] == [
        ("32768 tokens, contiguous", "1.875"),
        ("32768 tokens, head_tail", "1.000"),
        ("32768 tokens, zigzag", "1.000"),
    ]
    assert balance[5] == ["64 documents, zigzag per document", "1.0000"]
    assert [(row[0], len(row)) for row in steps[:2]] == [("contiguous", 8), ("zigzag", 8)]
    assert steps[2][0] == "critical path, zigzag/contiguous"
    orders = ("contiguous", "zigzag", "zigzag per document")
    assert [row[0] for row in calls] == [f"{order}, grad {grad}" for grad in ("off", "on") for order in orders]
    assert all(len(row) == 8 for row in calls)


def test_the_page_names_the_command_for_context_parallelism() -> None:
    assert "\t$(BIN)/python benchmarks/context_parallel.py\n" in (ROOT / "Makefile").read_text()
    assert "make benchmark-cp     # python benchmarks/context_parallel.py\n" in PAGE


def test_the_time_of_verification(tmp_path: Path) -> None:
    (tmp_path / "reference").symlink_to(ROOT / "specs" / "reference")
    (tmp_path / "npu_mhc_post.yaml").write_text((ROOT / "specs" / "npu_mhc_post.yaml").read_text())
    command = [sys.executable, "benchmarks/verify.py", "--rounds", "1", "--quick", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert re.search(r"^npu_mhc_post +[0-9.]+ s +[0-9]+ MB\s*$", result.stdout, re.MULTILINE)
    assert re.search(r"^all at once +[0-9.]+ s", result.stdout, re.MULTILINE)
    assert "python benchmarks/verify.py\n" in PAGE
