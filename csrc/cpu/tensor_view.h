// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// What a host kernel sees of a tensor: contiguous memory, an element type and a shape.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "csrc/cpu/half.h"

namespace hyper_parallel::cpu {

enum class DType {
  kBool,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

inline const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
  }
  return "unknown";
}

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;

  int64_t numel() const {
    int64_t count = 1;
    for (const int64_t extent : shape) {
      count *= extent;
    }
    return count;
  }

  // Negative dims count from the end.
  int64_t dim(int index) const {
    const int rank = static_cast<int>(shape.size());
    return shape.at(static_cast<size_t>(index < 0 ? index + rank : index));
  }
};

inline std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

template <typename From, typename To>
void ConvertElements(const void* source, int64_t offset, int64_t count, To* target) {
  const From* from = static_cast<const From*>(source) + offset;
  if constexpr (std::is_same_v<From, To>) {
    std::copy(from, from + count, target);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      target[i] = static_cast<To>(from[i]);
    }
  }
}

// Copies `count` floating-point elements from `offset` on into `target`, in the kernel's own precision: a kernel is
// then a template over that precision alone, not over every combination of input types.
template <typename To>
void LoadElements(const TensorView& view, int64_t offset, int64_t count, To* target) {
  switch (view.dtype) {
    case DType::kFloat16:
      return ConvertElements<Float16>(view.data, offset, count, target);
    case DType::kBFloat16:
      return ConvertElements<BFloat16>(view.data, offset, count, target);
    case DType::kFloat32:
      return ConvertElements<float>(view.data, offset, count, target);
    case DType::kFloat64:
      return ConvertElements<double>(view.data, offset, count, target);
    default:
      throw std::invalid_argument(
        std::string("expected a floating-point tensor, but got ") + DTypeName(view.dtype)
      );
  }
}

template <typename To>
void RoundElements(const double* source, int64_t offset, int64_t count, void* target) {
  To* to = static_cast<To*>(target) + offset;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<To, double>) {
      to[i] = source[i];
    } else {
      to[i] = static_cast<To>(static_cast<float>(source[i]));
    }
  }
}

// The inverse: rounds `count` elements to the tensor's type and writes them from `offset` on.
inline void StoreElements(const double* source, int64_t offset, int64_t count, const TensorView& view) {
  switch (view.dtype) {
    case DType::kFloat16:
      return RoundElements<Float16>(source, offset, count, view.data);
    case DType::kBFloat16:
      return RoundElements<BFloat16>(source, offset, count, view.data);
    case DType::kFloat32:
      return RoundElements<float>(source, offset, count, view.data);
    case DType::kFloat64:
      return RoundElements<double>(source, offset, count, view.data);
    default:
      throw std::invalid_argument(
        std::string("expected a floating-point tensor, but got ") + DTypeName(view.dtype)
      );
  }
}

}  // namespace hyper_parallel::cpu
