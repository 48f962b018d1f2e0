# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`deal` and `undeal` on MindSpore ranks."""

from __future__ import annotations

import numpy as np
import pytest
from ranks import run_mccl_ranks

from hyper_parallel.context_parallel import SequenceOrder
from tests import gathered_keys
from tests.dealing_cases import Framework, cases_of, check_case, run_case


def framework():
    import mindspore as ms

    return Framework(
        tensor=lambda array, dtype: ms.Tensor(np.asarray(array, np.float32)).astype(getattr(ms, dtype)),
        array=lambda tensor: tensor.astype(ms.float32).asnumpy().astype(np.float64),
        gradient=lambda function, tensor: ms.grad(function)(tensor).astype(ms.float32).asnumpy().astype(np.float64),
        wide=lambda tensor: tensor.astype(ms.float32),
    )


def run_cases(ranks, step):
    dealt = [run_case(case, framework()) for case in cases_of(ranks)[::step]]
    gathered = [gathered_keys.run_case(case, framework()) for case in gathered_keys.cases_of(ranks)[::step]]
    return dealt, gathered


def check_ranks(ranks, step=1):
    dealt, gathered = zip(*run_mccl_ranks(run_cases, ranks, ranks, step), strict=True)
    for case, *here in zip(cases_of(ranks)[::step], *dealt, strict=True):
        check_case(case, here)
    for case, *here in zip(gathered_keys.cases_of(ranks)[::step], *gathered, strict=True):
        gathered_keys.check_case(case, here)


def test_two_ranks():
    check_ranks(2, step=4)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_every_case(ranks):
    check_ranks(ranks)


ENDS = [4, 12]
PACKED = {"layout": "TND", "actual_seq_qlen": ENDS, "actual_seq_klen": ENDS}
SCALE = 0.5


def indexer_arrays():
    """Query and key of the attention, those of the indexer and its weights, and the statistics of both."""
    from hyper_parallel.reference import samples

    random = np.random.default_rng(0)
    query, key = random.normal(size=(2, 12, 32, 4))
    indexer = [random.normal(size=shape) * 0.2 for shape in ((12, 8, 128), (12, 1, 128), (12, 8))]
    statistics = [
        *samples.attention_statistics(query, key, SCALE, **PACKED),
        *samples.index_statistics(*indexer, **PACKED),
    ]
    return [array.astype(np.float32) for array in (query, key, *indexer, *statistics)]


def gradient_of_own_keys(order):
    """This rank's keys by their natural places, and the gradient of the indexer's loss for them."""
    import mindspore as ms

    from hyper_parallel import Partial, Replicate, custom_ops, distribute_tensor, init_device_mesh
    from hyper_parallel.context_parallel import deal, sequence_order, undeal

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("cp",))
    query, key, query_index, key_index, weights, *statistics = map(ms.Tensor, indexer_arrays())
    documents = {"cu_seqlens": ENDS} if order.per_document else {}
    with sequence_order(order):
        rows = [deal(tensor, mesh, 0, **documents) for tensor in (query, query_index, weights)]
        of_rows = [deal(tensor, mesh, 1, **documents) for tensor in statistics]
        keys = distribute_tensor(key, mesh, (Replicate(),))
        own = deal(key_index, mesh, 0, **documents).to_local()
        places = deal(ms.Tensor(np.arange(12)), mesh, 0, **documents).to_local()

        def loss(own):
            whole = undeal(own, mesh, 0, grad_placements=(Partial("sum"),), **documents)
            outputs = custom_ops.npu_dense_lightning_indexer_grad_kl_loss(
                rows[0], keys, rows[1], whole, rows[2], *of_rows, SCALE, **PACKED
            )
            return outputs[3].to_local().sum()

        return places.asnumpy(), ms.grad(loss)(own).asnumpy()


def gradients_of_own_keys(orders):
    return [gradient_of_own_keys(order) for order in orders]


def test_the_indexers_loss_on_gathered_keys(monkeypatch):
    from hyper_parallel.reference.dense_lightning_indexer import grad_kl_loss

    monkeypatch.setenv("HYPER_PARALLEL_KERNELS", "reference")  # the compiled kernel has tests of its own
    orders = [SequenceOrder("contiguous"), SequenceOrder("zigzag"), SequenceOrder("zigzag", per_document=True)]
    whole = grad_kl_loss(*indexer_arrays(), SCALE, **PACKED)[1]
    for of_ranks in zip(*run_mccl_ranks(gradients_of_own_keys, 2, orders), strict=True):
        places, gradients = map(np.concatenate, zip(*of_ranks, strict=True))
        assert sorted(places) == list(range(12))
        np.testing.assert_allclose(gradients, whole[places], rtol=1e-4, atol=1e-6)
