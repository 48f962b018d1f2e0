// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Element types by the names that specs and messages give them.
#pragma once

#include <string>

#include "csrc/errors.h"
#include "ms_extension/api.h"

namespace hyper_parallel {

struct NamedDtype {
  const char* name;
  ms::TypeId type;
};

constexpr NamedDtype kDtypes[] = {
  {"bool", ms::TypeId::kNumberTypeBool},
  {"int8", ms::TypeId::kNumberTypeInt8},
  {"int16", ms::TypeId::kNumberTypeInt16},
  {"int32", ms::TypeId::kNumberTypeInt32},
  {"int64", ms::TypeId::kNumberTypeInt64},
  {"uint8", ms::TypeId::kNumberTypeUInt8},
  {"float16", ms::TypeId::kNumberTypeFloat16},
  {"bfloat16", ms::TypeId::kNumberTypeBFloat16},
  {"float32", ms::TypeId::kNumberTypeFloat32},
  {"float64", ms::TypeId::kNumberTypeFloat64},
};

// The element type of that name.
inline ms::TypeId DtypeOf(const std::string& name) {
  for (const NamedDtype& known : kDtypes) {
    if (name == known.name) {
      return known.type;
    }
  }
  ThrowValueError("a dtype", "'" + name + "' is none");
}

// The name of an element type; a number for one that no spec can ask for.
inline std::string DtypeName(ms::TypeId type) {
  for (const NamedDtype& known : kDtypes) {
    if (type == known.type) {
      return known.name;
    }
  }
  return "type id " + std::to_string(static_cast<int>(type));
}

}  // namespace hyper_parallel
