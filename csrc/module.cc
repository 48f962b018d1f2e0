// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
#include "csrc/module.h"

// MS_EXTENSION_NAME is given on the command line; the extra macro expands it before PYBIND11_MODULE pastes it.
#define HP_MODULE(name, module) PYBIND11_MODULE(name, module)

HP_MODULE(MS_EXTENSION_NAME, module) {
  for (const auto define : hyper_parallel::RegisteredOperators()) {
    define(module);
  }
}
