// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors in host memory that know where they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
  kNumberTypeUInt8,
  kNumberTypeInt32,
  kNumberTypeInt64,
  kNumberTypeFloat16,
  kNumberTypeBFloat16,
  kNumberTypeFloat32,
  kNumberTypeFloat64,
};
enum ExceptionType {
  ValueError,
  TypeError,
  RuntimeError,
};
namespace device {
class DeviceContext;
enum class DeviceType {
  kUnknown,
  kCPU,
  kAscend,
  kGPU,
  kMeta,
};
}  // namespace device
}  // namespace mindspore

namespace recording {

struct Message {
  std::ostringstream text;
  template <typename T>
  Message& operator<<(const T& value) {
    text << value;
    return *this;
  }
};

struct Raise {
  const char* type;
  [[noreturn]] void operator^(const Message& message) const {
    throw std::runtime_error(std::string(type) + ": " + message.text.str());
  }
};

struct ElementType {
  mindspore::TypeId id;
  const char* name;
  size_t size;
};

constexpr ElementType kElementTypes[] = {
  {mindspore::kNumberTypeBool, "bool", 1},
  {mindspore::kNumberTypeInt8, "int8", 1},
  {mindspore::kNumberTypeInt16, "int16", 2},
  {mindspore::kNumberTypeUInt8, "uint8", 1},
  {mindspore::kNumberTypeInt32, "int32", 4},
  {mindspore::kNumberTypeInt64, "int64", 8},
  {mindspore::kNumberTypeFloat16, "float16", 2},
  {mindspore::kNumberTypeBFloat16, "bfloat16", 2},
  {mindspore::kNumberTypeFloat32, "float32", 4},
  {mindspore::kNumberTypeFloat64, "float64", 8},
};

inline const ElementType& FindElementType(mindspore::TypeId id) {
  for (const ElementType& type : kElementTypes) {
    if (type.id == id) {
      return type;
    }
  }
  throw std::runtime_error("unknown type id " + std::to_string(static_cast<int>(id)));
}

inline const ElementType& FindElementType(const std::string& name) {
  for (const ElementType& type : kElementTypes) {
    if (name == type.name) {
      return type;
    }
  }
  throw std::runtime_error("unknown element type " + name);
}

inline std::string ListText(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return text + "]";
}

struct TensorState {
  mindspore::TypeId type;
  ShapeVector shape;
  std::string origin;  // "input 3", "reshape(input 3)"; empty for a tensor that the operator made
  bool contiguous = true;
  bool allocated = false;
  mindspore::device::DeviceType device = mindspore::device::DeviceType::kCPU;
  std::shared_ptr<std::vector<unsigned char>> memory = std::make_shared<std::vector<unsigned char>>();

  size_t numel() const {
    size_t count = 1;
    for (const int64_t extent : shape) {
      count *= static_cast<size_t>(extent);
    }
    return count;
  }
  mindspore::device::DeviceType device_type() const { return device; }
  const void* device_address() const { return allocated ? memory->data() : nullptr; }
  size_t bytes() const { return numel() * FindElementType(type).size; }

  void Allocate() {
    // Filled with ones, so that an element that no kernel writes shows up as NaN or -1.
    memory->assign(bytes(), 0xFF);
    allocated = true;
  }

  std::string Describe() const {
    return std::string(FindElementType(type).name) + " " + ListText(shape);
  }
};

}  // namespace recording

namespace ms {

using TypeId = mindspore::TypeId;

class Tensor {
 public:
  Tensor() = default;
  Tensor(TypeId type, const ShapeVector& shape) : state_(std::make_shared<recording::TensorState>()) {
    for (const int64_t extent : shape) {
      if (extent < 0) {
        throw std::runtime_error("a tensor cannot have shape " + recording::ListText(shape));
      }
    }
    state_->type = type;
    state_->shape = shape;
  }

  bool is_defined() const { return state_ != nullptr; }
  TypeId data_type() const { return state().type; }
  const ShapeVector& shape() const { return state().shape; }
  size_t numel() const { return state().numel(); }
  bool is_contiguous() const { return state().contiguous; }
  const std::shared_ptr<recording::TensorState>& tensor() const { return state_; }

  void* GetDataPtr() const {
    if (!state().allocated) {
      throw std::runtime_error("memory is asked for before it is allocated");
    }
    return state().memory->data();
  }

  Tensor contiguous() const {
    Tensor copy = Copy();
    copy.state().contiguous = true;
    return copy;
  }

  Tensor reshape(const std::vector<int64_t>& shape) const {
    Tensor copy = Copy();
    copy.state().shape = shape;
    copy.state().origin = "reshape(" + state().origin + ")";
    if (copy.numel() != numel()) {
      throw std::runtime_error("cannot reshape " + state().Describe() + " to " + recording::ListText(shape));
    }
    return copy;
  }

  recording::TensorState& state() const {
    if (state_ == nullptr) {
      throw std::runtime_error("an undefined tensor is used");
    }
    return *state_;
  }

 private:
  Tensor Copy() const {
    Tensor copy;
    copy.state_ = std::make_shared<recording::TensorState>(state());
    return copy;
  }

  std::shared_ptr<recording::TensorState> state_;
};

}  // namespace ms

#define MS_EXCEPTION(type) ::recording::Raise{#type} ^ ::recording::Message()
