// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Exponential and logarithm of vectors. In double they are the standard library's, one number after the other.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_EXPONENTIAL_H
#define HP_CPU_EXPONENTIAL_H

#include <cmath>
#include <cstdint>
#include <cstring>

#include "csrc/cpu/lanes.h"

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/exponential.h"
#include "csrc/cpu/each_instruction_set.h"

#endif  // HP_CPU_EXPONENTIAL_H
#else

// 2^n for n in [-126, 127], as a float's exponent.
HP_ALWAYS_INLINE void PowerOfTwo(const LaneMask<float>& n, Lanes<float>& power) {
  const LaneMask<float> bits = (n + 127) << 23;
  std::memcpy(&power, &bits, sizeof(power));
}

// x becomes exp(x), within 1 ulp, subnormal results within one step. exp(0) is 1, exp(-inf) is 0, NaN stays NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) = 1 + r + r^2 P(r), where P has the least relative error of its degree
// (5e-9).
HP_ALWAYS_INLINE void Exp(Lanes<float>& x) {
  const Lanes<float> zero = {};
  // exp is 0 below and infinite above; an infinity must not reach x - n ln 2. A NaN passes.
  Lanes<float> bounded = x < zero - 110.0f ? zero - 110.0f : x;
  bounded = bounded > zero + 100.0f ? zero + 100.0f : bounded;
  const Lanes<float> round = zero + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Lanes<float> n = (bounded * 1.44269504088896341f + round) - round;
  const Lanes<float> r = (bounded - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
  Lanes<float> p = r * 0.0013814540579915047f + 0.00836874544620514f;
  p = p * r + 0.04166838899254799f;
  p = p * r + 0.1666652113199234f;
  p = p * r + 0.4999999403953552f;
  p = (p * r) * r + r;
  // In two steps, so that neither factor leaves the range where the result is subnormal or infinite.
  const LaneMask<float> exponent = __builtin_convertvector(n, LaneMask<float>);
  const LaneMask<float> half = exponent >> 1;
  Lanes<float> first;
  Lanes<float> second;
  PowerOfTwo(half, first);
  PowerOfTwo(exponent - half, second);
  x = ((p + 1.0f) * first) * second;
}

HP_ALWAYS_INLINE void Exp(Lanes<double>& x) {
  for (int64_t lane = 0; lane < kLanes<double>; ++lane) {
    x[lane] = std::exp(x[lane]);
  }
}

// x becomes log(x), within 2 ulp, for normal x > 0 and infinity; NaN stays NaN.
//
// x = 2^n m with m between sqrt(1/2) and sqrt(2), and log(m) = 2s + s z Q(z) with s = (m - 1) / (m + 1) and z = s^2,
// where Q has the least relative error of its degree (1e-9).
HP_ALWAYS_INLINE void Log(Lanes<float>& x) {
  constexpr int32_t kRootOfHalf = 0x3F3504F3;
  LaneMask<float> bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const LaneMask<float> n = (bits - kRootOfHalf) >> 23;
  bits -= n << 23;
  Lanes<float> m;
  std::memcpy(&m, &bits, sizeof(m));
  const Lanes<float> s = (m - 1.0f) / (m + 1.0f);
  const Lanes<float> z = s * s;
  Lanes<float> q = z * 0.298730731010437f + 0.399774968624115f;
  q = q * z + 0.6666677594184875f;
  const Lanes<float> exponent = __builtin_convertvector(n, Lanes<float>);
  const Lanes<float> result = exponent * 0.693145751953125f + (exponent * 1.42860682030941723e-6f + (s * z * q + 2.0f * s));
  const Lanes<float> zero = {};
  const Lanes<float> largest = zero + 3.402823466e38f;
  x = x <= largest ? result : x;  // infinity and NaN are their own logarithms
}

HP_ALWAYS_INLINE void Log(Lanes<double>& x) {
  for (int64_t lane = 0; lane < kLanes<double>; ++lane) {
    x[lane] = std::log(x[lane]);
  }
}

#endif  // HP_VECTOR_BYTES
