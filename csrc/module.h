// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The extension module. Operators add themselves to it, so a build takes any set of generated .cc files, compiled one
// by one or included into a single translation unit, without a list to maintain.
#pragma once

#include <vector>

#include "csrc/caller.h"
#include "ms_extension/api.h"

namespace hyper_parallel {

using DefineOperator = void (*)(pybind11::module_&);

// A function-local static: registrations run during static initialisation, in an order nobody controls.
inline std::vector<DefineOperator>& RegisteredOperators() {
  static std::vector<DefineOperator> operators;
  return operators;
}

struct OperatorRegistration {
  explicit OperatorRegistration(DefineOperator define) { RegisteredOperators().push_back(define); }
};

}  // namespace hyper_parallel

// HP_OPERATOR(op, m) { m.def("op", HP_CALLER(2, op)); } at namespace scope. The name keeps the registrations of
// several operators in one translation unit apart.
#define HP_OPERATOR(name, module)                                                          \
  static void Define_##name(pybind11::module_& module);                                    \
  static const ::hyper_parallel::OperatorRegistration Registration_##name(&Define_##name); \
  static void Define_##name(pybind11::module_& module)
