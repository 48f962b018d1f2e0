// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of manifold-constrained hyper-connections: x has the dims B S N C or T N C, and every other tensor of the
// tokens has the same dims in front.
#pragma once

#include <string>

#include "csrc/fake_cann/plan.h"

namespace fake_cann {

// The dims of the tokens, from the rank of a tensor that has N and C behind them.
inline std::string TokensOf(const Plan& plan, const aclTensor* x) {
  plan.Demand(x != nullptr, "x should not be null");
  plan.Demand(x->shape.size() == 4 || x->shape.size() == 3, "x should have 4 or 3 dims");
  return x->shape.size() == 4 ? "B S" : "T";
}

}  // namespace fake_cann
