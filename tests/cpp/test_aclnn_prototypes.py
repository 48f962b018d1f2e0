# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Generated calls of aclnn kernels against the prototypes of a toolkit's headers: a call that differs does not compile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from aclnn_headers import FILES, PROTOTYPES, write_headers
from recorder import compile_object

from tests.compiler import needs_compiler

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GENERATED = {path.stem: path for path in sorted((ROOT / "generated").glob("*/*.cc"))}
DENSE = "aclnnDenseLightningIndexerGradKLLoss"
DENSE_OP = "npu_dense_lightning_indexer_grad_kl_loss"

pytestmark = needs_compiler


def said_of(source: Path, include: Path, *flags: str) -> str:
    """What the compiler says of a source, with the toolkit's headers in `include`."""
    return compile_object(source, [ROOT, include], *flags)


def all_operators(folder: Path) -> Path:
    unit = folder / "operators.cc"
    unit.write_text("".join(f'#include "{path}"\n' for path in GENERATED.values()))
    return unit


def test_every_kernel_is_declared() -> None:
    launched = {
        kernel for path in GENERATED.values() for kernel in re.findall(r"HP_ACLNN_KERNEL\((\w+)\)", path.read_text())
    }
    assert launched == PROTOTYPES.keys() == FILES.keys()


def test_every_call_is_as_declared(tmp_path: Path) -> None:
    write_headers(tmp_path)
    assert said_of(all_operators(tmp_path), tmp_path) == ""


def test_calls_are_taken_as_they_are_without_headers(tmp_path: Path) -> None:
    assert said_of(all_operators(tmp_path), tmp_path) == ""


def test_every_header_is_read_and_every_call_is_checked(tmp_path: Path) -> None:
    """With one more parameter before the last one, in every prototype."""
    parts = {kernel: parameters.rsplit(", ", 1) for kernel, parameters in PROTOTYPES.items()}
    write_headers(tmp_path, {kernel: f"{head}, bool verbose, {last}" for kernel, (head, last) in parts.items()})
    unit = all_operators(tmp_path)
    said = said_of(unit, tmp_path)
    assert refused_kernels(said) == PROTOTYPES.keys()
    for head, _ in parts.values():
        assert f"WrongArgument<{head.count(',') + 1}, const aclTensor*, bool>" in said
    assert said_of(unit, tmp_path, "-DHP_NO_ACLNN_PROTOTYPES") == ""


def refused_kernels(said: str) -> set[str]:
    """The kernels whose calls are refused; all errors have to be ours."""
    errors = [line.split("error: ", 1)[1] for line in said.splitlines() if "error: " in line]
    ours = " should get the arguments of its prototype in their order, each by its own type"
    assert all(error.startswith("static assertion failed: ") and ours in error for error in errors), said
    return {error.removeprefix("static assertion failed: ").split(" ", 1)[0] for error in errors}


# What is replaced in the prototype of the dense loss, by what, and the first argument that is then wrong.
WRONG = {
    "tensor and integers swapped": (
        "const aclTensor* keyRope, const aclIntArray* actualSeqQlen",
        "const aclIntArray* actualSeqQlen, const aclTensor* keyRope",
        "10, const aclTensor*, const aclIntArray*",
    ),
    "int32_t for int64_t": ("int64_t preTokens", "int32_t preTokens", "16, long int, int"),
    "bool for int64_t": ("int64_t sparseMode", "bool sparseMode", "15, long int, bool"),
    "double for int64_t": ("int64_t nextTokens", "double nextTokens", "17, long int, double"),
    "float for double": ("double scaleValue", "float scaleValue", "13, double, float"),
    "string for a tensor": ("const aclTensor* query,", "char* query,", "0, const aclTensor*, char*"),
    "moved": (
        "const aclIntArray* actualSeqQlen, const aclIntArray* actualSeqKlen, double scaleValue",
        "double scaleValue, const aclIntArray* actualSeqQlen, const aclIntArray* actualSeqKlen",
        "11, const aclIntArray*, double",
    ),
    "one missing in the call": (
        "const aclTensor* loss",
        "const aclTensor* loss, const aclTensor* count",
        "22, long unsigned int*, const aclTensor*",
    ),
    "one too many in the call": (", const aclTensor* loss", "", "21, const aclTensor*, long unsigned int*"),
}


@pytest.mark.parametrize(("old", "new", "first"), WRONG.values(), ids=WRONG)
def test_a_call_that_differs_does_not_compile(old: str, new: str, first: str, tmp_path: Path) -> None:
    assert PROTOTYPES[DENSE].count(old) == 1
    write_headers(tmp_path, {**PROTOTYPES, DENSE: PROTOTYPES[DENSE].replace(old, new)})
    said = said_of(GENERATED[DENSE_OP], tmp_path)
    assert refused_kernels(said) == {DENSE}
    assert f"WrongArgument<{first}>" in said
    assert "HYPER_PARALLEL_CXXFLAGS=-DHP_NO_ACLNN_PROTOTYPES" in said


def test_narrow_integers_are_declared_so(tmp_path: Path) -> None:
    """The other way round: the call has int32_t."""
    kernel = "aclnnMhcPreSinkhorn"
    wide = PROTOTYPES[kernel].replace("int32_t numIters", "int64_t numIters")
    write_headers(tmp_path, {**PROTOTYPES, kernel: wide})
    said = said_of(GENERATED["npu_mhc_pre_sinkhorn"], tmp_path)
    assert refused_kernels(said) == {kernel}
    assert "WrongArgument<5, int, long int>" in said


def test_what_the_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "kernels.md").read_text()
    section = page.split("\n## Prototypes of aclnn kernels\n")[1]
    (shown,) = re.findall(r"^```text\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)
    kernel = "aclnnMhcPost"
    write_headers(tmp_path, {**PROTOTYPES, kernel: PROTOTYPES[kernel].replace("aclTensor* hRes", "aclIntArray* hRes")})
    said = said_of(GENERATED["npu_mhc_post"], tmp_path)
    assert "docs/kernels.md#prototypes-of-aclnn-kernels" in said
    assert len(shown.splitlines()) == 2
    for line in shown.splitlines():
        assert line in said


def test_a_header_without_the_kernel(tmp_path: Path) -> None:
    write_headers(tmp_path)
    header = tmp_path / "aclnnop" / FILES["aclnnMhcPost"]
    header.write_text(header.read_text().replace("aclnnMhcPost", "aclnnMhcPostV2"))
    assert "'::aclnnMhcPostGetWorkspaceSize' has not been declared" in said_of(GENERATED["npu_mhc_post"], tmp_path)
    assert said_of(GENERATED["npu_mhc_post"], tmp_path, "-DHP_NO_ACLNN_PROTOTYPES") == ""


def test_a_header_that_does_not_compile(tmp_path: Path) -> None:
    write_headers(tmp_path)
    (tmp_path / "aclnnop" / FILES["aclnnMhcPost"]).write_text("#error this release has no C++\n")
    assert "this release has no C++" in said_of(GENERATED["npu_mhc_post"], tmp_path)
    assert said_of(GENERATED["npu_mhc_post"], tmp_path, "-DHP_NO_ACLNN_PROTOTYPES") == ""


def test_one_kernel_of_two_operators(tmp_path: Path) -> None:
    """In one translation unit its prototype is declared twice."""
    write_headers(tmp_path)
    source = GENERATED["npu_mhc_post"].read_text()
    second = tmp_path / "npu_second.cc"
    second.write_text(source.replace("npu_mhc_post", "npu_second").replace("NpuMhcPost", "NpuSecond"))
    unit = tmp_path / "operators.cc"
    unit.write_text(f'#include "{GENERATED["npu_mhc_post"]}"\n#include "{second}"\n')
    assert said_of(unit, tmp_path) == ""


# Every kind of argument, and the parameters that it may have.
KINDS = {
    "ms::Tensor": {"const aclTensor*", "aclTensor*"},
    "std::optional<ms::Tensor>": {"const aclTensor*", "aclTensor*"},
    "std::vector<int64_t>": {"const aclIntArray*", "aclIntArray*"},
    "std::optional<std::vector<int64_t>>": {"const aclIntArray*", "aclIntArray*"},
    "std::string": {"const char*", "char*"},
    "int64_t": {"int64_t"},
    "int32_t": {"int32_t"},
    "double": {"double"},
    "bool": {"bool"},
    "ms::TypeId": {"aclDataType"},
}
PARAMETERS = [
    *dict.fromkeys(parameter for taken in KINDS.values() for parameter in sorted(taken)),
    "const aclScalar*",
    "const aclTensorList*",
    "aclTensor**",
    "const void*",
    "float",
    "uint64_t",
    "uint32_t",
    "int8_t",
    "char",
]


def test_what_is_taken_for_what(tmp_path: Path) -> None:
    lines = [
        f"static_assert(Right<{given}, {declared}> == {str(declared in taken).lower()});"
        for given, taken in KINDS.items()
        for declared in PARAMETERS
    ]
    source = tmp_path / "kinds.cc"
    source.write_text(
        '#include "csrc/aclnn_prototypes.h"\n'
        "struct aclScalar;\nstruct aclTensorList;\nenum aclDataType { ACL_FLOAT };\n"
        "template <typename Given, typename Declared>\n"
        "constexpr bool Right = hyper_parallel::detail::AgainstPrototype<\n"
        "  int (*)(Declared, uint64_t*, aclOpExecutor**), Given>::type::kIsRight;\n" + "\n".join(lines) + "\n"
    )
    assert said_of(source, tmp_path) == ""


@pytest.mark.parametrize(
    "end", ["", "uint64_t*", "aclOpExecutor**, uint64_t*", "uint64_t*, aclOpExecutor*", "void*, void**"]
)
def test_a_function_that_does_not_end_like_a_kernel(end: str, tmp_path: Path) -> None:
    source = tmp_path / "end.cc"
    source.write_text(
        '#include "csrc/aclnn_prototypes.h"\n'
        f"static_assert(!hyper_parallel::detail::AgainstPrototype<int (*)({end})>::type::kIsRight);\n"
    )
    assert said_of(source, tmp_path) == ""
