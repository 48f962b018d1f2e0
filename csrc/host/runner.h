// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// MindSpore's runner, for kernels that run at once on the memory of arrays.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "csrc/host/tensor.h"

namespace ms::pynative {

class PyboostRunner {
 public:
  explicit PyboostRunner(const std::string& op_name) : op_name_(op_name) {}
  virtual ~PyboostRunner() = default;

  void Run(const std::vector<Tensor>& /*inputs*/, const std::vector<Tensor>& outputs) {
    for (const Tensor& output : outputs) {
      output.Allocate();
    }
    const pybind11::gil_scoped_release released;  // a kernel touches no Python object
    _DispatchLaunchTask();
  }

  virtual void LaunchKernel() = 0;

  const std::string& op_name() const { return op_name_; }

 protected:
  virtual void _DispatchLaunchTask() { LaunchKernel(); }

 private:
  std::string op_name_;
};

}  // namespace ms::pynative
