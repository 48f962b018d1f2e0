# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that do not make the same call say so, all of them, instead of computing nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from differing_lengths import ON_FOUR, ON_TWO, check_told, check_told_of_dealing, told, told_of_dealing
from differing_ranks import CASES, EQUAL, LONE, check_compared, check_found_in_the_collective, errors

from hyper_parallel import DTensor, Replicate, Shard, custom_ops, init_device_mesh
from hyper_parallel.core.shard import rank_check
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

LSE = custom_ops.npu_dense_lightning_indexer_softmax_lse


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_check.RANK_CHECK, "enabled", True)


def on_ranks(shape: tuple[int, ...], change: Callable[[int], dict[str, Any]]) -> list[str]:
    """What every rank is told; `change` has what is special about a rank."""

    def call() -> str:
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[: len(shape)])
        special = change(mesh.rank)
        placements = (special.pop("placement", Shard(0)), *(Replicate() for _ in shape[1:]))
        rows = special.pop("rows", 2)
        rng = np.random.default_rng(0)
        shapes = ((rows, 3, 8, 128), (rows, 4, 1, 128), (rows, 3, 8))
        tensors = [DTensor.from_local(rng.standard_normal(size), mesh, placements) for size in shapes]
        try:
            LSE(*tensors, **special)
        except RuntimeError as error:
            return str(error)
        return ""

    return run_ranks(call, int(np.prod(shape)))


@pytest.mark.parametrize("shape", [(2,), (2, 2), (3, 2)])
def test_equal_calls_go_through(shape: tuple[int, ...]) -> None:
    assert set(on_ranks(shape, lambda _rank: {})) == {""}


@pytest.mark.parametrize(
    ("shape", "odd", "special", "words"),
    [
        ((2,), 1, {"placement": Replicate()}, "rank 1: "),
        ((2, 2), 2, {"rows": 5}, "(5, 3, 8, 128)"),
        ((2, 2), 3, {"sparse_mode": 4}, "sparse_mode=4"),
        ((3, 2), 4, {"sparse_mode": 3.0}, "sparse_mode=3.0"),
        ((2,), 0, {"layout": "TND"}, "layout='TND'"),
    ],
)
def test_every_rank_names_the_one_that_differs(
    shape: tuple[int, ...], odd: int, special: dict[str, Any], words: str
) -> None:
    told = on_ranks(shape, lambda rank: dict(special) if rank == odd else {})
    assert len(set(told)) == 1
    assert told[0].startswith(f"For {LSE.__name__}, the ranks of DeviceMesh(cpu, dp={shape[0]}")
    lines = told[0].splitlines()[1:]
    (line,) = [line for line in lines if line.startswith(f"  rank {odd}: ")]
    assert words in line
    others = [str(rank) for rank in range(int(np.prod(shape))) if rank != odd]
    assert any(line.startswith(f"  rank{'s' if len(others) > 1 else ''} {', '.join(others)}: ") for line in lines)


@pytest.mark.parametrize(
    ("word", "wanted"), [(None, False), ("", False), ("0", False), ("1", True), ("true", True), (" 1 ", True)]
)
def test_the_environment_switches_it_on(monkeypatch: pytest.MonkeyPatch, word: str | None, wanted: bool) -> None:
    monkeypatch.delenv(rank_check.VARIABLE, raising=False)
    if word is not None:
        monkeypatch.setenv(rank_check.VARIABLE, word)
    assert rank_check.is_wanted() is wanted


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rank_check.VARIABLE, "maybe")
    with pytest.raises(ValueError, match="HYPER_PARALLEL_CHECK_RANKS should be 0 or 1, but got 'maybe'"):
        rank_check.is_wanted()


def test_parts_that_do_not_belong_together_are_listed() -> None:
    check_compared(run_ranks(errors, 2, (*CASES, LONE), timeout=20))


def test_parts_that_belong_together_go_through() -> None:
    assert run_ranks(errors, 2, EQUAL, timeout=20) == [[("", "")] * len(EQUAL)] * 2


def test_without_the_check_the_collective_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_check.RANK_CHECK, "enabled", False)
    check_found_in_the_collective(run_ranks(errors, 2, CASES, timeout=20))


def test_off_nothing_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_check.RANK_CHECK, "enabled", False)
    monkeypatch.setattr(rank_check, "gathered", lambda *_: pytest.fail("the ranks were compared"))
    assert run_ranks(errors, 2, EQUAL, timeout=20) == [[("", "")] * len(EQUAL)] * 2


def test_lengths_of_two_ranks() -> None:
    check_told(ON_TWO, run_ranks(told, 2, list(ON_TWO.values()), timeout=20))


def test_lengths_of_groups() -> None:
    check_told(ON_FOUR, run_ranks(told, 4, list(ON_FOUR.values()), timeout=20))


def test_lengths_of_a_dealing() -> None:
    check_told_of_dealing(run_ranks(told_of_dealing, 4, timeout=20))


def test_lengths_that_differ_are_not_noticed_without_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_check.RANK_CHECK, "enabled", False)
    case = ON_TWO["query ends"]
    assert run_ranks(told, 2, [case], timeout=20) == [[("", "")]] * 2


def test_a_layout_that_is_refused_is_what_is_told() -> None:
    """Nothing can be said about groups then."""

    def call() -> str:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        placements = ((Shard(0),), (Replicate(),), (Shard(1),))
        shapes = ((4, 8, 128), (11, 1, 128), (8, 4))
        tensors = [
            DTensor.from_local(np.zeros(shape), mesh, each) for shape, each in zip(shapes, placements, strict=True)
        ]
        with pytest.raises(ValueError, match="N1") as refused:
            LSE(*tensors, layout="TND", actual_seq_qlen=[mesh.rank, 8], actual_seq_klen=[5, 11])
        return str(refused.value)

    told_of_layout = run_ranks(call, 2, timeout=20)
    assert told_of_layout[0] == told_of_layout[1]
    assert "N1 (dim 1) of weights should be replicated" in told_of_layout[0]
