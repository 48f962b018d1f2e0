// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The two 16-bit floating-point types as storage: kernels read them and compute in float. The conversions to float are
// exact, subnormals, infinities and NaN included.
#pragma once

#include <cstdint>
#include <cstring>

namespace hyper_parallel::cpu {

inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

struct BFloat16 {
  uint16_t bits;
  operator float() const { return FloatFromBits(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits;
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    if (magnitude >= 0x7C00u) {  // infinity, NaN: the exponent becomes all ones, the payload is kept
      return FloatFromBits(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
    }
    // Read with float's exponent bias the value is 2^-112 of what it should be. The product is exact and normalises
    // subnormals by itself.
    const float scaled = FloatFromBits(magnitude << 13) * FloatFromBits((127u + 112u) << 23);
    uint32_t result;
    std::memcpy(&result, &scaled, sizeof(result));
    return FloatFromBits(sign | result);
  }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2, "storage types have the size of the element");

}  // namespace hyper_parallel::cpu
