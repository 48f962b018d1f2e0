# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A small attention block with the lightning indexer, trained on the ranks of a sequence, and on one device.

On ranks the indexer's loss and its gradients are the operators'. On one device they are torch's own formulas and
autograd, on whole sequences in natural order: nothing of this project runs there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from hyper_parallel import DTensor, Partial, Replicate, Shard, init_device_mesh, library, reduce_gradient
from hyper_parallel.context_parallel import SequenceOrder, deal, sequence_order, undeal

STEPS = 20
VOCABULARY, WIDTH = 16, 8
HEADS, SIZE, INDEX_HEADS, INDEX_SIZE = 32, 4, 8, 128  # 32, 8 and 128 are the least that the kernels take
SCALE = SIZE**-0.5
ZIGZAG = SequenceOrder("zigzag")
KL_WEIGHT = 0.5
LOG_SMALLEST = np.log(1e-8)  # of a probability, in the kernels' divergence
LSE, KL_LOSS = "npu_dense_lightning_indexer_softmax_lse", "npu_dense_lightning_indexer_grad_kl_loss"


@dataclass(frozen=True)
class Training:
    """What is trained, and how.

    Attributes:
        documents: For each micro-batch of a step the lengths of its packed documents; with `rows`, the one length.
        order: How sequences are dealt to the ranks.
        rows: The batch at fixed length; 0 for packed documents.
        loss_scale: The factor of the loss in the backward, taken out of the gradients before the step.
        forgotten: A sum over the ranks that is left out: "keys", "parameters" or "".
    """

    documents: tuple[tuple[int, ...], ...]
    order: SequenceOrder = ZIGZAG
    rows: int = 0
    loss_scale: float = 1.0
    dtype: str = "float64"
    forgotten: str = ""


class Trained(NamedTuple):
    """What a training leaves behind: a loss and the gradients (parameter -> array) of every step."""

    losses: list[float]
    gradients: list[dict[str, Any]]


class Batch(NamedTuple):
    """One micro-batch in natural order: tokens and targets `[T]` or `[B, S]`, and which keys a row sees `[S, S]`."""

    tokens: torch.Tensor
    targets: torch.Tensor
    visible: torch.Tensor
    ends: list[int]


class Block(torch.nn.Module):
    """The parameters: an embedding, the attention's projections and those of the indexer."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def normal(rows: int, columns: int, scale: float) -> torch.nn.Parameter:
            values = torch.randn(rows, columns, generator=generator, dtype=torch.float64) * scale
            return torch.nn.Parameter(values.to(dtype))

        self.embedding = normal(VOCABULARY, WIDTH, 1.0)
        self.query, self.key, self.value = (normal(WIDTH, HEADS * SIZE, WIDTH**-0.5) for _ in range(3))
        self.output = normal(HEADS * SIZE, VOCABULARY, 0.2)
        # Scores of size one, so that no softmax is a single key.
        self.query_index = normal(WIDTH, INDEX_HEADS * INDEX_SIZE, 0.1)
        self.key_index = normal(WIDTH, INDEX_SIZE, 0.1)
        self.weights = normal(WIDTH, INDEX_HEADS, 0.15)

    def attention(self, hidden: torch.Tensor) -> list[torch.Tensor]:
        """Query, key and value `[.., N, D]` of hidden rows `[.., WIDTH]`."""
        return [(hidden @ matrix).unflatten(-1, (HEADS, SIZE)) for matrix in (self.query, self.key, self.value)]

    def indexer(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Its query, key and weights: `[.., 8, 128]`, `[.., 1, 128]`, `[.., 8]`."""
        query = (hidden @ self.query_index).unflatten(-1, (INDEX_HEADS, INDEX_SIZE))
        return query, (hidden @ self.key_index).unsqueeze(-2), hidden @ self.weights

    def token_loss(self, attended: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The sum over the rows."""
        logits = attended.flatten(-2) @ self.output
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum")


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, visible: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Output `[.., q, N, D]`, probabilities `[.., N, q, k]`, and maximum and sum of each row `[.., N, q]`."""
    scores = torch.einsum("...qnd,...knd->...nqk", query, key) * SCALE
    scores = scores.masked_fill(~visible, -torch.inf)
    row_max = scores.detach().amax(-1)
    weights = torch.exp(scores - row_max[..., None])
    row_sum = weights.sum(-1)
    probabilities = weights / row_sum[..., None]
    return torch.einsum("...nqk,...knd->...qnd", probabilities, value), probabilities, row_max, row_sum


def draw(training: Training, seed: int) -> Batch:
    lengths = training.documents[seed]
    generator = torch.Generator().manual_seed(seed)
    shape = (training.rows, sum(lengths)) if training.rows else (sum(lengths),)
    tokens, targets = (torch.randint(VOCABULARY, shape, generator=generator) for _ in range(2))
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    visible = (document[:, None] == document).tril()
    return Batch(tokens, targets, visible, np.cumsum(lengths).tolist())


def start(training: Training) -> tuple[Block, torch.optim.AdamW, list[Batch]]:
    block = Block(getattr(torch, training.dtype))
    # A large epsilon: a factor that all gradients of a parameter have in common is not lost on the steps.
    optimizer = torch.optim.AdamW(block.parameters(), lr=0.005, eps=1e-3, weight_decay=0.1)
    return block, optimizer, [draw(training, seed) for seed in range(len(training.documents))]


def gradients_of(block: Block) -> dict[str, Any]:
    return {name: parameter.grad.double().numpy().copy() for name, parameter in block.named_parameters()}


def largest_errors(ours: Trained, theirs: Trained) -> tuple[float, float]:
    """Of the losses, and of the gradients as vectors, relative to one device."""
    losses = np.abs(np.array(ours.losses) / np.array(theirs.losses) - 1)
    gradients = [
        np.linalg.norm(found[name] - expected[name]) / np.linalg.norm(expected[name])
        for found, expected in zip(ours.gradients, theirs.gradients, strict=True)
        for name in expected
    ]
    return float(losses.max()), float(max(gradients))


def train_on_one_device(training: Training) -> Trained:
    """All micro-batches of a step in one backward, without a loss scale."""
    block, optimizer, batches = start(training)
    trained = Trained([], [])
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = sum(loss_on_one_device(block, batch) for batch in batches) / len(batches)
        loss.backward()
        trained.losses.append(loss.item())
        trained.gradients.append(gradients_of(block))
        optimizer.step()
    return trained


def loss_on_one_device(block: Block, batch: Batch) -> torch.Tensor:
    hidden = block.embedding[batch.tokens]
    attended, probabilities, _, _ = attend(*block.attention(hidden), batch.visible)
    p = probabilities.detach().mean(-3)
    query, key, weights = block.indexer(hidden)
    products = torch.relu(torch.einsum("...qnd,...kd->...nqk", query, key.squeeze(-2)))
    scores = torch.einsum("...qn,...nqk->...qk", weights, products).masked_fill(~batch.visible, -torch.inf)
    log_s = torch.log_softmax(scores, -1).masked_fill(~batch.visible, 0.0)
    log_s = log_s + (log_s.clamp(min=LOG_SMALLEST) - log_s).detach()  # clipped for the value, not for the gradient
    divergence = (p * (torch.log(p).clamp(min=LOG_SMALLEST) - log_s)).sum()
    return (block.token_loss(attended, batch.targets) + KL_WEIGHT * divergence) / batch.tokens.numel()


def train_on_ranks(trainings: list[Training]) -> list[Trained]:
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),), mesh_dim_names=("cp",))
    found = []
    for training in trainings:
        with sequence_order(training.order):
            found.append(train_on_rank(training, mesh))
    return found


def train_on_rank(training: Training, mesh: Any) -> Trained:
    block, optimizer, batches = start(training)
    trained = Trained([], [])
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = torch.zeros((), dtype=block.query.dtype)
        for batch in batches:
            loss = loss_on_rank(block, batch, mesh, training) / len(batches)
            (loss * training.loss_scale).backward()
            total += loss.detach()
        for parameter in block.parameters():
            gradient = parameter.grad
            if training.forgotten != "parameters":
                gradient = summed(gradient, mesh)
            parameter.grad = gradient / training.loss_scale
        trained.losses.append(summed(total, mesh).item())
        trained.gradients.append(gradients_of(block))
        optimizer.step()
    return trained


def summed(tensor: torch.Tensor, mesh: Any) -> torch.Tensor:
    """The sum over the ranks, each of which has the part of its rows."""
    return reduce_gradient(tensor, DTensor.from_local(tensor, mesh, (Partial("sum"),)).layout)


def loss_on_rank(block: Block, batch: Batch, mesh: Any, training: Training) -> torch.Tensor:
    """The part of this rank's rows."""
    dim = 1 if training.rows else 0
    documents = {"cu_seqlens": batch.ends} if training.order.per_document else {}

    def dealt(tensor: torch.Tensor) -> torch.Tensor:
        return deal(tensor, mesh, dim, **documents).to_local()

    def gathered(part: torch.Tensor) -> torch.Tensor:
        """Whole and in natural order. Each rank's rows give a share of its gradient."""
        shares = None if training.forgotten == "keys" else (Partial("sum"),)
        return undeal(part, mesh, dim, grad_placements=shares, **documents).to_local()

    hidden = block.embedding[dealt(batch.tokens)]
    rows = dealt(torch.arange(batch.tokens.shape[dim]).expand(batch.tokens.shape))  # their natural places
    query, key, value = block.attention(hidden)
    key, value = gathered(key), gathered(value)
    attended, _, row_max, row_sum = attend(query, key, value, batch.visible[rows[0] if training.rows else rows])
    query_index, key_index, weights = block.indexer(hidden)
    divergence = kl_loss(
        (query, key), (query_index, gathered(key_index), weights), (row_max, row_sum), batch, mesh, dim
    )
    token_loss = block.token_loss(attended, dealt(batch.targets))
    return (token_loss + KL_WEIGHT * divergence) / batch.tokens.numel()


def kl_loss(
    attention: tuple[torch.Tensor, ...],
    indexer: tuple[torch.Tensor, ...],
    statistics: tuple[torch.Tensor, ...],
    batch: Batch,
    mesh: Any,
    dim: int,
) -> torch.Tensor:
    """The indexer's loss on this rank's rows: queries, weights and statistics dealt, keys whole."""
    packed = {} if dim else {"layout": "TND", "actual_seq_qlen": batch.ends, "actual_seq_klen": batch.ends}
    rows = partial(DTensor.from_local, mesh=mesh, placements=(Shard(dim),))
    whole = partial(DTensor.from_local, mesh=mesh, placements=(Replicate(),))
    of_rows = partial(DTensor.from_local, mesh=mesh, placements=(Shard(dim + 1),))  # behind the heads
    query, key = rows(attention[0]), whole(attention[1])
    query_index, key_index, weights = rows(indexer[0]), whole(indexer[1]), rows(indexer[2])
    with torch.no_grad():
        index_statistics = operator(LSE)(query_index, key_index, weights, **packed)
    main = [of_rows(tensor.detach().unsqueeze(-1)) for tensor in statistics]
    outputs = operator(KL_LOSS)(query, key, query_index, key_index, weights, *main, *index_statistics, SCALE, **packed)
    return outputs[3].to_local().sum()


def operator(name: str) -> Any:
    """By its autograd function: the entry point of one that torch_npu has would be torch_npu's."""
    return library.operator(name).load_dfunction().apply
