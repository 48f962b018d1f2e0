# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`hpgen verify --platform mindspore`: specs hold on mccl ranks, wrong ones are found there, and no process stays."""

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


@pytest.mark.slow
@pytest.mark.parametrize("op", [POST, LSE, KL])
def test_specs_hold(op: str) -> None:
    result = verify(f"specs/{op}.yaml", "--platform", "mindspore", "--format", "json", "--no-cache", cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    (operator,) = json.loads(result.stdout)["operators"]
    assert operator["wrong"] == 0
    assert operator["right"] >= 24 * len(operator["covered"]["formats"])
    assert operator["covered"]["meshes"] == ["cp=2"]
    assert "on 2 processes of mindspore" in operator["notes"][-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "what"),
    [
        (f"{POST}: two linear groups taken for one", "output out"),
        (f"{POST}: the gradient of a replicated input is not Partial", "gradient"),
    ],
)
def test_wrong_rules_are_found(mutant: str, what: str) -> None:
    report = verified("mutant", "mindspore", 2, mutant)
    assert not report["passed"]
    assert report["right"] > 0
    assert any(f"{claim['what']} {claim['name']}".startswith(what) for claim in report["claims"])


@pytest.mark.parametrize(
    ("what", "text", "ended"),
    [
        ("raises", "rank 1 has failed: KeyError: 'no such row'", False),
        pytest.param("dies", "rank 1 died of SIGKILL", True, marks=pytest.mark.slow),
        pytest.param("hangs", "no answer came from rank 1 within 4 s", True, marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_fails_ends_no_run(tmp_path: Path, what: str, text: str, ended: bool) -> None:
    spec, reference = failing_spec(what)
    folder = write_small(tmp_path, {"acme_sum": spec}, {"window": reference})
    report = verified("spec", "mindspore", 2, folder / "acme_sum.yaml", 4)
    assert [claim["text"] for claim in report["claims"]] == [text]
    assert (report["notes"][-1] == "the processes had to be ended 3 times") is ended


def test_collectives_are_part_of_it(tmp_path: Path) -> None:
    folder = write_small(tmp_path, {"acme_sum": small_spec("acme_sum")}, {"window": BROKEN_COLLECTIVE})
    (claim,) = verified("spec", "mindspore", 2, folder / "acme_sum.yaml")["claims"]
    assert claim["what"] == "output"
    assert claim["text"].startswith("brought together by the ranks' collectives: ")


def test_ranks_and_scheduler_end_with_who_has_started_them(tmp_path: Path) -> None:
    folder = write_small(tmp_path, {"acme_sum": small_spec("acme_sum")}, {"window": WINDOW})
    check_end_with_starter("mindspore", 3, folder / "acme_sum.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("words", commands_of_page("mindspore"), ids=" ".join)
def test_the_commands_of_the_page_run(words: list[str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    result = verify(*words, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
