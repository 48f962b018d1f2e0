// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a tensor's memory is.
#pragma once

#include <string>

#include "ms_extension/api.h"

namespace hyper_parallel {

using DeviceType = mindspore::device::DeviceType;

// The device of a tensor; kUnknown before it has any memory.
inline DeviceType DeviceOf(const ms::Tensor& tensor) {
  const auto& held = tensor.tensor();
  return held == nullptr || held->device_address() == nullptr ? DeviceType::kUnknown : held->device_type();
}

// Whether the kernels of this build can read a tensor. For an NPU the framework moves what is on the host; to the host
// nobody moves anything. One without memory as yet gets it where the operators run.
inline bool IsWithinReach(DeviceType device) {
#ifdef CUSTOM_ASCEND_OP
  return device == DeviceType::kAscend || device == DeviceType::kCPU || device == DeviceType::kUnknown;
#else
  return device == DeviceType::kCPU || device == DeviceType::kUnknown;
#endif
}

inline std::string ReachableDevice() {
#ifdef CUSTOM_ASCEND_OP
  return "Ascend";
#else
  return "the host";
#endif
}

inline std::string DeviceName(DeviceType device) {
  switch (device) {
    case DeviceType::kCPU:
      return "the host";
    case DeviceType::kAscend:
      return "Ascend";
    case DeviceType::kGPU:
      return "a GPU";
    case DeviceType::kMeta:
      return "meta, without memory";
    default:
      return "an unknown device";
  }
}

}  // namespace hyper_parallel
