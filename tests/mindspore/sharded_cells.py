# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An attention and a mixture of experts with autograd functions of their own; tests/boundary_plans.py shards them."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
from mindspore import mint, nn
from mindspore.common._grad_function import _Function

from hyper_parallel.distributed import FunctionModule

HEAD = 4
HIDDEN = 16
EXPERTS = 4


def drawn(seed, *shape):
    return ms.Parameter(ms.Tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32) / 3))


def swapped(tensor):
    return mint.transpose(tensor, -1, -2)


class Core(_Function):
    """softmax(q k^T / sqrt(D)) v; all of [B, N, S, D]."""

    @staticmethod
    def forward(ctx, query, key, value):
        scores = mint.matmul(query, swapped(key)) / math.sqrt(query.shape[-1])
        weights = mint.softmax(scores, -1)
        ctx.save_for_backward(query, key, value, weights)
        return mint.matmul(weights, value)

    @staticmethod
    def backward(ctx, grad):
        query, key, value, weights = ctx.saved_tensors
        towards = mint.matmul(grad, swapped(value))
        scores = weights * (towards - (towards * weights).sum(-1, keepdims=True)) / math.sqrt(query.shape[-1])
        return mint.matmul(scores, key), mint.matmul(swapped(scores), query), mint.matmul(swapped(weights), grad)


class CoreModule(FunctionModule):
    def forward(self, query, key, value):
        return super().forward(query, key, value)


class Softmax(_Function):
    @staticmethod
    def forward(ctx, logits):
        result = mint.softmax(logits, -1)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return result * (grad - (grad * result).sum(-1, keepdims=True))


class Linear(nn.Cell):
    def __init__(self, seed, out, bias=True):
        super().__init__()
        self.weight = drawn(seed, out, HIDDEN)
        self.bias = drawn(seed + 100, out) if bias else None

    def construct(self, x):
        product = mint.matmul(x, swapped(self.weight))
        return product if self.bias is None else product + self.bias


class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.q_proj = Linear(1, HIDDEN)
        self.k_proj = Linear(2, HIDDEN)
        self.v_proj = Linear(3, HIDDEN, bias=False)
        self.core = CoreModule(Core)
        self.o_proj = Linear(4, HIDDEN, bias=False)
        self.temperature = ms.Parameter(ms.Tensor(0.7, ms.float32))

    def heads(self, projected):
        batch, tokens, _ = projected.shape
        return mint.transpose(projected.reshape(batch, tokens, -1, HEAD), 1, 2)

    def construct(self, hidden, *, scale=1.0):
        query, key, value = (self.heads(item(hidden)) for item in (self.q_proj, self.k_proj, self.v_proj))
        mixed = mint.transpose(self.core(query * self.temperature, key=key, value=value), 1, 2)
        return self.o_proj(mixed.reshape(*mixed.shape[:2], -1)) * scale


class Experts(nn.Cell):
    """Every token goes to every expert, weighted: [B, S, H], [B, S, E] -> [B, S, H]."""

    def __init__(self):
        super().__init__()
        self.up = drawn(5, EXPERTS, HIDDEN, 8)
        self.down = drawn(6, EXPERTS, 8, HIDDEN)

    def construct(self, hidden, weights):
        batch, tokens, width = hidden.shape
        flat = hidden.reshape(1, batch * tokens, width)
        mixed = mint.matmul(mint.tanh(mint.matmul(flat, self.up)), self.down)  # [E, B*S, H]
        weighted = mixed * mint.transpose(weights.reshape(batch * tokens, -1), 0, 1).unsqueeze(-1)
        return weighted.sum(0).reshape(batch, tokens, width)


class Moe(nn.Cell):
    """Returns the router's logits too, as a balancing loss wants them."""

    def __init__(self):
        super().__init__()
        self.router = Linear(7, EXPERTS)
        self.gate = FunctionModule(Softmax)
        self.experts = Experts()

    def construct(self, hidden):
        logits = self.router(hidden)
        return self.experts(hidden, self.gate(logits)), logits


class Gain(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = drawn(8, HIDDEN)

    def construct(self, x):
        return x * self.weight


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = Gain()
        self.attn = Attention()
        self.moe = Moe()

    def construct(self, hidden):
        hidden = hidden + self.attn(self.norm(hidden), scale=0.5)
        mixed, logits = self.moe(hidden)
        return hidden + mixed, logits
