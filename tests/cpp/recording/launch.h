// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Runners and kernel launches, written down in the order in which they happen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor.h"

namespace recording {

// One argument of a launch. A tensor is named once the operator has returned: only then is it known which of the
// tensors that it made are outputs and which are temporaries.
struct Argument {
  std::string text;
  std::optional<ms::Tensor> tensor;
};

struct Launch {
  std::string kernel;
  std::vector<Argument> arguments;
};

inline std::vector<Launch>& Launches() {
  static std::vector<Launch> launches;
  return launches;
}

// The framework launches from another thread, after the operator's function has returned; so does this.
inline std::vector<std::function<void()>>& Pending() {
  static std::vector<std::function<void()>> tasks;
  return tasks;
}

inline Argument Record(const ms::Tensor& tensor) {
  if (!tensor.state().allocated) {
    throw std::runtime_error("a kernel gets " + tensor.state().Describe() + ", which was not given to Run");
  }
  return {"", tensor};
}

inline Argument Record(const std::optional<ms::Tensor>& tensor) {
  return tensor.has_value() ? Record(*tensor) : Argument{"null tensor", std::nullopt};
}

inline Argument Record(const std::vector<int64_t>& values) {
  return {"ints " + ListText(values), std::nullopt};
}

inline Argument Record(const std::optional<std::vector<int64_t>>& values) {
  return values.has_value() ? Record(*values) : Argument{"null ints", std::nullopt};
}

inline Argument Record(const std::string& text) {
  return {"str " + text, std::nullopt};
}
inline Argument Record(bool value) {
  return {value ? "bool true" : "bool false", std::nullopt};
}
inline Argument Record(int32_t value) {
  return {"int32 " + std::to_string(value), std::nullopt};
}
inline Argument Record(int64_t value) {
  return {"int64 " + std::to_string(value), std::nullopt};
}

inline Argument Record(double value) {
  std::ostringstream text;
  text.precision(17);
  text << "double " << value;
  return {text.str(), std::nullopt};
}

inline Argument Record(ms::TypeId type) {
  return {std::string("dtype ") + FindElementType(type).name, std::nullopt};
}

// Any other type has no meaning for a kernel; a float or an unsigned would pass the framework unnoticed.
template <typename T>
Argument Record(const T&) = delete;

// The closure that the framework's macro of the same purpose makes: arguments are copied now, used later.
template <typename... Args>
std::function<void(mindspore::device::DeviceContext*, size_t)> BindLaunch(const char* kernel, const Args&... args) {
  return [kernel, bound = std::make_tuple(args...)](mindspore::device::DeviceContext*, size_t) {
    Launch launch{kernel, {}};
    std::apply([&launch](const auto&... each) { (launch.arguments.push_back(Record(each)), ...); }, bound);
    Launches().push_back(std::move(launch));
  };
}

}  // namespace recording

#define LAUNCH_ACLNN_FUNC(aclnn_api, ...) ::recording::BindLaunch(#aclnn_api, __VA_ARGS__)

// Nothing is launched, so that CANN has nothing to say.
#define CALL_ASCEND_API(function) nullptr

namespace ms::pynative {

class PyboostRunner : public std::enable_shared_from_this<PyboostRunner> {
 public:
  explicit PyboostRunner(const std::string& op_name) : _op_name_(op_name) {}
  virtual ~PyboostRunner() = default;

  void Run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    _inputs_ = inputs;
    _outputs_ = outputs;
    for (const Tensor& input : inputs) {
      input.state();
    }
    for (const Tensor& output : outputs) {
      output.state().Allocate();
    }
    recording::Pending().push_back([runner = shared_from_this()]() { runner->_DispatchLaunchTask(); });
  }

  virtual void LaunchKernel() = 0;

  const std::string& op_name() const { return _op_name_; }
  const std::vector<Tensor>& inputs() const { return _inputs_; }
  const std::vector<Tensor>& outputs() const { return _outputs_; }

 protected:
  virtual void _DispatchLaunchTask() { LaunchKernel(); }

  std::string _op_name_;
  std::vector<Tensor> _inputs_;
  std::vector<Tensor> _outputs_;
  size_t _stream_id_ = 0;
  mindspore::device::DeviceContext* _device_context_ = nullptr;
};

}  // namespace ms::pynative
