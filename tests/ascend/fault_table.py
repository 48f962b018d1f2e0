# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Faults in calls of kernels: in what a spec says, in generated C++, and in the header that all of it shares.

Each is one edit of a text that occurs in it once.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tests.operators.kl_loss_calls import DENSE, SPARSE, TOP_K
from tests.operators.lse_cases import OP as LSE
from tests.operators.mhc_calls import CLAMP, POST, PRE

ROW_SHIFT = "npu_row_shift"
RUNNER = "csrc/runner.h"


class Where(Enum):
    """What is edited."""

    SPEC = "spec"
    GENERATED = "generated `.cc`"
    HEADER = "`csrc/runner.h`"


class By(Enum):
    """What finds a fault."""

    PROTOTYPE = "the kernel's prototype, when it is compiled"
    KERNEL = "the kernel, which refuses the call"
    NUMBERS = "the numbers that come out"
    FRAMEWORK = "MindSpore, which refuses the launch"
    SANITIZER = "AddressSanitizer"


class Fault(NamedTuple):
    """One edit, by what it is found, and a piece of what is then said."""

    what: str
    op: str
    where: Where
    old: str
    new: str
    by: By
    says: str


SPEC, GENERATED, HEADER = Where.SPEC, Where.GENERATED, Where.HEADER

FAULTS = (
    Fault(
        "outputs of one shape swapped",
        LSE,
        SPEC,
        "next_tokens, softmax_max, softmax_sum)",
        "next_tokens, softmax_sum, softmax_max)",
        By.NUMBERS,
        LSE,
    ),
    Fault(
        "tensors of two shapes swapped",
        POST,
        SPEC,
        "aclnnMhcPost(x, h_res, h_out, h_post, out)",
        "aclnnMhcPost(x, h_post, h_out, h_res, out)",
        By.KERNEL,
        "hRes should have",
    ),
    Fault(
        "query and key swapped",
        TOP_K,
        SPEC,
        "aclnnLightningIndexerV2(query, key,",
        "aclnnLightningIndexerV2(key, query,",
        By.KERNEL,
        "aclnnLightningIndexerV2: ",
    ),
    Fault(
        "two saved tensors of one shape swapped in a backward call",
        PRE,
        GENERATED,
        "      grad_h_post,\n      grad_h_res,\n      x,\n      phi,\n      alpha,\n      bias,\n      h_pre,\n",
        "      h_pre,\n      grad_h_res,\n      x,\n      phi,\n      alpha,\n      bias,\n      grad_h_post,\n",
        By.NUMBERS,
        f"{PRE}_backward",
    ),
    Fault(
        "gradients swapped in a backward call",
        POST,
        SPEC,
        "grad(x), grad(h_res), grad(h_out), grad(h_post))",
        "grad(x), grad(h_post), grad(h_out), grad(h_res))",
        By.KERNEL,
        "gradHRes should have",
    ),
    Fault(
        "integers swapped",
        LSE,
        SPEC,
        "layout, sparse_mode, pre_tokens, next_tokens, softmax",
        "layout, pre_tokens, sparse_mode, next_tokens, softmax",
        By.KERNEL,
        "sparseMode should be 3",
    ),
    Fault(
        "narrowed integers swapped",
        PRE,
        SPEC,
        "i32(hc_mult), i32(num_iters)",
        "i32(num_iters), i32(hc_mult)",
        By.KERNEL,
        "hcMult should be N",
    ),
    Fault(
        "doubles swapped", PRE, SPEC, "hc_eps, norm_eps, out_flag,\n", "norm_eps, hc_eps, out_flag,\n", By.NUMBERS, PRE
    ),
    Fault(
        "bounds swapped",
        CLAMP,
        SPEC,
        "out_flag, clamp_min, clamp_max,\n",
        "out_flag, clamp_max, clamp_min,\n",
        By.NUMBERS,
        CLAMP,
    ),
    Fault(
        "int32 for int64",
        SPARSE,
        SPEC,
        "layout, sparse_mode, pre_tokens",
        "layout, i32(sparse_mode), pre_tokens",
        By.PROTOTYPE,
        "WrongArgument<14, int, long int>",
    ),
    Fault(
        "int64 for int32",
        PRE,
        SPEC,
        "i32(hc_mult), i32(num_iters)",
        "i32(hc_mult), num_iters",
        By.PROTOTYPE,
        "WrongArgument<5, long int, int>",
    ),
    Fault(
        "float for double",
        DENSE,
        GENERATED,
        "      scale_value,\n",
        "      static_cast<float>(scale_value),\n",
        By.PROTOTYPE,
        "WrongArgument<13, float, double>",
    ),
    Fault(
        "an argument where the public function has it",
        SPARSE,
        SPEC,
        "softmax_sum, query_rope, key_rope, actual_seq_qlen, actual_seq_klen,\n    scale_value, layout",
        "softmax_sum, scale_value, query_rope, key_rope, actual_seq_qlen, actual_seq_klen,\n    layout",
        By.PROTOTYPE,
        "WrongArgument<8, double, const aclTensor*>",
    ),
    Fault(
        "a literal left out",
        SPARSE,
        SPEC,
        "next_tokens, True, d_query_index",
        "next_tokens, d_query_index",
        By.PROTOTYPE,
        "WrongArgument<17, const aclTensor*, bool>",
    ),
    Fault(
        "another literal", TOP_K, SPEC, "sparse_count, -1, layout", "sparse_count, 1, layout", By.KERNEL, "should be -1"
    ),
    Fault(
        "a null left out",
        TOP_K,
        SPEC,
        "block_table, None, None, sparse_count",
        "block_table, None, sparse_count",
        By.PROTOTYPE,
        "WrongArgument<10, long int, const aclTensor*>",
    ),
    Fault(
        "an output left out",
        DENSE,
        GENERATED,
        "      Output(d_weights),\n      Output(loss)\n",
        "      Output(d_weights)\n",
        By.PROTOTYPE,
        "WrongArgument<21, long unsigned int*, const aclTensor*>",
    ),
    Fault("an output passed as an input", DENSE, GENERATED, "      Output(loss)\n", "      loss\n", By.FRAMEWORK, ""),
    Fault(
        "a null array for an empty one",
        LSE,
        GENERATED,
        "      EmptyIfMissing(actual_seq_klen),\n",
        "      actual_seq_klen,\n",
        By.KERNEL,
        "actualSeqKlen should be an array, an empty one",
    ),
    Fault(
        "an empty tensor for a null one",
        DENSE,
        GENERATED,
        "      query_rope,\n      key_rope,\n",
        "      Output(EmptyIfMissing(query_rope)),\n      Output(EmptyIfMissing(key_rope)),\n",
        By.KERNEL,
        "queryRope should",
    ),
    Fault(
        "another output shape",
        LSE,
        GENERATED,
        "softmax_max_shape = {B, N2, S1};",
        "softmax_max_shape = {B, S1, N2};",
        By.KERNEL,
        "softmaxMax",
    ),
    Fault(
        "another dtype of an output",
        TOP_K,
        GENERATED,
        "sparse_indices(ms::TypeId::kNumberTypeInt32",
        "sparse_indices(ms::TypeId::kNumberTypeInt64",
        By.KERNEL,
        "sparseIndices should be int32, but is int64",
    ),
    Fault(
        "two launches in the other order",
        ROW_SHIFT,
        SPEC,
        "    - aclnnExampleRowMax(x, row_max)\n    - aclnnExampleSubtract(x, row_max, y)\n",
        "    - aclnnExampleSubtract(x, row_max, y)\n    - aclnnExampleRowMax(x, row_max)\n",
        By.NUMBERS,
        ROW_SHIFT,
    ),
    Fault(
        "views as they are, not made contiguous",
        POST,
        HEADER,
        "return tensor.is_contiguous() ? tensor : tensor.contiguous();",
        "return tensor;",
        By.KERNEL,
        "should be contiguous",
    ),
    Fault(
        "arguments freed before the launch",
        POST,
        GENERATED,
        "  return [=]() -> std::vector<ms::Tensor> {\n    const ms::Tensor out(",
        "  return [&]() -> std::vector<ms::Tensor> {\n    const ms::Tensor out(",
        By.SANITIZER,
        "-use-after-",
    ),
)
