// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Two made-up kernels, of which the second reads what the first has written: for an operator that launches both.
#pragma once

#include <cstdint>

struct aclTensor;
struct aclOpExecutor;
using aclnnStatus = int32_t;

extern "C" {

// rowMax [T]: the largest element of each row of x [T, D].
aclnnStatus aclnnExampleRowMaxGetWorkspaceSize(
  const aclTensor* x,
  const aclTensor* rowMax,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
);

// y [T, D]: x less what stands in rowMax [T] for the row.
aclnnStatus aclnnExampleSubtractGetWorkspaceSize(
  const aclTensor* x,
  const aclTensor* rowMax,
  const aclTensor* y,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
);

}  // extern "C"
