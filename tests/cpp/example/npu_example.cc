// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// An operator in the shape of a generated one that has what the committed operators do not have yet: optional tensors,
// dims given by expressions, two launches with a temporary between them, literals in a call, a backward.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "csrc/arithmetic.h"
#include "csrc/module.h"
#include "csrc/runner.h"
#ifndef CUSTOM_ASCEND_OP
#include "example/example.h"
#endif
#ifdef HP_ACLNN_PROTOTYPE
#if __has_include("aclnnop/aclnn_example_metadata.h")
#include "aclnnop/aclnn_example_metadata.h"
HP_ACLNN_PROTOTYPE(aclnnExampleMetadata)
#endif
#if __has_include("aclnnop/aclnn_example.h")
#include "aclnnop/aclnn_example.h"
HP_ACLNN_PROTOTYPE(aclnnExample)
#endif
#if __has_include("aclnnop/aclnn_example_backward.h")
#include "aclnnop/aclnn_example_backward.h"
HP_ACLNN_PROTOTYPE(aclnnExampleBackward)
#endif
#endif

namespace hyper_parallel {
namespace {

class NpuExampleMetadataRunner final : public OperatorRunner {
 public:
  using OperatorRunner::OperatorRunner;

  // Arguments in the order of the kernel.
  template <typename... Args>
  void Launch(const Args&... args) {
#ifdef CUSTOM_ASCEND_OP
    RunAclnnDirect(HP_ACLNN_KERNEL(aclnnExampleMetadata), args...);
#else
    RunCpuDirect(HP_CPU_KERNEL(cpu::example_metadata), args...);
#endif
  }
};

class NpuExampleRunner final : public OperatorRunner {
 public:
  using OperatorRunner::OperatorRunner;

  // Arguments in the order of the kernel.
  template <typename... Args>
  void Launch(const Args&... args) {
#ifdef CUSTOM_ASCEND_OP
    RunAclnnDirect(HP_ACLNN_KERNEL(aclnnExample), args...);
#else
    RunCpuDirect(HP_CPU_KERNEL(cpu::example), args...);
#endif
  }
};

class NpuExampleBackwardRunner final : public OperatorRunner {
 public:
  using OperatorRunner::OperatorRunner;

  // Arguments in the order of the kernel.
  template <typename... Args>
  void Launch(const Args&... args) {
#ifdef CUSTOM_ASCEND_OP
    RunAclnnDirect(HP_ACLNN_KERNEL(aclnnExampleBackward), args...);
#else
    RunCpuDirect(HP_CPU_KERNEL(cpu::example_backward), args...);
#endif
  }
};

auto npu_example(
  const ms::Tensor& x,
  const std::optional<ms::Tensor>& rope,
  const std::optional<std::vector<int64_t>>& actual_seq_qlen,
  const std::string& layout,
  int64_t num_iters,
  double eps,
  bool out_flag
) {
  const ArgumentChecks checks("npu_example");
  checks.FloatDtype("x", x, {ms::TypeId::kNumberTypeBFloat16, ms::TypeId::kNumberTypeFloat16});
  checks.Dtype("rope", rope, {x.data_type(), ms::TypeId::kNumberTypeFloat32});
  int64_t S = 0;
  int64_t N = 0;
  ShapeVector out_shape;
  ShapeVector sums_shape;
  if (layout == "BSN") {
    checks.Dims("x", x, "B S N", {kAny, kAny, kAny});
    const int64_t B = x.shape()[0];
    S = x.shape()[1];
    N = x.shape()[2];
    out_shape = {B, S, N};
    sums_shape = {2 * num_iters, B, S, N * N};
  } else if (layout == "TN") {
    checks.Dims("x", x, "T N", {kAny, kAny});
    const int64_t T = x.shape()[0];
    N = x.shape()[1];
    out_shape = {T, N};
    sums_shape = {2 * num_iters, T, N * N};
  } else {
    checks.UnknownFormat("layout", layout, "one of 'BSN', 'TN'");
  }
  return [=]() -> std::vector<ms::Tensor> {
    const ms::Tensor out(x.data_type(), out_shape);
    const ms::Tensor sums(ms::TypeId::kNumberTypeFloat32, sums_shape);
    const ms::Tensor metadata(ms::TypeId::kNumberTypeInt32, {64});

    const auto metadata_runner = std::make_shared<NpuExampleMetadataRunner>("npu_example");
    metadata_runner->Launch(
      actual_seq_qlen,
      layout == "BSN" ? S : int64_t{0},
      FloorDiv(N, 2),
      std::string("fixed"),
      Output(metadata)
    );

    const auto runner = std::make_shared<NpuExampleRunner>("npu_example");
    runner->Launch(
      x,
      rope,
      kNoTensor,
      metadata,
      EmptyIfMissing(actual_seq_qlen),
      kNoInts,
      std::vector<int64_t>{1, 2},
      static_cast<int32_t>(num_iters),
      eps,
      int64_t{-1},
      0.5,
      out_flag,
      true,
      Output(out),
      Output(sums),
      layout
    );
    return {
      out,
      sums,
    };
  };
}

auto npu_example_backward(
  const ms::Tensor& grad_out,
  const ms::Tensor& x,
  int64_t num_iters
) {
  return [=]() -> std::vector<ms::Tensor> {
    const ms::Tensor grad_x(x.data_type(), x.shape());

    const auto runner = std::make_shared<NpuExampleBackwardRunner>("npu_example_backward");
    runner->Launch(
      grad_out,
      x,
      static_cast<int32_t>(num_iters),
      Output(grad_x)
    );
    return {
      grad_x,
    };
  };
}

}  // namespace

HP_OPERATOR(npu_example, m) {
  m.def("npu_example", HP_CALLER(2, npu_example));
  m.def("npu_example_backward", HP_CALLER(1, npu_example_backward));
}

}  // namespace hyper_parallel
