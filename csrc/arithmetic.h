// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Integer arithmetic of the spec language, which has Python's meaning also in C++.
#pragma once

#include <algorithm>  // std::min and std::max of a braced list
#include <cstdint>
#include <stdexcept>
#include <string>

namespace hyper_parallel {

// a // b: rounds towards minus infinity, where C++ rounds towards zero.
inline int64_t FloorDiv(int64_t a, int64_t b) {
  if (b == 0) {
    throw std::invalid_argument("division of " + std::to_string(a) + " by zero");
  }
  if (b == -1) {  // by hand: INT64_MIN / -1 traps
    return static_cast<int64_t>(0u - static_cast<uint64_t>(a));
  }
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// a % b: has the sign of b.
inline int64_t FloorMod(int64_t a, int64_t b) {
  if (b == 0) {
    throw std::invalid_argument("remainder of " + std::to_string(a) + " by zero");
  }
  if (b == -1) {
    return 0;
  }
  const int64_t remainder = a % b;
  return remainder + (remainder != 0 && (remainder < 0) != (b < 0) ? b : 0);
}

// The smallest integer that is at least a / b.
inline int64_t CeilDiv(int64_t a, int64_t b) {
  return FloorDiv(a, b) + (FloorMod(a, b) != 0 ? 1 : 0);
}

// n!
inline int64_t Factorial(int64_t n) {
  if (n < 0 || n > 20) {
    throw std::invalid_argument("factorial of " + std::to_string(n) + " is outside of 0! to 20!, the range of int64");
  }
  int64_t product = 1;
  for (int64_t factor = 2; factor <= n; ++factor) {
    product *= factor;
  }
  return product;
}

}  // namespace hyper_parallel
