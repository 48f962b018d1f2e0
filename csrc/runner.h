// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// What every generated operator shares: one runner per kernel call. A generated file names the kernel and lists its
// arguments once, in the kernel's order; which of them are inputs and which are outputs follows from their types.
//
//   argument of the kernel call        C++ type                              aclnn sees       host kernel sees
//   tensor                             ms::Tensor                            aclTensor*       cpu::TensorView
//   tensor that may be missing         std::optional<ms::Tensor>             null if missing  std::optional of it
//   tensor that the kernel writes      Output                                aclTensor*       cpu::TensorView
//   no tensor                          kNoTensor                             null             std::nullopt
//   lengths, missing means empty       EmptyIfMissing(lengths)               aclIntArray*     std::vector<int64_t>
//   lengths, missing means absent      std::optional<std::vector<int64_t>>   null if missing  the same
//   literal integers, no integers      std::vector<int64_t>{1, 2}, kNoInts   array, null      the same
//   string                             std::string                           const char*      std::string
//   number                             int64_t, int32_t, double, bool        the same         the same
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "csrc/argument_checks.h"
#include "csrc/arithmetic.h"
#include "csrc/errors.h"
#include "csrc/shapes.h"
#include "ms_extension/api.h"
#ifdef CUSTOM_ASCEND_OP
#include "csrc/aclnn_prototypes.h"
#else
#include "csrc/cpu/tensor_view.h"
#endif

namespace hyper_parallel {

// A tensor that the kernel writes: allocated by the framework before the launch. A missing one is a null tensor.
template <typename T>
struct Output {
  static_assert(std::is_same_v<T, ms::Tensor> || std::is_same_v<T, std::optional<ms::Tensor>>);
  explicit Output(const T& written) : tensor(written) {}
  T tensor;
};

// Typed, because an undefined ms::Tensor fails in the launch and nullptr carries no kind.
inline const std::optional<ms::Tensor> kNoTensor = std::nullopt;
inline const std::optional<std::vector<int64_t>> kNoInts = std::nullopt;

// Some kernels take a missing length as an empty array and read a null one as an error.
inline std::vector<int64_t> EmptyIfMissing(const std::optional<std::vector<int64_t>>& lengths) {
  return lengths.value_or(std::vector<int64_t>{});
}

namespace detail {

inline void CollectInput(const ms::Tensor& tensor, std::vector<ms::Tensor>* inputs) {
  inputs->push_back(tensor);
}

inline void CollectInput(const std::optional<ms::Tensor>& tensor, std::vector<ms::Tensor>* inputs) {
  if (tensor.has_value()) {
    inputs->push_back(*tensor);
  }
}

template <typename T>
void CollectInput(const T&, std::vector<ms::Tensor>*) {}

template <typename T>
void CollectOutput(const Output<T>& output, std::vector<ms::Tensor>* outputs) {
  CollectInput(output.tensor, outputs);
}

template <typename T>
void CollectOutput(const T&, std::vector<ms::Tensor>*) {}

// An argument as it goes to the kernel. The framework passes views on as they are; host kernels read plain memory, and
// not every aclnn kernel takes strides.
inline ms::Tensor Prepared(const ms::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : tensor.contiguous();
}

inline std::optional<ms::Tensor> Prepared(const std::optional<ms::Tensor>& tensor) {
  return tensor.has_value() ? std::optional<ms::Tensor>(Prepared(*tensor)) : std::nullopt;
}

template <typename T>
const T& Prepared(const T& argument) {
  static_assert(!std::is_pointer_v<T> && !std::is_array_v<T>, "pass a string as std::string, no tensor as kNoTensor");
  return argument;
}

template <typename T>
const T& WithoutOutput(const Output<T>& output) {
  return output.tensor;
}

template <typename T>
const T& WithoutOutput(const T& argument) {
  return argument;
}

template <typename... Args>
std::vector<ms::Tensor> InputsOf(const Args&... args) {
  std::vector<ms::Tensor> inputs;
  (CollectInput(args, &inputs), ...);
  return inputs;
}

template <typename... Args>
std::vector<ms::Tensor> OutputsOf(const Args&... args) {
  std::vector<ms::Tensor> outputs;
  (CollectOutput(args, &outputs), ...);
  return outputs;
}

}  // namespace detail

#ifdef CUSTOM_ASCEND_OP

// The aclnn function of that name, to be bound to arguments. Those are checked if it has an HP_ACLNN_PROTOTYPE.
#define HP_ACLNN_KERNEL(aclnn_name)                                                                                  \
  [](const auto&... arguments) {                                                                                     \
    using Prototype = decltype(AclnnPrototype(static_cast<const struct aclnn_name##Prototype*>(nullptr)));           \
    [](auto first_wrong) {                                                                                           \
      static_assert(                                                                                                 \
        decltype(first_wrong)::kIsRight,                                                                             \
        #aclnn_name                                                                                                  \
        " should get the arguments of its prototype in their order, each by its own type: see "                      \
        "WrongArgument<position, from 0; type in the call; type in the prototype>, and "                             \
        "docs/kernels.md#prototypes-of-aclnn-kernels. If the toolkit's header is wrong: "                            \
        "HYPER_PARALLEL_CXXFLAGS=-DHP_NO_ACLNN_PROTOTYPES"                                                           \
      );                                                                                                             \
    }(typename ::hyper_parallel::detail::AgainstPrototype<Prototype, std::decay_t<decltype(arguments)>...>::type()); \
    return LAUNCH_ACLNN_FUNC(aclnn_name, arguments...);                                                              \
  }

namespace detail {

// What CANN says of the last failure in this thread.
inline std::string CannError() {
  const char* const text = CALL_ASCEND_API(aclGetRecentErrMsg);
  return text == nullptr ? "" : text;
}

}  // namespace detail

class OperatorRunner : public ms::pynative::PyboostRunner {
 public:
  using PyboostRunner::PyboostRunner;

  // Runs an aclnn kernel straight from the device queue, without a LaunchKernel per operator and the detour over the
  // launch queue. Call it once per runner.
  template <typename Kernel, typename... Args>
  void RunAclnnDirect(const Kernel& kernel, const Args&... args) {
    Launch(kernel, detail::Prepared(args)...);
  }

  // The launch happens in _DispatchLaunchTask; the framework only demands that this exists.
  void LaunchKernel() override {}

 protected:
  // Where a kernel refuses its arguments, the framework says so, and not what CANN says is wrong.
  void _DispatchLaunchTask() override {
    try {
      launch_(_device_context_, _stream_id_);
    } catch (const std::exception& error) {
      const std::string reason = detail::CannError();
      if (reason.empty()) {
        throw;
      }
      MS_EXCEPTION(mindspore::RuntimeError) << "For " << op_name() << ", CANN says: " << reason << "\n"
                                            << error.what();
    }
  }

 private:
  template <typename Kernel, typename... Args>
  void Launch(const Kernel& kernel, const Args&... args) {
    launch_ = kernel(detail::WithoutOutput(args)...);
    Run(detail::InputsOf(args...), detail::OutputsOf(args...));
  }

  std::function<void(mindspore::device::DeviceContext*, size_t)> launch_;
};

#else

// The host kernel of that name, to be bound to arguments. A parameter of another type would be taken with what C++
// converts it to: an integer of a double, say.
#define HP_CPU_KERNEL(function)                                                                                        \
  [](const auto&... arguments) {                                                                                       \
    static_assert(                                                                                                     \
      ::hyper_parallel::detail::Takes<decltype(&function), std::decay_t<decltype(arguments)>...>::value,               \
      #function " should take the arguments of the kernel call in their order, each by its own type (docs/kernels.md)" \
    );                                                                                                                 \
    function(arguments...);                                                                                            \
  }

namespace detail {

// A parameter is for an argument of its own type, or for one that may be missing.
template <typename Parameter, typename Argument>
inline constexpr bool kIsFor =
  std::is_same_v<std::decay_t<Parameter>, Argument> || std::is_same_v<std::decay_t<Parameter>, std::optional<Argument>>;

template <typename Kernel, typename... Arguments>
struct Takes : std::false_type {};

template <typename... Parameters, typename... Arguments>
struct Takes<void (*)(Parameters...), Arguments...> {
  static constexpr bool Each() {
    if constexpr (sizeof...(Parameters) == sizeof...(Arguments)) {
      return (kIsFor<Parameters, Arguments> && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = Each();
};

inline cpu::DType HostDType(ms::TypeId type) {
  switch (type) {
    case ms::TypeId::kNumberTypeBool:
      return cpu::DType::kBool;
    case ms::TypeId::kNumberTypeInt32:
      return cpu::DType::kInt32;
    case ms::TypeId::kNumberTypeInt64:
      return cpu::DType::kInt64;
    case ms::TypeId::kNumberTypeFloat16:
      return cpu::DType::kFloat16;
    case ms::TypeId::kNumberTypeBFloat16:
      return cpu::DType::kBFloat16;
    case ms::TypeId::kNumberTypeFloat32:
      return cpu::DType::kFloat32;
    case ms::TypeId::kNumberTypeFloat64:
      return cpu::DType::kFloat64;
    default:
      throw std::invalid_argument(
        "host kernels have no element type for type id " + std::to_string(static_cast<int>(type))
      );
  }
}

inline cpu::TensorView HostArgument(const ms::Tensor& tensor) {
  return {tensor.GetDataPtr(), HostDType(tensor.data_type()), tensor.shape()};
}

inline std::optional<cpu::TensorView> HostArgument(const std::optional<ms::Tensor>& tensor) {
  return tensor.has_value() ? std::optional<cpu::TensorView>(HostArgument(*tensor)) : std::nullopt;
}

template <typename T>
const T& HostArgument(const T& argument) {
  return argument;
}

}  // namespace detail

class OperatorRunner : public ms::pynative::PyboostRunner {
 public:
  using PyboostRunner::PyboostRunner;

  // For an operator that has no host kernel.
  template <typename... Args>
  [[noreturn]] void RefuseHostLaunch(const std::string& kernel, const Args&...) {
    MS_EXCEPTION(mindspore::RuntimeError) << op_name() << " has no kernel for the CPU, only " << kernel << " for Ascend.";
  }

  // Runs a kernel of csrc/cpu. Call it once per runner.
  template <typename Kernel, typename... Args>
  void RunCpuDirect(const Kernel& kernel, const Args&... args) {
    Launch(kernel, detail::Prepared(args)...);
  }

  void LaunchKernel() override {
    try {
      launch_();
    } catch (const std::invalid_argument& error) {
      ThrowValueError(op_name(), error.what());
    }
  }

 protected:
  // By default the launch goes to a thread of its own, which native operators do not wait for: they then read memory
  // that is not written yet.
  void _DispatchLaunchTask() override { LaunchKernel(); }

 private:
  // Pointers are taken at the launch: before, memory is not allocated.
  template <typename Kernel, typename... Args>
  void Launch(const Kernel& kernel, const Args&... args) {
    launch_ = [kernel, call = std::make_tuple(detail::WithoutOutput(args)...)]() {
      std::apply([&kernel](const auto&... bound) { kernel(detail::HostArgument(bound)...); }, call);
    };
    Run(detail::InputsOf(args...), detail::OutputsOf(args...));
  }

  std::function<void()> launch_;
};

#endif  // CUSTOM_ASCEND_OP

}  // namespace hyper_parallel
