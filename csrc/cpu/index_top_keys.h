// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The best keys of the rows of a document by the indexer's score: chunk by chunk, so that the scores of a row are never
// there at once.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_INDEX_TOP_KEYS_H
#define HP_CPU_INDEX_TOP_KEYS_H

#include <algorithm>
#include <cstdint>
#include <vector>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/documents.h"
#include "csrc/cpu/indexer_scores.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/tensor_view.h"
#include "csrc/cpu/top_keys.h"

namespace hyper_parallel::cpu {

struct TopKeysTensors {
  const TensorView& query;
  const TensorView& key;
  const TensorView& weights;
  bool is_causal;
  const TensorView& positions;  // int32
  const TensorView& scores;     // float32 or float64

  int64_t slots() const { return positions.dim(-1); }
  // How many keys of its document a row sees: always the first ones.
  int64_t VisibleKeys(const Document& document, int64_t row) const {
    return is_causal ? document.VisibleKeys(row) : document.key_length;
  }
};

}  // namespace hyper_parallel::cpu

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/index_top_keys.h"
#include "csrc/cpu/each_instruction_set.h"

#endif  // HP_CPU_INDEX_TOP_KEYS_H
#else

// For rows [first_row, first_row + rows) of a document, at most kLanes.
template <typename Real>
void TopKeysOfRows(const TopKeysTensors& tensors, const Document& document, int64_t first_row, int64_t rows) {
  const int64_t heads = tensors.query.dim(-2);
  const int64_t size = tensors.query.dim(-1);
  const int64_t slots = tensors.slots();
  const bool round_to_float = tensors.scores.dtype == DType::kFloat32;  // keys are ranked by what is returned
  AlignedBuffer<Real> query(heads * size * kLanes<Real>);
  AlignedBuffer<Real> weights(heads * kLanes<Real>);
  AlignedBuffer<Real> keys(kChunkKeys * size);
  AlignedBuffer<Real> scores(kChunkKeys * kLanes<Real>);
  LoadRowsIntoLanes<Real>(tensors.query, document.query_begin + first_row, rows, heads, size, size, query.data());
  LoadRowsIntoLanes<Real>(tensors.weights, document.query_begin + first_row, rows, heads, 1, 1, weights.data());
  const TopKeys<Real> none(std::clamp<int64_t>(document.key_length, 1, slots));
  std::vector<TopKeys<Real>> best(static_cast<size_t>(rows), none);
  const int64_t visible = tensors.VisibleKeys(document, first_row + rows - 1);
  for (int64_t j = 0; j < visible; j += kChunkKeys) {
    const int64_t count = std::min(kChunkKeys, visible - j);
    LoadKeys<Real>(tensors.key, document.key_begin + j, count, 1, 0, size, size, keys.data());
    IndexScores<Real>(query.data(), weights.data(), keys.data(), size, count, heads, size, scores.data());
    for (int64_t lane = 0; lane < rows; ++lane) {
      const int64_t seen = std::min(count, tensors.VisibleKeys(document, first_row + lane) - j);
      for (int64_t i = 0; i < seen; ++i) {
        const Real score = scores.data()[i * kLanes<Real> + lane];
        best[static_cast<size_t>(lane)].Add(round_to_float ? static_cast<float>(score) : score, j + i);
      }
    }
  }
  std::vector<Real> values(static_cast<size_t>(slots));
  for (int64_t lane = 0; lane < rows; ++lane) {
    const int64_t row = document.query_begin + first_row + lane;
    const int64_t hidden = document.key_length - tensors.VisibleKeys(document, first_row + lane);
    auto* positions = static_cast<int32_t*>(tensors.positions.data) + row * slots;
    best[static_cast<size_t>(lane)].Write(slots, hidden, positions, values.data());
    StoreElements(values.data(), row * slots, slots, tensors.scores);
  }
}

template <typename Real>
void TopKeysOfDocument(const TopKeysTensors& tensors, const Document& document) {
  ParallelFor(0, document.query_length, kLanes<Real>, [&](int64_t first, int64_t last) {
    TopKeysOfRows<Real>(tensors, document, first, last - first);
  });
}

#endif  // HP_VECTOR_BYTES
