# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Plans for an attention, a mixture of experts and a block of both: the same for the modules of every framework."""

from __future__ import annotations

from dataclasses import replace

from hyper_parallel import Partial, Shard
from hyper_parallel.distributed import ModuleShardingSpec


def attention_params(axis):
    rows = {f"{name}.weight": {axis: Shard(0)} for name in ("q_proj", "k_proj", "v_proj")}
    biases = {f"{name}.bias": {axis: Shard(0)} for name in ("q_proj", "k_proj")}
    return {**rows, **biases, "o_proj.weight": {axis: Shard(1)}}


def attention_spec(axis, batch, *, sequence=False):
    """Heads over an axis, the batch over those of ``batch``; outside the tokens are over the axis, if ``sequence``."""
    rows = dict.fromkeys(batch, Shard(0))
    around = {**rows, axis: Shard(1)} if sequence else rows
    return ModuleShardingSpec(
        params=attention_params(axis),
        region_dispatch=False,
        in_src={"hidden": around},
        in_dst={"hidden": rows},
        out_src={"out": {**rows, axis: Partial()}},
        out_dst={"out": around},
    )


def core_spec(axis, batch):
    heads = {**dict.fromkeys(batch, Shard(0)), axis: Shard(1)}
    names = ("query", "key", "value")
    return ModuleShardingSpec(
        params={}, region_dispatch=False, in_src=dict.fromkeys(names, heads), out_src={"mixed": heads}
    )


def ulysses_specs(axis, batch):
    """Tokens over an axis, heads over it in the core."""
    rows = dict.fromkeys(batch, Shard(0))
    names = ("query", "key", "value")
    tokens, heads = {**rows, axis: Shard(2)}, {**rows, axis: Shard(1)}
    core = ModuleShardingSpec(
        region_dispatch=False,
        in_src=dict.fromkeys(names, tokens),
        in_dst=dict.fromkeys(names, heads),
        out_src={"mixed": heads},
        out_dst={"mixed": tokens},
    )
    outer = {**rows, axis: Shard(1)}
    attention = ModuleShardingSpec(region_dispatch=False, in_src={"hidden": outer}, out_src={"out": outer})
    return attention, core


def moe_specs(axis, batch):
    """Experts over an axis: one boundary around all, one at the gate, which cuts the weights to this rank's experts."""
    rows = dict.fromkeys(batch, Shard(0))
    moe = ModuleShardingSpec(
        params={"experts.up": {axis: Shard(0)}, "experts.down": {axis: Shard(0)}},
        region_dispatch=False,
        in_src={"hidden": rows},
        out_src={"mixed": {**rows, axis: Partial()}, "logits": rows},
        out_dst={"mixed": rows},
    )
    gate = ModuleShardingSpec(
        params={},
        region_dispatch=False,
        in_src={"x": rows},
        out_src={"y": rows},
        out_dst={"y": {**rows, axis: Shard(-1)}},
    )
    return moe, gate


def experts_spec(axis, batch):
    """The experts alone; the boundary at their entry cuts the weights."""
    rows = dict.fromkeys(batch, Shard(0))
    return ModuleShardingSpec(
        params={"up": {axis: Shard(0)}, "down": {axis: Shard(0)}},
        region_dispatch=False,
        in_src={"hidden": rows, "weights": rows},
        in_dst={"hidden": rows, "weights": {**rows, axis: Shard(2)}},
        out_src={"mixed": {**rows, axis: Partial()}},
        out_dst={"mixed": rows},
    )


def whole(batch, outputs=("out",), **inner):
    """A region around all: the batch is cut, nothing else."""
    rows = dict.fromkeys(batch, Shard(0))
    return ModuleShardingSpec(
        region_dispatch=False, in_src={"hidden": rows}, out_src=dict.fromkeys(outputs, rows), **inner
    )


def block_plan(axis, batch):
    moe, gate = moe_specs(axis, batch)
    rows = dict.fromkeys(batch, Shard(0))
    return {
        "": whole(batch, ("hidden", "logits")),
        "attn": attention_spec(axis, batch),
        "*.core": core_spec(axis, batch),
        "moe": moe,
        "moe.router": ModuleShardingSpec(in_src={"input": rows}, out_src={"logits": rows}, region_dispatch=False),
        "moe.gate": gate,
    }


def tokens_plan(axis, batch):
    """Outside of attention and experts the tokens are over the axis that cuts heads and experts inside."""
    tokens = {**dict.fromkeys(batch, Shard(0)), axis: Shard(1)}
    moe, gate = moe_specs(axis, batch)
    around = replace(moe, in_src={"hidden": tokens}, in_dst=moe.in_src, out_dst={"mixed": tokens, "logits": tokens})
    root = ModuleShardingSpec(
        region_dispatch=False, in_src={"hidden": tokens}, out_src={"hidden": tokens, "logits": tokens}
    )
    return {"": root, "attn": attention_spec(axis, batch, sequence=True), "moe": around, "moe.gate": gate}


def projections_plan(axis, batch):
    """Boundaries at the projections; what is between them, the temperature too, belongs to the attention around."""
    rows = dict.fromkeys(batch, Shard(0))
    column = ModuleShardingSpec(
        params={"weight": {axis: Shard(0)}, "bias": {axis: Shard(0)}},
        region_dispatch=False,
        in_src={"input": rows},
        out_src={"out": {**rows, axis: Shard(2)}},
    )
    value = ModuleShardingSpec(
        params={"weight": {axis: Shard(0)}},
        region_dispatch=False,
        in_src={"input": rows},
        out_src={"out": {**rows, axis: Shard(2)}},
    )
    row = ModuleShardingSpec(
        params={"weight": {axis: Shard(1)}},
        region_dispatch=False,
        in_src={"input": {**rows, axis: Shard(2)}},
        out_src={"out": {**rows, axis: Partial()}},
        out_dst={"out": rows},
    )
    return {"": whole(batch), "[qk]_proj": column, "v_proj": value, "o_proj": row}


def plan_of(name, axis, batch):
    ulysses = ulysses_specs(axis, batch)
    moe = moe_specs(axis, batch)
    return {
        "attention": ("Attention", {"": attention_spec(axis, batch), "core": core_spec(axis, batch)}),
        "attention, tokens outside": ("Attention", {"": attention_spec(axis, batch, sequence=True)}),
        "attention, projections": ("Attention", projections_plan(axis, batch)),
        "attention, ulysses": ("Attention", {"": ulysses[0], "core": ulysses[1]}),
        "moe": ("Moe", {"": moe[0], "gate": moe[1]}),
        "moe, experts": ("Moe", {"": whole(batch, ("mixed", "logits")), "experts": experts_spec(axis, batch)}),
        "block": ("Block", block_plan(axis, batch)),
        "block, tokens outside": ("Block", tokens_plan(axis, batch)),
    }[name]


PLANS = (
    "attention",
    "attention, tokens outside",
    "attention, projections",
    "attention, ulysses",
    "moe",
    "moe, experts",
    "block",
    "block, tokens outside",
)
