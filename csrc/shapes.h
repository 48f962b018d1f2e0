// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Extents of the tensors that generated operators get, and shapes of those that they allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "csrc/dtypes.h"
#include "csrc/errors.h"
#include "ms_extension/api.h"

namespace hyper_parallel {

// An extent that is not known, such as a dim of a missing tensor: any will do.
constexpr int64_t kAny = -1;

// The extent of a dim of a tensor that may be missing; negative dims count from the last.
inline int64_t ExtentOf(const std::optional<ms::Tensor>& tensor, int64_t dim) {
  if (!tensor.has_value()) {
    return kAny;
  }
  const ShapeVector& shape = tensor->shape();
  return shape[static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(shape.size()) : dim)];
}

// The first of two extents that is known.
inline int64_t FirstKnown(int64_t extent, int64_t other) {
  return extent == kAny ? other : extent;
}

// The number of documents, from their ends on the host or on the device; a leading zero ends none.
inline int64_t DocumentCount(const std::vector<int64_t>& ends, int64_t leading_zeros = 0) {
  return static_cast<int64_t>(ends.size()) - leading_zeros;
}

inline int64_t DocumentCount(const ms::Tensor& ends, int64_t leading_zeros = 0) {
  return ends.shape()[0] - leading_zeros;
}

template <typename Ends>
int64_t DocumentCount(const std::optional<Ends>& ends, int64_t leading_zeros = 0) {
  return ends.has_value() ? DocumentCount(*ends, leading_zeros) : kAny;
}

// The axis that an attribute chooses; negative numbers count from the last.
inline size_t AxisOf(int64_t axis, const ms::Tensor& tensor) {
  const auto rank = static_cast<int64_t>(tensor.shape().size());
  if (axis < -rank || axis >= rank) {
    ThrowValueError("a tensor with " + std::to_string(rank) + " dims", "there is no axis " + std::to_string(axis));
  }
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

// The number of dims; of a missing tensor, none.
inline int64_t RankOf(const std::optional<ms::Tensor>& tensor) {
  return tensor.has_value() ? static_cast<int64_t>(tensor->shape().size()) : 0;
}

// The dims of a tensor of any rank without `before` dims at its start and `after` at its end.
inline ShapeVector Rest(const ms::Tensor& tensor, size_t before, size_t after) {
  const ShapeVector& shape = tensor.shape();
  if (shape.size() < before + after) {
    ThrowValueError("a tensor with " + std::to_string(shape.size()) + " dims", "there are too few dims");
  }
  return ShapeVector(shape.begin() + static_cast<int64_t>(before), shape.end() - static_cast<int64_t>(after));
}

inline ShapeVector Joined(const ShapeVector& before, const ShapeVector& rest, const ShapeVector& after) {
  ShapeVector shape = before;
  shape.insert(shape.end(), rest.begin(), rest.end());
  shape.insert(shape.end(), after.begin(), after.end());
  return shape;
}

// The gradient of a tensor that may be missing: missing where the tensor is.
inline std::optional<ms::Tensor> LikeIfPresent(const std::optional<ms::Tensor>& tensor) {
  if (!tensor.has_value()) {
    return std::nullopt;
  }
  return ms::Tensor(tensor->data_type(), tensor->shape());
}

// Stands for a missing tensor among the outputs, whose number is fixed.
inline ms::Tensor EmptyIfMissing(const std::optional<ms::Tensor>& tensor) {
  return tensor.has_value() ? *tensor : ms::Tensor(ms::TypeId::kNumberTypeFloat32, ShapeVector{0});
}

// The dim `axis` split into several.
inline ms::Tensor Unflatten(const ms::Tensor& tensor, int64_t axis, const ShapeVector& extents) {
  const size_t place = AxisOf(axis, tensor);
  return tensor.reshape(Joined(Rest(tensor, 0, tensor.shape().size() - place), extents, Rest(tensor, place + 1, 0)));
}

// The dims from `first` to `last`, both included, joined.
inline ms::Tensor Flatten(const ms::Tensor& tensor, int64_t first, int64_t last) {
  const size_t begin = AxisOf(first, tensor);
  const size_t end = AxisOf(last, tensor) + 1;
  int64_t extent = 1;
  for (size_t place = begin; place < end; ++place) {
    extent *= tensor.shape()[place];
  }
  return tensor.reshape(Joined(Rest(tensor, 0, tensor.shape().size() - begin), {extent}, Rest(tensor, end, 0)));
}

// A dim of one inserted, so that it is at `axis` of the result.
inline ms::Tensor Unsqueeze(const ms::Tensor& tensor, int64_t axis) {
  const auto rank = static_cast<int64_t>(tensor.shape().size()) + 1;
  const auto place = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  return tensor.reshape(Joined(Rest(tensor, 0, tensor.shape().size() - place), {1}, Rest(tensor, place, 0)));
}

// The same of a tensor that may be missing: missing where the tensor is.
inline std::optional<ms::Tensor> Unflatten(const std::optional<ms::Tensor>& tensor, int64_t axis, const ShapeVector& extents) {
  return tensor.has_value() ? std::optional<ms::Tensor>(Unflatten(*tensor, axis, extents)) : std::nullopt;
}

inline std::optional<ms::Tensor> Flatten(const std::optional<ms::Tensor>& tensor, int64_t first, int64_t last) {
  return tensor.has_value() ? std::optional<ms::Tensor>(Flatten(*tensor, first, last)) : std::nullopt;
}

inline std::optional<ms::Tensor> Unsqueeze(const std::optional<ms::Tensor>& tensor, int64_t axis) {
  return tensor.has_value() ? std::optional<ms::Tensor>(Unsqueeze(*tensor, axis)) : std::nullopt;
}

}  // namespace hyper_parallel
