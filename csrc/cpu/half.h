// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The two 16-bit floating-point types as storage: kernels read and write them and compute in float. The conversions to
// float are exact, those from float round to nearest, ties to even; subnormals, infinities and NaN included.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace hyper_parallel::cpu {

inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The float that rounds to any shorter type as `value` does. Rounding to the nearest float first would not do: it can
// make a tie out of what was none. So an inexact result gets an odd last bit, which no tie has.
inline float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(nearest)) {
    return nearest;
  }
  const uint32_t away = std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? 1u : 0u;
  return FloatFromBits((BitsOfFloat(nearest) - away) | 1u);
}

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t wide = BitsOfFloat(value);
    const bool is_nan = (wide & 0x7FFFFFFFu) > 0x7F800000u;
    const uint32_t rounded = wide + 0x7FFFu + ((wide >> 16) & 1u);  // may carry into the exponent, up to infinity
    bits = static_cast<uint16_t>(is_nan ? (wide >> 16) | 0x40u : rounded >> 16);
  }
  explicit BFloat16(double value) : BFloat16(RoundToOdd(value)) {}
  operator float() const { return FloatFromBits(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits;
  Float16() = default;
  explicit Float16(float value) {
    // Every case is computed and one chosen, so that the compiler can do several numbers at once.
    const uint32_t sign = BitsOfFloat(value) & 0x80000000u;
    const uint32_t magnitude = BitsOfFloat(value) ^ sign;
    // Subnormal: adding 0.5 puts the last place where a subnormal's is, 2^-24, so that the addition rounds.
    const uint32_t subnormal = BitsOfFloat(FloatFromBits(magnitude) + 0.5f) - 0x3F000000u;
    const uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t special = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;  // NaN, infinity
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    const uint32_t narrow = magnitude < 0x477FF000u ? finite : special;  // 65520 and above round to infinity
    bits = static_cast<uint16_t>((sign >> 16) | narrow);
  }
  explicit Float16(double value) : Float16(RoundToOdd(value)) {}
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    // Read with float's exponent bias the value is 2^-112 of what it should be. The product is exact and normalises
    // subnormals by itself.
    const float scaled = FloatFromBits(magnitude << 13) * FloatFromBits((127u + 112u) << 23);
    // Of an infinity or a NaN the exponent becomes all ones, the payload is kept.
    const uint32_t exponent = magnitude >= 0x7C00u ? 0x7F800000u : 0u;
    return FloatFromBits(sign | exponent | BitsOfFloat(scaled));
  }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2, "storage types have the size of the element");

}  // namespace hyper_parallel::cpu
