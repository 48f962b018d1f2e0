// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors that reach Python with the right type and a message that names the operator.
#pragma once

#include <string>

#include "ms_extension/api.h"

namespace hyper_parallel {

// Becomes a ValueError in Python, like what the generated Python raises. An exception of the standard library would
// arrive as "Unknown Error!".
[[noreturn]] inline void ThrowValueError(const std::string& op, const std::string& problem) {
  MS_EXCEPTION(mindspore::ValueError) << "For " << op << ", " << problem << ".";
}

// The same for a value of a wrong type, among which Python counts a tensor's dtype.
[[noreturn]] inline void ThrowTypeError(const std::string& op, const std::string& problem) {
  MS_EXCEPTION(mindspore::TypeError) << "For " << op << ", " << problem << ".";
}

}  // namespace hyper_parallel
