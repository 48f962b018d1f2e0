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

// Loads rows [first, first + rows) of `view` [.., heads, size] into `columns` [heads][size][kLanes], a row in each lane;
// lanes without a row become 0. At most kLanes rows. A view without the last dim has size 1.
template <typename Real>
void LoadRowsIntoLanes(
  const TensorView& view,
  int64_t first,
  int64_t rows,
  int64_t heads,
  int64_t size,
  Real* columns
) {
  const int64_t count = heads * size;
  std::fill(columns, columns + count * kLanes<Real>, Real(0));
  AlignedBuffer<Real> row(count);
  for (int64_t lane = 0; lane < rows; ++lane) {
    LoadElements(view, (first + lane) * count, count, row.data());
    for (int64_t i = 0; i < count; ++i) {
      columns[i * kLanes<Real> + lane] = row.data()[i];
    }
  }
}

// Loads keys [first, first + count) of head `head` of `view` [.., heads, size] into `keys` [kChunkKeys][stride], the rest
// of it zeros. At most kChunkKeys keys; stride >= size.
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
    std::fill(keys + j * stride + size, keys + (j + 1) * stride, Real(0));
  }
  std::fill(keys + count * stride, keys + kChunkKeys * stride, Real(0));
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
