// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Maximum and sum of the softmax over an indexer's scores, for a block of rows: chunk by chunk, so that the scores of a
// row are never there at once.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_INDEX_STATISTICS_H
#define HP_CPU_INDEX_STATISTICS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/documents.h"
#include "csrc/cpu/exponential.h"
#include "csrc/cpu/indexer_scores.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/tensor_view.h"

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/index_statistics.h"
#include "csrc/cpu/each_instruction_set.h"

#endif  // HP_CPU_INDEX_STATISTICS_H
#else

// The first of the keys from `first_key` on that each lane's row does not see, counted from there. Lanes without a row
// see none.
template <typename Real>
Lanes<Real> KeysInSight(const Document& document, int64_t first_row, int64_t rows, int64_t first_key) {
  Lanes<Real> seen = {};
  for (int64_t lane = 0; lane < rows; ++lane) {
    const int64_t count = document.VisibleKeys(first_row + lane) - first_key;
    seen[lane] = static_cast<Real>(std::clamp<int64_t>(count, 0, kChunkKeys));
  }
  return seen;
}

// The running statistics of the rows in the lanes.
template <typename Real>
struct RunningSoftmax {
  Lanes<Real> max = Lanes<Real>{} - std::numeric_limits<Real>::infinity();
  double sum[kLanes<Real>] = {};

  // Takes in the first `count` of `scores` [kChunkKeys][kLanes], of which a lane sees those below `seen`.
  void Add(Real* scores, int64_t count, const Lanes<Real>& seen) {
    const Lanes<Real> none = Lanes<Real>{} - std::numeric_limits<Real>::infinity();
    Lanes<Real> risen = max;
    for (int64_t j = 0; j < count; ++j) {
      Lanes<Real>& score = LanesAt<Real>(scores + j * kLanes<Real>);
      score = Lanes<Real>{} + static_cast<Real>(j) < seen ? score : none;
      risen = score > risen ? score : risen;
      risen = score != score ? score : risen;  // NaN; none is greater, so it stays
    }
    Rescale(risen);
    const Lanes<Real> shift = max == none ? Lanes<Real>{} : max;  // -inf minus -inf is NaN
    for (int64_t j = 0; j < count; ++j) {
      Lanes<Real> term = LanesAt<Real>(scores + j * kLanes<Real>) - shift;
      Exp(term);
      AddTo<Real>(sum, term);
    }
  }

 private:
  // In double: a maximum may rise with every chunk, and rounding would add up.
  void Rescale(const Lanes<Real>& risen) {
    for (int64_t lane = 0; lane < kLanes<Real>; ++lane) {
      if (sum[lane] != 0 && risen[lane] != max[lane]) {
        sum[lane] *= std::exp(static_cast<double>(max[lane]) - static_cast<double>(risen[lane]));
      }
    }
    max = risen;
  }
};

// Statistics of the rows [first_row, first_row + rows) of a document, at most kLanes, to be written at max and sum. The
// sum is taken in double.
template <typename Real>
void IndexStatisticsOfRows(
  const TensorView& query,
  const TensorView& key,
  const TensorView& weights,
  const Document& document,
  int64_t first_row,
  int64_t rows,
  float* max,
  float* sum
) {
  const int64_t heads = query.dim(-2);
  const int64_t size = query.dim(-1);
  AlignedBuffer<Real> row_query(heads * size * kLanes<Real>);
  AlignedBuffer<Real> row_weights(heads * kLanes<Real>);
  AlignedBuffer<Real> keys(kChunkKeys * size);
  AlignedBuffer<Real> scores(kChunkKeys * kLanes<Real>);
  LoadRowsIntoLanes<Real>(query, document.query_begin + first_row, rows, heads, size, size, row_query.data());
  LoadRowsIntoLanes<Real>(weights, document.query_begin + first_row, rows, heads, 1, 1, row_weights.data());
  RunningSoftmax<Real> softmax;
  const int64_t visible = document.VisibleKeys(first_row + rows - 1);
  for (int64_t j = 0; j < visible; j += kChunkKeys) {
    const int64_t count = std::min(kChunkKeys, visible - j);
    LoadKeys<Real>(key, document.key_begin + j, count, 1, 0, size, size, keys.data());
    IndexScores<Real>(row_query.data(), row_weights.data(), keys.data(), size, count, heads, size, scores.data());
    softmax.Add(scores.data(), count, KeysInSight<Real>(document, first_row, rows, j));
  }
  for (int64_t lane = 0; lane < rows; ++lane) {
    max[lane] = static_cast<float>(softmax.max[lane]);
    sum[lane] = static_cast<float>(softmax.sum[lane]);
  }
}

// The same for all rows of a document; max and sum belong to its first row.
template <typename Real>
void IndexStatisticsOfDocument(
  const TensorView& query,
  const TensorView& key,
  const TensorView& weights,
  const Document& document,
  float* max,
  float* sum
) {
  ParallelFor(0, document.query_length, kLanes<Real>, [&](int64_t first, int64_t last) {
    IndexStatisticsOfRows<Real>(query, key, weights, document, first, last - first, max + first, sum + first);
  });
}

#endif  // HP_VECTOR_BYTES
