// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
#include "csrc/fake_cann/example_prototypes.h"

#include <algorithm>
#include <vector>

#include "csrc/fake_cann/plan.h"

using fake_cann::Arguments;
using fake_cann::Plan;
using fake_cann::Planned;
namespace cpu = hyper_parallel::cpu;

namespace {

std::vector<float> ValuesOf(const cpu::TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.numel()));
  cpu::LoadElements(view, 0, view.numel(), values.data());
  return values;
}

}  // namespace

aclnnStatus aclnnExampleRowMaxGetWorkspaceSize(
  const aclTensor* x,
  const aclTensor* rowMax,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return Planned("aclnnExampleRowMax", workspaceSize, executor, [&](Plan& plan) {
    plan.Input("x", x, fake_cann::kHalf, "T D");
    plan.Output("rowMax", rowMax, {x->dtype}, "T");
    const int64_t width = plan["D"];
    plan.Compute([width](const Arguments& given) {
      const std::vector<float> values = ValuesOf(given["x"]);
      for (int64_t row = 0; row < given["x"].dim(0); ++row) {
        const auto first = values.begin() + row * width;
        const float largest = *std::max_element(first, first + width);
        cpu::StoreElements(&largest, row, 1, given["rowMax"]);
      }
    });
  });
}

FAKE_CANN_LAUNCH(aclnnExampleRowMax)

aclnnStatus aclnnExampleSubtractGetWorkspaceSize(
  const aclTensor* x,
  const aclTensor* rowMax,
  const aclTensor* y,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return Planned("aclnnExampleSubtract", workspaceSize, executor, [&](Plan& plan) {
    plan.Input("x", x, fake_cann::kHalf, "T D");
    plan.Input("rowMax", rowMax, {x->dtype}, "T");
    plan.Output("y", y, {x->dtype}, "T D");
    const int64_t width = plan["D"];
    plan.Compute([width](const Arguments& given) {
      std::vector<float> values = ValuesOf(given["x"]);
      const std::vector<float> subtracted = ValuesOf(given["rowMax"]);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] -= subtracted[i / static_cast<size_t>(width)];
      }
      cpu::StoreElements(values.data(), 0, given["y"].numel(), given["y"]);
    });
  });
}

FAKE_CANN_LAUNCH(aclnnExampleSubtract)
