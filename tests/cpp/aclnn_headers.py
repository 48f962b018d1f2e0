# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The headers with which a toolkit declares the kernels, in C, each by itself, as documented or changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = (ROOT / "csrc" / "fake_cann" / "prototypes.h").read_text()
END = "uint64_t* workspaceSize, aclOpExecutor** executor"

PROTOTYPES = {
    kernel: " ".join(parameters.split()).removesuffix(f", {END}")
    for kernel, parameters in re.findall(r"(aclnn\w+)GetWorkspaceSize\((.*?)\);", DOCUMENTED, flags=re.DOTALL)
}
"""Per kernel its parameters in order, without the last two, which all kernels have."""

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
    %(parameters)s, %(end)s);
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
        text = HEADER % {"kernel": kernel, "parameters": parameters, "end": END}
        (include / "aclnnop" / FILES[kernel]).write_text(text)
