# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The headers with which a toolkit declares the kernels, written from the kernels' documentation and not from the specs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

MASK = "int64 sparse_mode, int64 pre_tokens, int64 next_tokens"
LENGTHS = "ints actual_seq_qlen, ints actual_seq_klen"
LOSS_TENSORS = "tensor query, tensor key, tensor query_index, tensor key_index, tensor weights"
LOSS_OUTPUTS = "tensor d_query_index, tensor d_key_index, tensor d_weights, tensor loss"
MHC_INPUTS = "tensor x, tensor phi, tensor alpha, tensor bias"
MHC_SETTINGS = "int32 hc_mult, int32 num_iters, double hc_eps, double norm_eps, bool out_flag"
MHC_SAVED = "tensor h_pre, tensor hc_before_norm, tensor inv_rms, tensor sum_out, tensor norm_out"
MHC_COTANGENTS = "tensor grad_h_in, tensor grad_h_post, tensor grad_h_res"
MHC_GRADIENTS = "tensor grad_x, tensor grad_phi, tensor grad_alpha, tensor grad_bias"

PROTOTYPES = {
    "aclnnDenseLightningIndexerSoftmaxLse": (
        f"tensor query_index, tensor key_index, tensor weights, {LENGTHS}, string layout, {MASK}, "
        "tensor softmax_max, tensor softmax_sum"
    ),
    "aclnnDenseLightningIndexerGradKLLoss": (
        f"{LOSS_TENSORS}, tensor softmax_max, tensor softmax_sum, tensor softmax_max_index, tensor softmax_sum_index, "
        f"tensor query_rope, tensor key_rope, {LENGTHS}, double scale_value, string layout, {MASK}, {LOSS_OUTPUTS}"
    ),
    "aclnnSparseLightningIndexerGradKLLoss": (
        f"{LOSS_TENSORS}, tensor sparse_indices, tensor softmax_max, tensor softmax_sum, tensor query_rope, "
        f"tensor key_rope, {LENGTHS}, double scale_value, string layout, {MASK}, bool deterministic, {LOSS_OUTPUTS}"
    ),
    "aclnnLightningIndexerV2": (
        "tensor query, tensor key, tensor weights, tensor cu_seq_lens_q, tensor cu_seq_lens_k, tensor seq_lens_q, "
        "tensor seq_lens_k, tensor cmp_residual_k, tensor block_table, tensor metadata, tensor mask, "
        "int64 sparse_count, int64 max_seq_len, string layout_query, string layout_key, int64 sparse_mode, "
        "int64 cmp_ratio, bool return_value, tensor sparse_indices, tensor sparse_values"
    ),
    "aclnnMhcPost": "tensor x, tensor h_res, tensor h_out, tensor h_post, tensor out",
    "aclnnMhcPostBackward": (
        "tensor grad_out, tensor x, tensor h_res, tensor h_out, tensor h_post, "
        "tensor grad_x, tensor grad_h_res, tensor grad_h_out, tensor grad_h_post"
    ),
    "aclnnMhcPreSinkhorn": f"{MHC_INPUTS}, {MHC_SETTINGS}, tensor h_in, tensor h_post, tensor h_res, {MHC_SAVED}",
    "aclnnMhcPreSinkhornBackward": (f"{MHC_COTANGENTS}, {MHC_INPUTS}, {MHC_SAVED}, double hc_eps, {MHC_GRADIENTS}"),
    "aclnnMhcPreClampSinkhorn": (
        f"{MHC_INPUTS}, {MHC_SETTINGS}, double clamp_min, double clamp_max, tensor h_in, tensor h_post, tensor h_res, "
        f"{MHC_SAVED}, tensor h_res_logits"
    ),
    "aclnnMhcPreClampSinkhornBackward": (
        f"{MHC_COTANGENTS}, {MHC_INPUTS}, {MHC_SAVED}, tensor h_res_logits, double hc_eps, double clamp_min, "
        f"double clamp_max, {MHC_GRADIENTS}"
    ),
}
"""Per kernel its parameters in order, the last two, of every kernel, left out."""

IN_C = {
    "tensor": "const aclTensor *",
    "ints": "const aclIntArray *",
    "string": "char *",
    "int64": "int64_t ",
    "int32": "int32_t ",
    "double": "double ",
    "float": "float ",
    "bool": "bool ",
}

HEADER = """\
#pragma once
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef struct aclTensor aclTensor;
typedef struct aclIntArray aclIntArray;
typedef struct aclOpExecutor aclOpExecutor;
typedef int32_t aclnnStatus;

__attribute__((visibility("default"))) aclnnStatus %(kernel)sGetWorkspaceSize(
    %(parameters)s,
    uint64_t *workspaceSize, aclOpExecutor **executor);
__attribute__((visibility("default"))) aclnnStatus %(kernel)s(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, void *stream);
#ifdef __cplusplus
}
#endif
"""

FILES = {
    "aclnnDenseLightningIndexerSoftmaxLse": "aclnn_dense_lightning_indexer_softmax_lse.h",
    "aclnnDenseLightningIndexerGradKLLoss": "aclnn_dense_lightning_indexer_grad_kl_loss.h",
    "aclnnSparseLightningIndexerGradKLLoss": "aclnn_sparse_lightning_indexer_grad_kl_loss.h",
    "aclnnLightningIndexerV2": "aclnn_lightning_indexer_v2.h",
    "aclnnMhcPost": "aclnn_mhc_post.h",
    "aclnnMhcPostBackward": "aclnn_mhc_post_backward.h",
    "aclnnMhcPreSinkhorn": "aclnn_mhc_pre_sinkhorn.h",
    "aclnnMhcPreSinkhornBackward": "aclnn_mhc_pre_sinkhorn_backward.h",
    "aclnnMhcPreClampSinkhorn": "aclnn_mhc_pre_clamp_sinkhorn.h",
    "aclnnMhcPreClampSinkhornBackward": "aclnn_mhc_pre_clamp_sinkhorn_backward.h",
}


def write_headers(include: Path, prototypes: Mapping[str, str] = PROTOTYPES) -> None:
    """`aclnnop/aclnn_....h` below an include folder, for each kernel."""
    (include / "aclnnop").mkdir(parents=True)
    for kernel, parameters in prototypes.items():
        text = HEADER % {"kernel": kernel, "parameters": in_c(parameters)}
        (include / "aclnnop" / FILES[kernel]).write_text(text)


def in_c(parameters: str) -> str:
    """`tensor x, double eps` as C declares it."""
    return re.sub(r"(\w+) (\w+)", lambda found: f"{IN_C[found[1]]}{found[2]}", parameters)
