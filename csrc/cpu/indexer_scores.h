// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The indexers' score, res[t, j] = sum_n weights[t, n] * relu(query[t, n, :] . key[j, :]), of a block of query rows and
// a chunk of keys. Rows lie in the lanes of vectors: a row's maximum, sum and mask then need no work across lanes. Keys
// stay as they are.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_INDEXER_SCORES_H
#define HP_CPU_INDEXER_SCORES_H

#include <algorithm>
#include <cstdint>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/lanes.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

// How many keys are loaded at a time: with 64 heads their products take 256 kB, which second-level caches hold.
constexpr int64_t kChunkKeys = 64;

}  // namespace hyper_parallel::cpu

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/indexer_scores.h"
#include "csrc/cpu/each_instruction_set.h"

#endif  // HP_CPU_INDEXER_SCORES_H
#else

// Loads rows [first, first + rows) of `view` [.., heads, size], or [.., heads] with size 1, into `columns`
// [heads][stride][kLanes], a row in each lane. At most kLanes rows; what no row fills stays as it is.
template <typename Real>
void LoadRowsIntoLanes(
  const TensorView& view,
  int64_t first,
  int64_t rows,
  int64_t heads,
  int64_t size,
  int64_t stride,
  Real* columns
) {
  AlignedBuffer<Real> row(heads * size);
  for (int64_t lane = 0; lane < rows; ++lane) {
    LoadElements(view, (first + lane) * heads * size, heads * size, row.data());
    for (int64_t n = 0; n < heads; ++n) {
      for (int64_t d = 0; d < size; ++d) {
        columns[(n * stride + d) * kLanes<Real> + lane] = row.data()[n * size + d];
      }
    }
  }
}

// Loads head `head` of the keys [first, first + count) of `view` [.., heads, size] into the first `size` columns of
// `keys` [kChunkKeys][stride], and zeros after the last key. At most kChunkKeys keys.
template <typename Real>
void LoadKeys(
  const TensorView& view,
  int64_t first,
  int64_t count,
  int64_t heads,
  int64_t head,
  int64_t size,
  int64_t stride,
  Real* keys
) {
  for (int64_t j = 0; j < count; ++j) {
    LoadElements(view, ((first + j) * heads + head) * size, size, keys + j * stride);
  }
  for (int64_t j = count; j < kChunkKeys; ++j) {
    std::fill(keys + j * stride, keys + j * stride + size, Real(0));
  }
}

// scores [kChunkKeys][kLanes] of the rows in `query` [heads][size][kLanes] and `weights` [heads][kLanes] and of the
// first `count` keys in `keys` [kChunkKeys][stride]; up to kTileRows - 1 more are written. A NaN in a row or in a key
// makes NaN scores. If `products` is given, [kChunkKeys][heads][kLanes], relu(query . key) is left there.
template <typename Real>
void IndexScores(
  const Real* query,
  const Real* weights,
  const Real* keys,
  int64_t stride,
  int64_t count,
  int64_t heads,
  int64_t size,
  Real* scores,
  Real* products = nullptr
) {
  constexpr int64_t kWidth = kLanes<Real>;
  for (int64_t j = 0; j < count; j += kTileRows) {
    Lanes<Real> sums[kTileRows] = {};
    for (int64_t n = 0; n < heads; ++n) {
      Lanes<Real> tile[kTileRows];
      TileProduct<Real>(keys + j * stride, stride, 1, query + n * size * kWidth, kWidth, size, tile);
      const Lanes<Real> weight = LanesAt<Real>(weights + n * kWidth);
      for (int64_t r = 0; r < kTileRows; ++r) {
        Relu<Real>(tile[r]);
        sums[r] += weight * tile[r];
      }
      for (int64_t r = 0; products != nullptr && r < kTileRows; ++r) {
        LanesAt<Real>(products + ((j + r) * heads + n) * kWidth) = tile[r];
      }
    }
    for (int64_t r = 0; r < kTileRows; ++r) {
      LanesAt<Real>(scores + (j + r) * kWidth) = sums[r];
    }
  }
}

#endif  // HP_VECTOR_BYTES
