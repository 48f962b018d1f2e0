// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of an operator's arguments, called by generated code before a shape is read, memory allocated or a kernel
// launched.
//
// Each takes the argument's name and value and throws with what was expected and what was given, in the words of the
// checks in Python. Those look at a whole call and its global shapes; these at the tensors that reach the kernel, so
// that no caller can make it read memory that is not there. Strides need no check: a tensor that is not contiguous is
// copied on its way to the kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "csrc/device.h"
#include "csrc/errors.h"
#include "csrc/shape_text.h"
#include "csrc/shapes.h"
#include "ms_extension/api.h"

namespace hyper_parallel {

// A tensor to check; one that is missing where it may be is right.
class CheckedTensor {
 public:
  // Converts on purpose, so that each check takes both.
  CheckedTensor(const ms::Tensor& tensor) : tensor_(&tensor) {}
  CheckedTensor(const std::optional<ms::Tensor>& tensor) : tensor_(tensor ? &*tensor : nullptr) {}

  bool is_given() const { return tensor_ != nullptr; }
  const ms::Tensor& operator*() const { return *tensor_; }
  const ms::Tensor* operator->() const { return tensor_; }

 private:
  const ms::Tensor* tensor_;
};

// The checks of one operator; `op` is its name, for the messages.
class ArgumentChecks {
 public:
  using Dtypes = std::initializer_list<ms::TypeId>;

  explicit ArgumentChecks(const char* op) : op_(op) {}

  // A tensor whose memory the kernel can reach.
  void Device(const char* name, CheckedTensor tensor) const {
    if (tensor.is_given() && !IsWithinReach(DeviceOf(*tensor))) {
      Fail(name, "be a tensor on " + ReachableDevice() + ", but got one on " + DeviceName(DeviceOf(*tensor)));
    }
  }

  // The same, with elements of one of these types.
  void Dtype(const char* name, CheckedTensor tensor, Dtypes allowed) const {
    Device(name, tensor);
    if (tensor.is_given() && !IsAmong(tensor->data_type(), allowed)) {
      FailDtype(name, *tensor, allowed);
    }
  }

  // The same for an argument that kernels on the host take as float32 and float64 as well.
  void FloatDtype(const char* name, CheckedTensor tensor, Dtypes allowed) const {
    Device(name, tensor);
    if (!tensor.is_given() || IsAmong(tensor->data_type(), allowed)) {
      return;
    }
#ifdef CUSTOM_ASCEND_OP
    FailDtype(name, *tensor, allowed);
#else
    constexpr ms::TypeId on_host[] = {ms::TypeId::kNumberTypeFloat32, ms::TypeId::kNumberTypeFloat64};
    if (!IsAmong(tensor->data_type(), on_host)) {
      std::vector<ms::TypeId> all(allowed);
      all.insert(all.end(), std::begin(on_host), std::end(on_host));
      FailDtype(name, *tensor, all);
    }
#endif
  }

  // As many dims as `expected` has, with its extents; kAny stands for one that is not known. `dims` names them.
  void Dims(const char* name, CheckedTensor tensor, const char* dims, std::initializer_list<int64_t> expected) const {
    if (tensor.is_given()) {
      CompareShape(name, tensor->shape(), dims, expected.begin(), expected.size());
    }
  }

  void Dims(const char* name, CheckedTensor tensor, const char* dims, const ShapeVector& expected) const {
    if (tensor.is_given()) {
      CompareShape(name, tensor->shape(), dims, expected.data(), expected.size());
    }
  }

  // A tensor that may have any number of dims besides the `least` ones that have names.
  void AnyRank(const char* name, CheckedTensor tensor, const char* dims, size_t least) const {
    if (tensor.is_given() && tensor->shape().size() < least) {
      const std::string wanted = "have at least " + std::to_string(least) + " dims (" + dims + ")";
      Fail(name, wanted + ", but got shape " + TupleText(tensor->shape()));
    }
  }

  // A tensor with the dims of another one, whatever these are.
  void SameShape(const char* name, CheckedTensor tensor, const char* model_name, const ms::Tensor& model) const {
    if (tensor.is_given() && tensor->shape() != model.shape()) {
      const std::string wanted = std::string("have the shape of ") + model_name + ", " + TupleText(model.shape());
      Fail(name, wanted + ", but got " + TupleText(tensor->shape()));
    }
  }

  // One extent that follows from others.
  void Extent(const char* name, size_t dim, const char* dim_name, int64_t given, int64_t expected) const {
    if (given != expected) {
      FailExtent(name, dim, dim_name, given, std::to_string(expected));
    }
  }

  // The extent of the dim that an attribute chooses; negative numbers count from the last. The tensor's first `before`
  // and last `after` dims have names of their own and cannot be chosen.
  int64_t Axis(
    const char* argument,
    int64_t axis,
    const char* name,
    const ms::Tensor& tensor,
    int64_t before = 0,
    int64_t after = 0
  ) const {
    const auto rank = static_cast<int64_t>(tensor.shape().size());
    const int64_t place = axis < 0 ? axis + rank : axis;
    if (place < before || place >= rank - after) {
      const std::string range = std::to_string(before - rank) + " to " + std::to_string(rank - after - 1);
      Fail(argument, "be from " + range + ", a dim of " + name + ", but got " + std::to_string(axis));
    }
    return tensor.shape()[static_cast<size_t>(place)];
  }

  // The shape of a tensor to allocate, where attributes or differences are among its extents.
  void NotNegative(const char* name, const ShapeVector& shape, const char* dims) const {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 0) {
        FailExtent(name, i, DimNames(dims, shape.size())[i], shape[i], "at least 0");
      }
    }
  }

  // Document ends on the device, which only the kernel reads: how many there are is all that can be checked.
  void DeviceLengths(const char* name, CheckedTensor ends, ms::TypeId dtype, size_t leading_zeros = 0) const {
    Dtype(name, ends, {dtype});
    if (!ends.is_given()) {
      return;
    }
    if (ends->shape().size() != 1) {
      Fail(name, "be cumulative document ends, of one dim, but got shape " + TupleText(ends->shape()));
    }
    if (leading_zeros > 0 && ends->shape()[0] < 2) {
      Fail(name, "start with 0 and hold at least one document end, but got shape " + TupleText(ends->shape()));
    }
  }

  // Cumulative document ends: they do not decrease and end at the extent of the packed dim.
  void DocumentEnds(
    const char* name,
    const std::vector<int64_t>& ends,
    const char* dim,
    int64_t extent,
    size_t leading_zeros = 0
  ) const {
    if (leading_zeros > 0 && (ends.size() < 2 || ends[0] != 0)) {
      Fail(name, "start with 0 and hold at least one document end, but got " + ListText(ends));
    }
    int64_t last = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] < last) {
        const std::string step = std::to_string(ends[i]) + " after " + std::to_string(last);
        Fail(name, "not decrease, but got " + step + " at index " + std::to_string(i) + ": " + ListText(ends));
      }
      last = ends[i];
    }
    if (ends.empty() || (extent != kAny && last != extent)) {
      const std::string end = std::string(dim) + " = " + std::to_string(extent);
      Fail(name, "end at " + end + ", the number of tokens, but got " + ListText(ends));
    }
  }

  void DocumentEnds(
    const char* name,
    const std::optional<std::vector<int64_t>>& ends,
    const char* dim,
    int64_t extent,
    size_t leading_zeros = 0
  ) const {
    if (ends.has_value()) {
      DocumentEnds(name, *ends, dim, extent, leading_zeros);
    }
  }

  // Two lists of ends that speak of the same documents; kAny stands for a list that is missing.
  void SameDocuments(const char* first, int64_t count, const char* second, int64_t other) const {
    if (count != kAny && other != kAny && count != other) {
      const std::string counts = std::to_string(count) + " and " + std::to_string(other);
      Fail((std::string(first) + " and " + second).c_str(), "have as many documents, but got " + counts);
    }
  }

  // Document ends in a format that does not have their dim.
  template <typename Ends>
  void Absent(const char* name, const std::optional<Ends>& ends, const char* dim, const char* format) const {
    if (ends.has_value()) {
      const std::string wanted = std::string("be None in format ") + format + ", which has no dim " + dim;
      Fail(name, wanted + ", but got " + EndsText(*ends));
    }
  }

  [[noreturn]] void UnknownFormat(const char* attribute, const std::string& value, const char* choices) const {
    Fail(attribute, std::string("be ") + choices + ", but got '" + value + "'");
  }

  [[noreturn]] void UnknownRank(const char* name, const ms::Tensor& tensor, const char* ranks) const {
    Fail(name, std::string("have ") + ranks + " dims, but got " + std::to_string(tensor.shape().size()));
  }

 private:
  template <typename T, typename Items>
  static bool IsAmong(const T& item, const Items& items) {
    return std::find(std::begin(items), std::end(items), item) != std::end(items);
  }

  static std::string EndsText(const std::vector<int64_t>& ends) { return TupleText(ends); }
  static std::string EndsText(const ms::Tensor& ends) { return "a tensor of shape " + TupleText(ends.shape()); }

  void CompareShape(
    const char* name,
    const ShapeVector& shape,
    const char* dims,
    const int64_t* expected,
    size_t rank
  ) const {
    if (shape.size() != rank) {
      const std::string names = "the " + std::to_string(rank) + " dims (" + CommaText(DimNames(dims, rank)) + ")";
      Fail(name, "have " + names + ", but got shape " + TupleText(shape));
    }
    for (size_t i = 0; i < rank; ++i) {
      if (expected[i] != kAny && shape[i] != expected[i]) {
        FailExtent(name, i, DimNames(dims, rank)[i], shape[i], std::to_string(expected[i]));
      }
    }
  }

  template <typename Types>
  [[noreturn]] void FailDtype(const char* name, const ms::Tensor& tensor, const Types& allowed) const {
    std::vector<std::string> names;
    for (const ms::TypeId type : allowed) {
      if (const std::string dtype = DtypeName(type); !IsAmong(dtype, names)) {
        names.push_back(dtype);
      }
    }
    const std::string given = DtypeName(tensor.data_type());
    ThrowTypeError(op_, std::string(name) + " should have dtype " + CommaText(names) + ", but got " + given);
  }

  [[noreturn]] void FailExtent(
    const char* name,
    size_t dim,
    const std::string& dim_name,
    int64_t given,
    const std::string& expected
  ) const {
    const std::string place = dim_name + " (dim " + std::to_string(dim) + ") of " + name;
    Fail(place.c_str(), "be " + expected + ", but got " + std::to_string(given));
  }

  [[noreturn]] void Fail(const char* subject, const std::string& problem) const {
    ThrowValueError(op_, std::string(subject) + " should " + problem);
  }

  const char* op_;
};

}  // namespace hyper_parallel
