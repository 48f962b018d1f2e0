// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The extension module: operators by name, called with arguments described in words.
//
//   tensor:<dtype>:<extents>          tensor:bfloat16:2,4,8,128    (no extents: a scalar)
//   tensor:<dtype>:<extents>@<file>   the same, with the file's bytes as contents
//   view:<dtype>:<extents>            a tensor that is not contiguous
//   ascend:<dtype>:<extents>          a tensor on an NPU; likewise gpu and meta
//   none                              a missing optional argument
//   lengths:<integers>                lengths:3,7
//   int:<n>  float:<x>  bool:true  bool:false  str:<text>
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor.h"

namespace recording {

struct Description {
  size_t position;
  std::string kind;
  std::string value;
};

inline Description Describe(size_t position, const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    return {position, text, ""};
  }
  return {position, text.substr(0, colon), text.substr(colon + 1)};
}

[[noreturn]] inline void Mismatch(const Description& given, const char* expected) {
  throw std::runtime_error(
    "argument " + std::to_string(given.position) + " is " + expected + " in C++, but '" + given.kind + "' is given"
  );
}

inline const std::string& ValueOf(const Description& given, const char* kind) {
  if (given.kind != kind) {
    Mismatch(given, kind);
  }
  return given.value;
}

inline std::vector<int64_t> Integers(const std::string& text) {
  std::vector<int64_t> values;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(',', begin);
    end = end == std::string::npos ? text.size() : end;
    values.push_back(std::stoll(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return values;
}

inline void ReadContents(const std::string& path, TensorState* state) {
  std::ifstream file(path, std::ios::binary);
  std::vector<unsigned char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() != state->bytes()) {
    throw std::runtime_error(
      path + " has " + std::to_string(bytes.size()) + " bytes, but " + state->Describe() + " needs " +
      std::to_string(state->bytes())
    );
  }
  *state->memory = std::move(bytes);
}

// The kinds of tensors, by where their memory is.
inline const std::map<std::string, mindspore::device::DeviceType>& TensorKinds() {
  using mindspore::device::DeviceType;
  static const std::map<std::string, DeviceType> kinds = {
    {"tensor", DeviceType::kCPU},
    {"view", DeviceType::kCPU},
    {"ascend", DeviceType::kAscend},
    {"gpu", DeviceType::kGPU},
    {"meta", DeviceType::kMeta},
  };
  return kinds;
}

inline ms::Tensor ParseTensor(const Description& given) {
  const auto kind = TensorKinds().find(given.kind);
  if (kind == TensorKinds().end()) {
    Mismatch(given, "a tensor");
  }
  const size_t colon = given.value.find(':');
  const size_t at = given.value.find('@');
  const std::string dtype = given.value.substr(0, colon);
  const std::string extents = colon == std::string::npos ? "" : given.value.substr(colon + 1, at - colon - 1);
  const ms::Tensor tensor(FindElementType(dtype).id, Integers(extents));
  TensorState& state = tensor.state();
  state.Allocate();
  state.contiguous = given.kind != "view";
  state.device = kind->second;
  state.origin = "input " + std::to_string(given.position);
  if (at != std::string::npos) {
    ReadContents(given.value.substr(at + 1), &state);
  }
  return tensor;
}

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
T Parse(const Description& given) {
  if constexpr (IsOptional<T>::value) {
    return given.kind == "none" ? T() : T(Parse<typename T::value_type>(given));
  } else if constexpr (std::is_same_v<T, ms::Tensor>) {
    return ParseTensor(given);
  } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
    return Integers(ValueOf(given, "lengths"));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return ValueOf(given, "str");
  } else if constexpr (std::is_same_v<T, bool>) {
    return ValueOf(given, "bool") == "true";
  } else if constexpr (std::is_same_v<T, double>) {
    return std::stod(ValueOf(given, "float"));
  } else {
    static_assert(std::is_same_v<T, int64_t>, "not the C++ type of any argument that a spec can declare");
    return std::stoll(ValueOf(given, "int"));
  }
}

using Operator = std::function<std::vector<ms::Tensor>(const std::vector<std::string>&)>;

template <typename Launch, typename... Args, size_t... I>
std::vector<ms::Tensor> Invoke(
  Launch (*function)(Args...),
  const std::vector<std::string>& descriptions,
  std::index_sequence<I...>
) {
  return function(Parse<std::decay_t<Args>>(Describe(I, descriptions[I]))...)();
}

template <size_t outputs, typename Launch, typename... Args>
Operator MakeOperator(Launch (*function)(Args...)) {
  return [function](const std::vector<std::string>& descriptions) {
    if (descriptions.size() != sizeof...(Args)) {
      throw std::runtime_error(
        "the operator has " + std::to_string(sizeof...(Args)) + " arguments in C++, but " +
        std::to_string(descriptions.size()) + " are given"
      );
    }
    std::vector<ms::Tensor> results = Invoke(function, descriptions, std::index_sequence_for<Args...>());
    if (results.size() != outputs) {
      throw std::runtime_error(
        "the operator is registered with " + std::to_string(outputs) + " outputs, but returns " +
        std::to_string(results.size())
      );
    }
    return results;
  };
}

}  // namespace recording

namespace pybind11 {

class module_ {
 public:
  void def(const char* name, recording::Operator op) {
    if (!operators.emplace(name, std::move(op)).second) {
      throw std::runtime_error(std::string(name) + " is registered twice");
    }
  }
  std::map<std::string, recording::Operator> operators;
};

}  // namespace pybind11

#define HP_CALLER(outputs, function) (::recording::MakeOperator<outputs>(&function))
#define PYBIND11_MODULE(name, variable) void DefineRecordedModule(::pybind11::module_& variable)
