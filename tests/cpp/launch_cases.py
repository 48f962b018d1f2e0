# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What every operator has to launch, written from the kernels' documentation and not from the specs.

A launch's arguments are written in the kernel's order, separated by bars; `input n` is the n-th argument of the operator
(of its backward: the incoming gradients first), `output n` its n-th output with dtype and shape.
"""

from __future__ import annotations

from dataclasses import dataclass

INT64_MAX = 9223372036854775807

LSE = "npu_dense_lightning_indexer_softmax_lse"
DENSE = "npu_dense_lightning_indexer_grad_kl_loss"
SPARSE = "npu_sparse_lightning_indexer_grad_kl_loss"
TOP_K = "npu_lightning_indexer"
POST = "npu_mhc_post"
PRE = "npu_mhc_pre_sinkhorn"
CLAMP = "npu_mhc_pre_clamp_sinkhorn"


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        op: The operator, or its backward.
        given: Its arguments in the driver's words, separated by blanks.
        kernel: The one kernel that is launched.
        launched: The kernel's arguments in order.
    """

    op: str
    given: str
    kernel: str
    launched: str

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.launched.split("|"))

    @property
    def outputs(self) -> list[str]:
        """The outputs as they are returned: in their own order, whatever the kernel's is."""
        numbered = sorted(part.split(" ", 2)[1:] for part in self.arguments if part.startswith("output"))
        assert [number for number, _ in numbered] == [str(index) for index in range(len(numbered))]
        return [description for _, description in numbered]


MASK = f"int64 3 | int64 {INT64_MAX} | int64 {INT64_MAX}"
CAUSAL = f"int:3 int:{INT64_MAX} int:{INT64_MAX}"

LSE_CASES = {
    "lse, BSND": Case(
        LSE,
        f"tensor:bfloat16:2,4,8,128 tensor:bfloat16:2,6,1,128 tensor:float32:2,4,8 none none str:BSND {CAUSAL}",
        "aclnnDenseLightningIndexerSoftmaxLse",
        f"input 0 | input 1 | input 2 | ints [] | ints [] | str BSND | {MASK} | "
        "output 0 float32 [2, 1, 4] | output 1 float32 [2, 1, 4]",
    ),
    "lse, TND": Case(
        LSE,
        f"tensor:float16:7,16,128 tensor:float16:9,1,128 tensor:float16:7,16 lengths:3,7 lengths:5,9 str:TND {CAUSAL}",
        "aclnnDenseLightningIndexerSoftmaxLse",
        f"input 0 | input 1 | input 2 | ints [3, 7] | ints [5, 9] | str TND | {MASK} | "
        "output 0 float32 [1, 7] | output 1 float32 [1, 7]",
    ),
}

# Arguments 0 to 8 are the tensors, 9 is scale_value, 10 and 11 the ropes, 12 and 13 the lengths.
DENSE_BSND = (
    "tensor:bfloat16:2,4,32,16 tensor:bfloat16:2,6,8,16 tensor:bfloat16:2,4,16,128 tensor:bfloat16:2,6,1,128 "
    "tensor:float32:2,4,16 tensor:float32:2,8,4,4 tensor:float32:2,8,4,4 tensor:float32:2,1,4 tensor:float32:2,1,4"
)
DENSE_TND = (
    "tensor:float16:7,32,16 tensor:float16:9,32,16 tensor:float16:7,8,128 tensor:float16:9,1,128 tensor:float16:7,8 "
    "tensor:float32:32,7,1 tensor:float32:32,7,1 tensor:float32:1,7 tensor:float32:1,7"
)
DENSE_TENSORS = "input 0 | input 1 | input 2 | input 3 | input 4 | input 5 | input 6 | input 7 | input 8"
LOSS_BSND = (
    "output 0 bfloat16 [2, 4, 16, 128] | output 1 bfloat16 [2, 6, 1, 128] | output 2 float32 [2, 4, 16] | "
    "output 3 float32 [1]"
)
LOSS_TND = (
    "output 0 float16 [7, 8, 128] | output 1 float16 [9, 1, 128] | output 2 float16 [7, 8] | output 3 float32 [1]"
)

DENSE_CASES = {
    "dense, BSND": Case(
        DENSE,
        f"{DENSE_BSND} float:0.25 none none none none str:BSND {CAUSAL}",
        "aclnnDenseLightningIndexerGradKLLoss",
        f"{DENSE_TENSORS} | null tensor | null tensor | ints [] | ints [] | double 0.25 | str BSND | {MASK} | {LOSS_BSND}",
    ),
    "dense, BSND with ropes": Case(
        DENSE,
        f"{DENSE_BSND} float:0.25 tensor:bfloat16:2,4,32,64 tensor:bfloat16:2,6,8,64 none none str:BSND {CAUSAL}",
        "aclnnDenseLightningIndexerGradKLLoss",
        f"{DENSE_TENSORS} | input 10 | input 11 | ints [] | ints [] | double 0.25 | str BSND | {MASK} | {LOSS_BSND}",
    ),
    "dense, TND": Case(
        DENSE,
        f"{DENSE_TND} float:0.5 none none lengths:3,7 lengths:5,9 str:TND {CAUSAL}",
        "aclnnDenseLightningIndexerGradKLLoss",
        f"{DENSE_TENSORS} | null tensor | null tensor | ints [3, 7] | ints [5, 9] | double 0.5 | str TND | {MASK} | {LOSS_TND}",
    ),
    "dense, TND with ropes": Case(
        DENSE,
        f"{DENSE_TND} float:0.5 tensor:float16:7,32,64 tensor:float16:9,32,64 lengths:3,7 lengths:5,9 str:TND int:3 int:1 int:2",
        "aclnnDenseLightningIndexerGradKLLoss",
        f"{DENSE_TENSORS} | input 10 | input 11 | ints [3, 7] | ints [5, 9] | double 0.5 | str TND | "
        f"int64 3 | int64 1 | int64 2 | {LOSS_TND}",
    ),
}

# Arguments 0 to 7 are the tensors (5: sparse_indices), 8 is scale_value, 9 and 10 the ropes, 11 and 12 the lengths.
SPARSE_BSND = (
    "tensor:bfloat16:2,4,32,16 tensor:bfloat16:2,6,8,16 tensor:bfloat16:2,4,16,128 tensor:bfloat16:2,6,1,128 "
    "tensor:float32:2,4,16 tensor:int32:2,4,1,5 tensor:float32:2,8,4,4 tensor:float32:2,8,4,4"
)
SPARSE_TND = (
    "tensor:float16:7,32,16 tensor:float16:9,32,16 tensor:float16:7,8,128 tensor:float16:9,1,128 tensor:float16:7,8 "
    "tensor:int32:7,1,5 tensor:float32:32,7,1 tensor:float32:32,7,1"
)
SPARSE_TENSORS = "input 0 | input 1 | input 2 | input 3 | input 4 | input 5 | input 6 | input 7"

SPARSE_CASES = {
    "sparse, BSND": Case(
        SPARSE,
        f"{SPARSE_BSND} float:0.25 none none none none str:BSND {CAUSAL}",
        "aclnnSparseLightningIndexerGradKLLoss",
        f"{SPARSE_TENSORS} | null tensor | null tensor | ints [] | ints [] | double 0.25 | str BSND | {MASK} | "
        f"bool true | {LOSS_BSND}",
    ),
    "sparse, BSND with ropes": Case(
        SPARSE,
        f"{SPARSE_BSND} float:0.25 tensor:bfloat16:2,4,32,64 tensor:bfloat16:2,6,8,64 none none str:BSND {CAUSAL}",
        "aclnnSparseLightningIndexerGradKLLoss",
        f"{SPARSE_TENSORS} | input 9 | input 10 | ints [] | ints [] | double 0.25 | str BSND | {MASK} | "
        f"bool true | {LOSS_BSND}",
    ),
    "sparse, TND": Case(
        SPARSE,
        f"{SPARSE_TND} float:0.5 none none lengths:3,7 lengths:5,9 str:TND int:3 int:1 int:2",
        "aclnnSparseLightningIndexerGradKLLoss",
        f"{SPARSE_TENSORS} | null tensor | null tensor | ints [3, 7] | ints [5, 9] | double 0.5 | str TND | "
        f"int64 3 | int64 1 | int64 2 | bool true | {LOSS_TND}",
    ),
    "sparse, TND with ropes": Case(
        SPARSE,
        f"{SPARSE_TND} float:0.5 tensor:float16:7,32,64 tensor:float16:9,32,64 lengths:3,7 lengths:5,9 str:TND {CAUSAL}",
        "aclnnSparseLightningIndexerGradKLLoss",
        f"{SPARSE_TENSORS} | input 9 | input 10 | ints [3, 7] | ints [5, 9] | double 0.5 | str TND | {MASK} | "
        f"bool true | {LOSS_TND}",
    ),
}

# Arguments: query, key, weights, sparse_count, cu_seq_lens_q, cu_seq_lens_k, cmp_residual_k, block_table, layout,
# sparse_mode, cmp_ratio, return_value. The lengths are tensors on the device.
TOP_K_CASES = {
    "top k, BSND": Case(
        TOP_K,
        "tensor:bfloat16:2,4,8,128 tensor:bfloat16:2,6,1,128 tensor:bfloat16:2,4,8 int:5 none none none none str:BSND "
        "int:0 int:1 bool:false",
        "aclnnLightningIndexerV2",
        "input 0 | input 1 | input 2 | null tensor | null tensor | null tensor | null tensor | null tensor | "
        "null tensor | null tensor | null tensor | int64 5 | int64 -1 | str BSND | str BSND | int64 0 | int64 1 | "
        "bool false | output 0 int32 [2, 4, 1, 5] | output 1 float32 [2, 4, 1, 5]",
    ),
    "top k, TND": Case(
        TOP_K,
        "tensor:float16:7,8,128 tensor:float16:9,1,128 tensor:float32:7,8 int:2048 tensor:int32:3 tensor:int32:3 none "
        "none str:TND int:3 int:1 bool:true",
        "aclnnLightningIndexerV2",
        "input 0 | input 1 | input 2 | input 4 | input 5 | null tensor | null tensor | null tensor | null tensor | "
        "null tensor | null tensor | int64 2048 | int64 -1 | str TND | str TND | int64 3 | int64 1 | bool true | "
        "output 0 int32 [7, 1, 2048] | output 1 float32 [7, 1, 2048]",
    ),
    "top k, everything given": Case(
        TOP_K,
        "tensor:float16:7,8,128 tensor:float16:9,1,128 tensor:float16:7,8 int:6 tensor:int32:3 tensor:int32:3 "
        "tensor:int32:2 tensor:int32:2,4 str:TND int:3 int:4 bool:true",
        "aclnnLightningIndexerV2",
        "input 0 | input 1 | input 2 | input 4 | input 5 | null tensor | null tensor | input 6 | input 7 | null tensor | "
        "null tensor | int64 6 | int64 -1 | str TND | str TND | int64 3 | int64 4 | bool true | "
        "output 0 int32 [7, 1, 6] | output 1 float32 [7, 1, 6]",
    ),
}

POST_CASES = {
    "post, BSND": Case(
        POST,
        "tensor:bfloat16:2,3,4,16 tensor:float32:2,3,4,4 tensor:bfloat16:2,3,16 tensor:float32:2,3,4",
        "aclnnMhcPost",
        "input 0 | input 1 | input 2 | input 3 | output 0 bfloat16 [2, 3, 4, 16]",
    ),
    "post, TND": Case(
        POST,
        "tensor:float16:5,4,16 tensor:float32:5,4,4 tensor:float16:5,16 tensor:float32:5,4",
        "aclnnMhcPost",
        "input 0 | input 1 | input 2 | input 3 | output 0 float16 [5, 4, 16]",
    ),
    "post backward, BSND": Case(
        f"{POST}_backward",
        "tensor:bfloat16:2,3,4,16 tensor:bfloat16:2,3,4,16 tensor:float32:2,3,4,4 tensor:bfloat16:2,3,16 tensor:float32:2,3,4",
        "aclnnMhcPostBackward",
        "input 0 | input 1 | input 2 | input 3 | input 4 | output 0 bfloat16 [2, 3, 4, 16] | output 1 float32 [2, 3, 4, 4] | "
        "output 2 bfloat16 [2, 3, 16] | output 3 float32 [2, 3, 4]",
    ),
    "post backward, TND, of views": Case(
        f"{POST}_backward",
        "view:float16:5,4,16 view:float16:5,4,16 tensor:float32:5,4,4 tensor:float16:5,16 tensor:float32:5,4",
        "aclnnMhcPostBackward",
        "input 0 | input 1 | input 2 | input 3 | input 4 | output 0 float16 [5, 4, 16] | output 1 float32 [5, 4, 4] | "
        "output 2 float16 [5, 16] | output 3 float32 [5, 4]",
    ),
}

# N = 4, C = 16: N*N + 2*N = 24 rows of phi, N*C = 64 columns; 3 iterations are 6 steps.
PARAMETERS = "tensor:float32:24,64 tensor:float32:3 tensor:float32:24"
PRE_BSNC = (
    "output 0 bfloat16 [2, 3, 16] | output 1 float32 [2, 3, 4] | output 2 float32 [2, 3, 16] | output 3 float32 [2, 3, 4] | "
    "output 4 float32 [2, 3, 24] | output 5 float32 [2, 3, 1] | output 6 float32 [6, 2, 3, 4] | "
    "output 7 float32 [6, 2, 3, 4, 4]"
)
PRE_TNC = (
    "output 0 float16 [5, 16] | output 1 float32 [5, 4] | output 2 float32 [5, 16] | output 3 float32 [5, 4] | "
    "output 4 float32 [5, 24] | output 5 float32 [5, 1] | output 6 float32 [6, 5, 4] | output 7 float32 [6, 5, 4, 4]"
)
# grad h_in, h_post and h_res (with two dims where the output has one), then x, phi, alpha, bias and what is saved.
PRE_SAVED_BSNC = (
    f"tensor:bfloat16:2,3,16 tensor:float32:2,3,4 tensor:float32:2,3,4,4 tensor:bfloat16:2,3,4,16 {PARAMETERS} "
    "tensor:float32:2,3,4 tensor:float32:2,3,24 tensor:float32:2,3,1 tensor:float32:6,2,3,4 tensor:float32:6,2,3,4,4"
)
PRE_SAVED_TNC = (
    f"tensor:float16:5,16 tensor:float32:5,4 tensor:float32:5,4,4 tensor:float16:5,4,16 {PARAMETERS} "
    "tensor:float32:5,4 tensor:float32:5,24 tensor:float32:5,1 tensor:float32:6,5,4 tensor:float32:6,5,4,4"
)
PRE_INPUTS = "input 0 | input 1 | input 2 | input 3 | input 4 | input 5 | input 6 | input 7 | input 8 | input 9 | input 10 | input 11"
D_PARAMETERS = "output 1 float32 [24, 64] | output 2 float32 [3] | output 3 float32 [24]"

PRE_CASES = {
    "pre, BSNC": Case(
        PRE,
        f"tensor:bfloat16:2,3,4,16 {PARAMETERS} int:4 int:3 float:0.5 float:0.25 bool:true",
        "aclnnMhcPreSinkhorn",
        f"input 0 | input 1 | input 2 | input 3 | int32 4 | int32 3 | double 0.5 | double 0.25 | bool true | {PRE_BSNC}",
    ),
    "pre, TNC": Case(
        PRE,
        f"tensor:float16:5,4,16 {PARAMETERS} int:4 int:3 float:0.25 float:0.5 bool:false",
        "aclnnMhcPreSinkhorn",
        f"input 0 | input 1 | input 2 | input 3 | int32 4 | int32 3 | double 0.25 | double 0.5 | bool false | {PRE_TNC}",
    ),
    "pre backward, BSNC": Case(
        f"{PRE}_backward",
        f"{PRE_SAVED_BSNC} float:0.5",
        "aclnnMhcPreSinkhornBackward",
        f"{PRE_INPUTS} | double 0.5 | output 0 bfloat16 [2, 3, 4, 16] | {D_PARAMETERS}",
    ),
    "pre backward, TNC": Case(
        f"{PRE}_backward",
        f"{PRE_SAVED_TNC} float:0.25",
        "aclnnMhcPreSinkhornBackward",
        f"{PRE_INPUTS} | double 0.25 | output 0 float16 [5, 4, 16] | {D_PARAMETERS}",
    ),
}

CLAMP_CASES = {
    "clamp, BSNC": Case(
        CLAMP,
        f"tensor:bfloat16:2,3,4,16 {PARAMETERS} int:4 int:3 float:0.5 float:0.25 bool:true float:-2 float:3",
        "aclnnMhcPreClampSinkhorn",
        "input 0 | input 1 | input 2 | input 3 | int32 4 | int32 3 | double 0.5 | double 0.25 | bool true | double -2 | "
        f"double 3 | {PRE_BSNC} | output 8 float32 [6, 2, 3, 4, 4]",
    ),
    "clamp, TNC": Case(
        CLAMP,
        f"tensor:float16:5,4,16 {PARAMETERS} int:4 int:3 float:0.25 float:0.5 bool:false float:0 float:0",
        "aclnnMhcPreClampSinkhorn",
        "input 0 | input 1 | input 2 | input 3 | int32 4 | int32 3 | double 0.25 | double 0.5 | bool false | double 0 | "
        f"double 0 | {PRE_TNC} | output 8 float32 [6, 5, 4, 4]",
    ),
    "clamp backward, BSNC": Case(
        f"{CLAMP}_backward",
        f"{PRE_SAVED_BSNC} tensor:float32:6,2,3,4,4 float:0.5 float:-2 float:3",
        "aclnnMhcPreClampSinkhornBackward",
        f"{PRE_INPUTS} | input 12 | double 0.5 | double -2 | double 3 | output 0 bfloat16 [2, 3, 4, 16] | {D_PARAMETERS}",
    ),
    "clamp backward, TNC": Case(
        f"{CLAMP}_backward",
        f"{PRE_SAVED_TNC} tensor:float32:6,5,4,4 float:0.25 float:-1 float:0.5",
        "aclnnMhcPreClampSinkhornBackward",
        f"{PRE_INPUTS} | input 12 | double 0.25 | double -1 | double 0.5 | output 0 float16 [5, 4, 16] | {D_PARAMETERS}",
    ),
}

CASES = LSE_CASES | DENSE_CASES | SPARSE_CASES | TOP_K_CASES | POST_CASES | PRE_CASES | CLAMP_CASES
