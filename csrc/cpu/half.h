// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The two 16-bit floating-point types as storage: kernels read and write them and compute in float. The conversions to
// float are exact, those from float round to nearest, ties to even; subnormals, infinities and NaN included.
#pragma once

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

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t wide = BitsOfFloat(value);
    const bool is_nan = (wide & 0x7FFFFFFFu) > 0x7F800000u;
    const uint32_t rounded = wide + 0x7FFFu + ((wide >> 16) & 1u);  // may carry into the exponent, up to infinity
    bits = static_cast<uint16_t>(is_nan ? (wide >> 16) | 0x40u : rounded >> 16);
  }
  operator float() const { return FloatFromBits(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits;
  Float16() = default;
  explicit Float16(float value) {
    const uint32_t wide = BitsOfFloat(value);
    const auto sign = static_cast<uint16_t>((wide >> 16) & 0x8000u);
    const uint32_t magnitude = wide & 0x7FFFFFFFu;
    uint32_t narrow;
    if (magnitude > 0x7F800000u) {
      narrow = 0x7E00u;  // NaN
    } else if (magnitude >= 0x477FF000u) {
      narrow = 0x7C00u;  // 65520 and above round to infinity
    } else if (magnitude < 0x38800000u) {
      // Subnormal: adding 0.5 puts the last place where a subnormal's is, 2^-24, so that the addition rounds.
      narrow = BitsOfFloat(FloatFromBits(magnitude) + 0.5f) - 0x3F000000u;
    } else {
      narrow = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | narrow);
  }
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    if (magnitude >= 0x7C00u) {  // infinity, NaN: the exponent becomes all ones, the payload is kept
      return FloatFromBits(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
    }
    // Read with float's exponent bias the value is 2^-112 of what it should be. The product is exact and normalises
    // subnormals by itself.
    const float scaled = FloatFromBits(magnitude << 13) * FloatFromBits((127u + 112u) << 23);
    return FloatFromBits(sign | BitsOfFloat(scaled));
  }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2, "storage types have the size of the element");

}  // namespace hyper_parallel::cpu
