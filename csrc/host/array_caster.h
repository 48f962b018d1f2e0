// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// NumPy arrays as ms::Tensor and back, on the same memory.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <vector>

#include "csrc/host/tensor.h"

namespace pybind11::detail {

template <>
struct type_caster<ms::Tensor> {
  PYBIND11_TYPE_CASTER(ms::Tensor, const_name("numpy.ndarray"));

  // Nothing is converted: a list is no tensor.
  bool load(handle source, bool /*convert*/) {
    if (!isinstance<array>(source)) {
      return false;
    }
    value = ms::Tensor(reinterpret_borrow<array>(source));
    return true;
  }

  static handle cast(const ms::Tensor& tensor, return_value_policy /*policy*/, handle /*parent*/) {
    return tensor.is_allocated() ? pybind11::array(tensor.array()).release() : none().release();  // missing, as its input is
  }
};

}  // namespace pybind11::detail

namespace hyper_parallel::host {

// An operator that returns its outputs as a tuple.
template <size_t outputs, typename Launch, typename... Args>
auto Caller(Launch (*function)(Args...)) {
  return [function](Args... args) {
    const std::vector<ms::Tensor> results = function(args...)();
    pybind11::tuple made(outputs);
    for (size_t i = 0; i < outputs; ++i) {
      made[i] = results.at(i);
    }
    return made;
  };
}

}  // namespace hyper_parallel::host

#define HP_CALLER(outputs, function) (::hyper_parallel::host::Caller<outputs>(&function))
