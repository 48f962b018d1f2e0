// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// How Python calls an operator: HP_CALLER(outputs, function).
//
// The function gets the arguments, checks them and gives back what is left to do: allocate, launch, return the outputs.
// MindSpore queues that for another thread, and an error there reaches Python at some later operation. So the function
// itself runs before anything is queued, and its errors are raised by the call that is wrong.
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ms_extension/api.h"

// Stand-ins for MindSpore, whose operators run at once, have a macro of their own.
#ifndef HP_CALLER

namespace hyper_parallel {

// Whether MindSpore hands a call to Python first, such as to a subclass of Tensor.
inline bool IsRouted(const pybind11::args& args) {
  if (mindspore::pynative::fallback_enabled()) {
    if (ms::pynative::CustomGetFallbackFromPyObjectOrSequence(args.ptr()).ptr() != nullptr) {
      return true;
    }
  }
  if (!mindspore::pynative::ms_dispatch_enabled()) {
    return false;
  }
  const auto [handler, is_guard] = mindspore::pynative::GetDispatchCallbackFromInput(args);
  return is_guard || !handler.is_none();
}

template <auto function>
struct Caller;

template <typename Launch, typename... Args, Launch (*function)(Args...)>
struct Caller<function> {
  using Arguments = std::tuple<std::decay_t<Args>...>;

  // All at once, in the queue: how a call goes on that Python was asked about first.
  static std::vector<ms::Tensor> CheckAndLaunch(Args... args) { return function(args...)(); }

  template <int outputs>
  static pybind11::object Call(const std::string& name, const pybind11::args& args) {
    if (args.size() != sizeof...(Args) || IsRouted(args)) {
      return ms::pynative::PyboostArgsCaller<outputs>(&CheckAndLaunch, name, args);
    }
    const Arguments given = Cast(args, std::index_sequence_for<Args...>());
    {
      // Shapes of what other operators still compute are waited for; they may need the interpreter.
      const pybind11::gil_scoped_release released;
      std::apply([](const auto&... each) { ms::inner::ConvertStubNodeToTensor(each...); }, given);
    }
    return ms::pynative::PyboostRunner::Call<outputs>(name, std::apply(function, given));
  }

 private:
  template <size_t... I>
  static Arguments Cast(const pybind11::args& args, std::index_sequence<I...>) {
    return Arguments(args[I].template cast<std::decay_t<Args>>()...);
  }
};

}  // namespace hyper_parallel

#define HP_CALLER(outputs, function)                                            \
  ([](const pybind11::args& args) {                                             \
    return ::hyper_parallel::Caller<&function>::Call<outputs>(#function, args); \
  })

#endif  // HP_CALLER
