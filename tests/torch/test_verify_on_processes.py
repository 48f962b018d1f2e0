# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`hpgen verify --platform torch`: specs hold on gloo ranks, wrong ones are found there, and no process stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.verify.on_processes import (
    BROKEN_COLLECTIVE,
    check_end_with_starter,
    commands_of_page,
    failing_spec,
    verified,
)
from tests.verify.small_specs import ROOT, WINDOW, small_spec, verify, write_small

POST, LSE, KL = "npu_mhc_post", "npu_dense_lightning_indexer_softmax_lse", "npu_dense_lightning_indexer_grad_kl_loss"
MESHES = {2: ["cp=2"], 4: ["dp=2 x cp=2"]}
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("op", "nproc"),
    [
        (POST, 2),
        pytest.param(POST, 4, marks=slow),
        pytest.param(LSE, 2, marks=slow),
        pytest.param(LSE, 4, marks=slow),
        pytest.param(KL, 2, marks=slow),
        pytest.param(KL, 4, marks=slow),
    ],
)
def test_specs_hold(op: str, nproc: int) -> None:
    options = ("--platform", "torch", "--nproc", nproc, "--format", "json", "--no-cache")
    result = verify(f"specs/{op}.yaml", *options, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert (report["options"]["platform"], report["options"]["nproc"]) == ("torch", nproc)
    (operator,) = report["operators"]
    assert operator["wrong"] == 0
    assert operator["right"] >= 24 * len(operator["covered"]["formats"])
    assert operator["covered"]["meshes"] == MESHES[nproc]
    assert f"on {nproc} processes of torch" in operator["notes"][-1]


@pytest.mark.parametrize(
    ("mutant", "what"),
    [
        (f"{POST}: two linear groups taken for one", "output out"),
        pytest.param(f"{POST}: the gradient of a replicated input is not Partial", "gradient", marks=slow),
        pytest.param(f"{LSE}: lengths are not cut", "error", marks=slow),
        pytest.param(f"{KL}: every rank sees all keys", "error", marks=slow),
    ],
)
def test_wrong_rules_are_found(mutant: str, what: str) -> None:
    report = verified("mutant", "torch", 2, mutant)
    assert not report["passed"]
    assert report["right"] > 0
    assert any(f"{claim['what']} {claim['name']}".startswith(what) for claim in report["claims"])
    assert all(claim["mesh"] == {"cp": 2} for claim in report["claims"])


@pytest.mark.parametrize(
    ("what", "text", "ended"),
    [
        ("raises", "rank 1 has failed: KeyError: 'no such row'", False),
        pytest.param("dies", "rank 1 died of SIGKILL", True, marks=slow),
        pytest.param("leaves", "rank 1 ended with exit code 7", True, marks=slow),
        pytest.param("hangs", "no answer came from rank 1 within 4 s", True, marks=slow),
        pytest.param(
            "leaves the other alone",
            "rank 1 has failed: KeyError: 'no such row'; after that, no answer came from rank 0",
            True,
            marks=slow,
        ),
    ],
)
def test_a_rank_that_fails_ends_no_run(tmp_path: Path, what: str, text: str, ended: bool) -> None:
    spec, reference = failing_spec(what)
    folder = write_small(tmp_path, {"acme_sum": spec}, {"window": reference})
    report = verified("spec", "torch", 2, folder / "acme_sum.yaml", 60 if "alone" in what else 4)
    assert [claim["text"] for claim in report["claims"]] == [text]
    assert report["right"] == 0
    assert (report["notes"][-1] == "the processes had to be ended 3 times") is ended


def test_collectives_are_part_of_it(tmp_path: Path) -> None:
    folder = write_small(tmp_path, {"acme_sum": small_spec("acme_sum")}, {"window": BROKEN_COLLECTIVE})
    report = verified("spec", "torch", 2, folder / "acme_sum.yaml")
    (claim,) = report["claims"]
    assert claim["what"] == "output"
    assert claim["text"].startswith("brought together by the ranks' collectives: ")
    assert report["right"] > 0, "replicated tensors need no gather"


def test_a_case_runs_again_on_processes(tmp_path: Path) -> None:
    write_small(tmp_path, {"acme_window": small_spec("acme_window", "B, S")}, {"window": WINDOW})
    result = verify("specs/", "--platform", "torch", "--format", "json", "--no-cache", cwd=tmp_path)
    assert result.returncode == 1
    case = json.loads(result.stdout)["operators"][0]["claims"][0]["case"]
    words = ("specs/acme_window.yaml", "--platform", "torch", "--case", case)
    again = verify(*words, cwd=tmp_path)
    assert again.returncode == 1
    assert "output out on rank 1: WRONG at (0, 0)" in again.stdout
    told = verify(*words[:-2], "--no-cache", cwd=tmp_path).stdout
    assert "1 operator on 2 processes of torch: 1 wrong or not verified" in told
    assert verify(*words, "--nproc", "4", cwd=tmp_path).returncode == 2


def test_ranks_end_with_who_has_started_them(tmp_path: Path) -> None:
    folder = write_small(tmp_path, {"acme_sum": small_spec("acme_sum")}, {"window": WINDOW})
    check_end_with_starter("torch", 2, folder / "acme_sum.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("words", commands_of_page("torch"), ids=" ".join)
def test_the_commands_of_the_page_run(words: list[str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    result = verify(*words, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
