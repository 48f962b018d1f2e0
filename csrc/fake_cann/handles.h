// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// CANN's opaque objects (aclnn/acl_meta.h of the toolkit): what is behind the pointers, and which pointers are good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "acl/acl_base.h"

// As aclCreateTensor was told: element (i, j, ...) is at data + (offset + i * strides[0] + j * strides[1] + ...).
struct aclTensor {
  std::vector<int64_t> shape;
  aclDataType dtype;
  std::vector<int64_t> strides;
  int64_t offset;
  int64_t storage_elements;
  void* data;
};

struct aclIntArray {
  std::vector<int64_t> values;
};

struct aclScalar {
  aclDataType dtype;
  double value;
};

// A planned call. `tensors` has the tensors of the call in their order, null ones too.
struct aclOpExecutor {
  std::string kernel;
  std::vector<aclTensor*> tensors;
  uint64_t workspace_size;
  bool is_repeatable;
  // Takes the memory of the tensors as it is when called; what it returns computes.
  std::function<std::function<void()>()> bind;
};

namespace fake_cann {

// Objects that have been created and not been destroyed.
void Created(const char* kind, const void* object);
// False, and a fault, if there is no such object.
bool Destroyed(const char* kind, const void* object);
bool IsLive(const char* kind, const void* object);

constexpr char kTensor[] = "tensor";
constexpr char kIntArray[] = "int array";
constexpr char kScalar[] = "scalar";
constexpr char kExecutor[] = "executor";

}  // namespace fake_cann
