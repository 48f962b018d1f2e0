# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments that only an NPU build, or only a host build, refuses: dtypes and devices."""

from __future__ import annotations

from launch_cases import CAUSAL, LSE, PARAMETERS, POST, PRE

LSE_CALL = "tensor:{dtype}:2,4,8,128 tensor:{dtype}:2,6,1,128 {weights} none none str:BSND " + CAUSAL

# op, arguments, what the NPU build says, what the host build says; empty if it takes them
WRONG: dict[str, tuple[str, str, str, str]] = {
    "float32 where the NPU kernel has 16 bits": (
        LSE,
        LSE_CALL.format(dtype="float32", weights="tensor:float32:2,4,8"),
        "TypeError: For {op}, query_index should have dtype bfloat16, float16, but got float32.",
        "",
    ),
    "integers": (
        LSE,
        LSE_CALL.format(dtype="int32", weights="tensor:float32:2,4,8"),
        "TypeError: For {op}, query_index should have dtype bfloat16, float16, but got int32.",
        "TypeError: For {op}, query_index should have dtype bfloat16, float16, float32, float64, but got int32.",
    ),
    "a dtype that is not the query's": (
        LSE,
        LSE_CALL.format(dtype="bfloat16", weights="tensor:float16:2,4,8"),
        "TypeError: For {op}, weights should have dtype bfloat16, float32, but got float16.",
        "TypeError: For {op}, weights should have dtype bfloat16, float32, but got float16.",
    ),
    "float64 where the NPU kernel has float32": (
        POST,
        "tensor:float16:5,4,16 tensor:float64:5,4,4 tensor:float16:5,16 tensor:float32:5,4",
        "TypeError: For {op}, h_res should have dtype float32, but got float64.",
        "",
    ),
    "a tensor on the NPU": (
        LSE,
        LSE_CALL.format(dtype="bfloat16", weights="ascend:float32:2,4,8"),
        "",
        "ValueError: For {op}, weights should be a tensor on the host, but got one on Ascend.",
    ),
    "a tensor on a GPU": (
        PRE,
        f"gpu:bfloat16:2,3,4,16 {PARAMETERS} int:4 int:3 float:0.5 float:0.25 bool:true",
        "ValueError: For {op}, x should be a tensor on Ascend, but got one on a GPU.",
        "ValueError: For {op}, x should be a tensor on the host, but got one on a GPU.",
    ),
    "a tensor without memory": (
        f"{POST}_backward",
        "meta:float16:5,4,16 tensor:float16:5,4,16 tensor:float32:5,4,4 tensor:float16:5,16 tensor:float32:5,4",
        "ValueError: For {op}, grad_out should be a tensor on Ascend, but got one on meta, without memory.",
        "ValueError: For {op}, grad_out should be a tensor on the host, but got one on meta, without memory.",
    ),
    "too few dims to read": (
        LSE,
        "tensor:float16:7,8,128 tensor:float16:9,1,128 tensor:float16:7,8 none none str:BSND " + CAUSAL,
        "ValueError: For {op}, query_index should have the 4 dims (B, S1, N1, D), but got shape (7, 8, 128).",
        "ValueError: For {op}, query_index should have the 4 dims (B, S1, N1, D), but got shape (7, 8, 128).",
    ),
    "no dims to read": (
        f"{PRE}_backward",
        "tensor:float16:5,16 tensor:float32: tensor:float32:5,4,4 tensor:float16:5,4,16 " + PARAMETERS + " "
        "tensor:float32:5,4 tensor:float32:5,24 tensor:float32:5,1 tensor:float32:6,5,4 tensor:float32:6,5,4,4 float:1",
        "ValueError: For {op}, grad_h_post should have the 2 dims (T, N), but got shape ().",
        "ValueError: For {op}, grad_h_post should have the 2 dims (T, N), but got shape ().",
    ),
}
