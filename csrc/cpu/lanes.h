// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Vectors of the width that the processor has, and the one matrix product that the kernels are made of. GCC's vector
// extension, which clang has too: plain arithmetic, no intrinsics.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_LANES_H
#define HP_CPU_LANES_H

#include <cstdint>
#include <cstring>
#include <limits>

#include "csrc/cpu/instruction_sets.h"

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/lanes.h"
#include "csrc/cpu/each_instruction_set.h"

#endif  // HP_CPU_LANES_H
#else

template <typename Real>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float Type __attribute__((vector_size(HP_VECTOR_BYTES)));
  typedef int32_t Integers __attribute__((vector_size(HP_VECTOR_BYTES)));
};
template <>
struct LanesOf<double> {
  typedef double Type __attribute__((vector_size(HP_VECTOR_BYTES)));
  typedef int64_t Integers __attribute__((vector_size(HP_VECTOR_BYTES)));
};

template <typename Real>
using Lanes = typename LanesOf<Real>::Type;

// Comparisons give these: all bits set where true.
template <typename Real>
using LaneMask = typename LanesOf<Real>::Integers;

// How many numbers a vector holds.
template <typename Real>
constexpr int64_t kLanes = HP_VECTOR_BYTES / static_cast<int64_t>(sizeof(Real));

// Vectors are passed by reference, since older instruction sets have no registers to pass them in.
template <typename Real>
HP_ALWAYS_INLINE const Lanes<Real>& LanesAt(const Real* aligned) {
  return *reinterpret_cast<const Lanes<Real>*>(aligned);
}

template <typename Real>
HP_ALWAYS_INLINE Lanes<Real>& LanesAt(Real* aligned) {
  return *reinterpret_cast<Lanes<Real>*>(aligned);
}

// In this form a NaN stays a NaN.
template <typename Real>
HP_ALWAYS_INLINE void Relu(Lanes<Real>& x) {
  const Lanes<Real> zero = {};
  x = x < zero ? zero : x;
}

// total += x, in double: a sum over keys or rows may have 10^5 terms and more.
template <typename Real>
HP_ALWAYS_INLINE void AddTo(double* total, const Lanes<Real>& x) {
  alignas(HP_VECTOR_BYTES) Real values[kLanes<Real>];
  LanesAt<Real>(values) = x;
  for (int64_t lane = 0; lane < kLanes<Real>; ++lane) {
    total[lane] += static_cast<double>(values[lane]);
  }
}

// How many rows of a product are computed at a time, each in a register of its own.
constexpr int64_t kTileRows = 8;

// tile[r, :] = sum_k a[r * row_stride + k * step_stride] * b[k * b_stride, :] for k < steps: kTileRows rows of a matrix,
// a vector wide, in registers. Strides are in elements; b and its stride are aligned for vectors. The sum runs in order.
template <typename Real>
HP_ALWAYS_INLINE void TileProduct(
  const Real* a,
  int64_t row_stride,
  int64_t step_stride,
  const Real* b,
  int64_t b_stride,
  int64_t steps,
  Lanes<Real> (&tile)[kTileRows]
) {
  Lanes<Real> sums[kTileRows] = {};
  for (int64_t k = 0; k < steps; ++k) {
    const Lanes<Real> values = LanesAt<Real>(b + k * b_stride);
    for (int64_t r = 0; r < kTileRows; ++r) {
      sums[r] += a[r * row_stride + k * step_stride] * values;
    }
  }
  for (int64_t r = 0; r < kTileRows; ++r) {
    tile[r] = sums[r];
  }
}

#endif  // HP_VECTOR_BYTES
