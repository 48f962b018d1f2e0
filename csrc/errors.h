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

[[noreturn]] inline void ThrowUnknownFormat(
  const std::string& op,
  const std::string& attribute,
  const std::string& value,
  const std::string& choices
) {
  ThrowValueError(op, attribute + " should be one of " + choices + ", but got " + value);
}

}  // namespace hyper_parallel
