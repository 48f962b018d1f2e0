// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Products of small matrices in scratch memory, from which kernels build large ones, and dot products.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_MATRIX_PRODUCT_H
#define HP_CPU_MATRIX_PRODUCT_H

#include <algorithm>
#include <cstdint>

#include "csrc/cpu/lanes.h"

namespace hyper_parallel::cpu {

// Long sums are cut: this many terms are added in the kernel's own precision, and what comes out of that in double. The
// rounding errors of such a sum are below kStretch * 2^-24 of the sum of its terms' magnitudes in float, however long.
constexpr int64_t kStretch = 64;

// How many columns of a matrix are in scratch memory at a time; a multiple of every vector, and of kStretch.
constexpr int64_t kChunk = 256;

// Rows of the left factor are read in whole tiles: behind its last row, memory for this many more must follow.
constexpr int64_t kRowsBehind = baseline::kTileRows - 1;

// The left factor of a product, by where its numbers lie: a[r, k] = first[r * row_stride + k * step_stride].
template <typename Real>
struct Factor {
  const Real* first;
  int64_t row_stride;
  int64_t step_stride;
};

}  // namespace hyper_parallel::cpu

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/matrix_product.h"
#include "csrc/cpu/each_instruction_set.h"

#endif  // HP_CPU_MATRIX_PRODUCT_H
#else

// result[r, c] = sum_k a[r, k] * b[k, c] for r < rows, k < steps, c < columns, summed in the order of k. Rows of b and
// of the result lie `stride` apart and are aligned for vectors; columns are completed to whole vectors.
template <typename Real>
void MatrixProduct(
  const Factor<Real>& a,
  const Real* b,
  int64_t stride,
  int64_t rows,
  int64_t steps,
  int64_t columns,
  Real* result
) {
  for (int64_t r = 0; r < rows; r += kTileRows) {
    const int64_t tile_rows = std::min(kTileRows, rows - r);
    for (int64_t c = 0; c < columns; c += kLanes<Real>) {
      Lanes<Real> tile[kTileRows];
      TileProduct<Real>(a.first + r * a.row_stride, a.row_stride, a.step_stride, b + c, stride, steps, tile);
      for (int64_t i = 0; i < tile_rows; ++i) {
        LanesAt<Real>(result + (r + i) * stride + c) = tile[i];
      }
    }
  }
}

// The same, added to sums that are kept in double.
template <typename Real>
void AddMatrixProduct(
  const Factor<Real>& a,
  const Real* b,
  int64_t stride,
  int64_t rows,
  int64_t steps,
  int64_t columns,
  double* sums
) {
  for (int64_t r = 0; r < rows; r += kTileRows) {
    const int64_t tile_rows = std::min(kTileRows, rows - r);
    for (int64_t c = 0; c < columns; c += kLanes<Real>) {
      Lanes<Real> tile[kTileRows];
      TileProduct<Real>(a.first + r * a.row_stride, a.row_stride, a.step_stride, b + c, stride, steps, tile);
      for (int64_t i = 0; i < tile_rows; ++i) {
        AddTo<Real>(sums + (r + i) * stride + c, tile[i]);
      }
    }
  }
}

// sum_i a[i] * b[i] over at most kChunk numbers, both aligned for vectors.
template <typename Real>
double DotProduct(const Real* a, const Real* b, int64_t count) {
  constexpr int64_t kVectors = 4;  // independent sums, so that no addition waits for the one before it
  constexpr int64_t kStep = kVectors * kLanes<Real>;
  Lanes<Real> sums[kVectors] = {};
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t place = i + v * kLanes<Real>;
      sums[v] += LanesAt<Real>(a + place) * LanesAt<Real>(b + place);
    }
  }
  double lanes[kLanes<Real>] = {};
  for (int64_t v = 0; v < kVectors; ++v) {
    AddTo<Real>(lanes, sums[v]);
  }
  double total = 0;
  for (int64_t lane = 0; lane < kLanes<Real>; ++lane) {
    total += lanes[lane];
  }
  for (; i < count; ++i) {
    total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return total;
}

#endif  // HP_VECTOR_BYTES
