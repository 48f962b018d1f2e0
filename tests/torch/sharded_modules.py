# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An attention and a mixture of experts with autograd functions of their own; tests/boundary_plans.py shards them."""

from __future__ import annotations

import math

import torch
from torch import nn

from hyper_parallel.distributed import FunctionModule

HEAD = 4
HIDDEN = 16
EXPERTS = 4


class Core(torch.autograd.Function):
    """softmax(q k^T / sqrt(D)) v; all of [B, N, S, D]."""

    @staticmethod
    def forward(ctx, query, key, value):
        weights = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]), dim=-1)
        ctx.save_for_backward(query, key, value, weights)
        return weights @ value

    @staticmethod
    def backward(ctx, grad):
        query, key, value, weights = ctx.saved_tensors
        towards = grad @ value.transpose(-1, -2)
        scores = weights * (towards - (towards * weights).sum(-1, keepdim=True)) / math.sqrt(query.shape[-1])
        return scores @ key, scores.transpose(-1, -2) @ query, weights.transpose(-1, -2) @ grad


class CoreModule(FunctionModule):
    def forward(self, query, key, value):
        return super().forward(query, key, value)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        result = torch.softmax(logits, dim=-1)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return result * (grad - (grad * result).sum(-1, keepdim=True))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HIDDEN)
        self.k_proj = nn.Linear(HIDDEN, HIDDEN)
        self.v_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.core = CoreModule(Core)
        self.o_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.temperature = nn.Parameter(torch.tensor(0.7))

    def heads(self, projected):
        return projected.unflatten(-1, (-1, HEAD)).transpose(1, 2)

    def forward(self, hidden, *, scale=1.0):
        query, key, value = (self.heads(item(hidden)) for item in (self.q_proj, self.k_proj, self.v_proj))
        mixed = self.core(query * self.temperature, key=key, value=value)
        return self.o_proj(mixed.transpose(1, 2).flatten(-2)) * scale


class Experts(nn.Module):
    """Every token goes to every expert, weighted: [B, S, H], [B, S, E] -> [B, S, H]."""

    def __init__(self):
        super().__init__()
        self.up = nn.Parameter(torch.randn(EXPERTS, HIDDEN, 8) / 4)
        self.down = nn.Parameter(torch.randn(EXPERTS, 8, HIDDEN) / 4)

    def forward(self, hidden, weights):
        inner = torch.tanh(torch.einsum("bsh,ehf->bsef", hidden, self.up))
        return torch.einsum("bsef,efh,bse->bsh", inner, self.down, weights)


class Moe(nn.Module):
    """Returns the router's logits too, as a balancing loss wants them."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(HIDDEN, EXPERTS)
        self.gate = FunctionModule(Softmax)
        self.experts = Experts()

    def forward(self, hidden):
        logits = self.router(hidden)
        return self.experts(hidden, self.gate(logits)), logits


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.attn = Attention()
        self.moe = Moe()

    def forward(self, hidden):
        hidden = hidden + self.attn(self.norm(hidden), scale=0.5)
        mixed, logits = self.moe(hidden)
        return hidden + mixed, logits
