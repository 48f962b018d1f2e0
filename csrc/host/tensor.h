// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// ms::Tensor on the memory of NumPy arrays: as much of it as generated operators and csrc/ use.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using ShapeVector = std::vector<int64_t>;

namespace mindspore {

enum TypeId {
  kNumberTypeBool,
  kNumberTypeInt8,
  kNumberTypeInt16,
  kNumberTypeInt32,
  kNumberTypeInt64,
  kNumberTypeUInt8,
  kNumberTypeFloat16,
  kNumberTypeBFloat16,
  kNumberTypeFloat32,
  kNumberTypeFloat64,
};

namespace device {
enum class DeviceType {
  kUnknown,
  kCPU,
  kAscend,
  kGPU,
  kMeta,
};
}  // namespace device

using ValueError = pybind11::value_error;
using TypeError = pybind11::type_error;
using RuntimeError = std::runtime_error;

}  // namespace mindspore

namespace hyper_parallel::host {

struct Message {
  std::ostringstream text;
  template <typename T>
  Message& operator<<(const T& value) {
    text << value;
    return *this;
  }
};

template <typename Error>
struct Raise {
  [[noreturn]] void operator^(const Message& message) const { throw Error(message.text.str()); }
};

}  // namespace hyper_parallel::host

// MS_EXCEPTION(mindspore::ValueError) << "expected " << 3;
#define MS_EXCEPTION(type) ::hyper_parallel::host::Raise<type>() ^ ::hyper_parallel::host::Message()

namespace hyper_parallel::host {

struct ElementType {
  mindspore::TypeId id;
  const char* name;  // NumPy's
};

constexpr ElementType kElementTypes[] = {
  {mindspore::kNumberTypeBool, "bool"},
  {mindspore::kNumberTypeInt8, "int8"},
  {mindspore::kNumberTypeInt16, "int16"},
  {mindspore::kNumberTypeInt32, "int32"},
  {mindspore::kNumberTypeInt64, "int64"},
  {mindspore::kNumberTypeUInt8, "uint8"},
  {mindspore::kNumberTypeFloat16, "float16"},
  {mindspore::kNumberTypeBFloat16, "bfloat16"},
  {mindspore::kNumberTypeFloat32, "float32"},
  {mindspore::kNumberTypeFloat64, "float64"},
};

// NumPy's description of an element type. Kept for ever: destroyed with the process they would need the interpreter.
inline const pybind11::dtype& DtypeOf(mindspore::TypeId id) {
  static const auto* known = [] {
    auto* made = new std::vector<pybind11::dtype>();
    const pybind11::object bfloat16 = pybind11::module_::import("ml_dtypes").attr("bfloat16");
    for (const ElementType& type : kElementTypes) {
      const bool is_own = type.id == mindspore::kNumberTypeBFloat16;
      made->push_back(is_own ? pybind11::dtype::from_args(bfloat16) : pybind11::dtype(type.name));
    }
    return made;
  }();
  return known->at(static_cast<size_t>(id));
}

inline mindspore::TypeId TypeOf(const pybind11::array& array) {
  const pybind11::dtype given = array.dtype();
  for (const ElementType& type : kElementTypes) {
    if (DtypeOf(type.id).num() == given.num() && given.byteorder() != '>') {
      return type.id;
    }
  }
  throw pybind11::type_error("kernels do not take arrays of " + std::string(pybind11::str(given)));
}

}  // namespace hyper_parallel::host

namespace ms {

using TypeId = mindspore::TypeId;

// A handle, like MindSpore's: copies share the array. One made of type and shape gets its memory when it is written.
class Tensor {
 public:
  Tensor() = default;
  Tensor(TypeId type, const ShapeVector& shape) : state_(std::make_shared<State>(State{type, shape, std::nullopt})) {}
  explicit Tensor(const pybind11::array& array)
      : state_(std::make_shared<State>(State{
          hyper_parallel::host::TypeOf(array),
          ShapeVector(array.shape(), array.shape() + array.ndim()),
          array,
        })) {}

  TypeId data_type() const { return state().type; }
  const ShapeVector& shape() const { return state().shape; }
  bool is_allocated() const { return state().array.has_value(); }
  bool is_contiguous() const { return (array().flags() & pybind11::array::c_style) != 0; }
  void* GetDataPtr() const { return const_cast<void*>(array().data()); }
  Tensor contiguous() const { return Tensor(pybind11::array::ensure(array(), pybind11::array::c_style)); }
  Tensor reshape(const ShapeVector& shape) const { return Tensor(pybind11::array(contiguous().array()).reshape(shape)); }

  // By reference: kernels ask for the memory without holding the interpreter's lock.
  const pybind11::array& array() const {
    if (!is_allocated()) {
      throw std::runtime_error("a tensor is read that nothing has written");
    }
    return *state().array;
  }

  // MindSpore's tensor behind the handle, of which only the place of its memory is asked.
  const auto& tensor() const { return state_; }

  void Allocate() const { state().array.emplace(hyper_parallel::host::DtypeOf(state().type), state().shape); }

 private:
  struct State {
    TypeId type;
    ShapeVector shape;
    std::optional<pybind11::array> array;

    const pybind11::array* device_address() const { return array.has_value() ? &*array : nullptr; }
    mindspore::device::DeviceType device_type() const { return mindspore::device::DeviceType::kCPU; }
  };

  State& state() const {
    if (state_ == nullptr) {
      throw std::runtime_error("an undefined tensor is used");
    }
    return *state_;
  }

  std::shared_ptr<State> state_;
};

}  // namespace ms
