// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Dense lightning indexer on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/documents.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

// Keys are packed into panels [D][kPanelKeys]: the innermost loop then runs over neighbouring keys, which the compiler
// turns into vector instructions without being allowed to reorder a sum.
constexpr int64_t kPanelKeys = 16;

// The keys of one document, [keys, D], as panels; the last panel is filled up with zeros.
template <typename Real>
std::vector<Real> PackKeyPanels(const TensorView& key, const Document& document, int64_t head_size) {
  const int64_t panels = (document.key_length + kPanelKeys - 1) / kPanelKeys;
  std::vector<Real> packed(static_cast<size_t>(panels * kPanelKeys * head_size), Real(0));
  std::vector<Real> row(static_cast<size_t>(head_size));
  for (int64_t j = 0; j < document.key_length; ++j) {
    LoadElements(key, (document.key_begin + j) * head_size, head_size, row.data());
    Real* column = packed.data() + (j / kPanelKeys) * kPanelKeys * head_size + j % kPanelKeys;
    for (int64_t d = 0; d < head_size; ++d) {
      column[d * kPanelKeys] = row[static_cast<size_t>(d)];
    }
  }
  return packed;
}

// scores[j] = sum_n weights[n] * relu(query[n, :] . key[j, :]) for the keys of one panel.
template <typename Real>
void ScorePanel(
  const Real* query,
  const Real* weights,
  const Real* panel,
  int64_t heads,
  int64_t head_size,
  Real* scores
) {
  std::fill(scores, scores + kPanelKeys, Real(0));
  for (int64_t n = 0; n < heads; ++n) {
    Real dot[kPanelKeys] = {};
    const Real* row = query + n * head_size;
    for (int64_t d = 0; d < head_size; ++d) {
      for (int64_t j = 0; j < kPanelKeys; ++j) {
        dot[j] += row[d] * panel[d * kPanelKeys + j];
      }
    }
    for (int64_t j = 0; j < kPanelKeys; ++j) {
      scores[j] += weights[n] * (dot[j] < Real(0) ? Real(0) : dot[j]);  // in this form a NaN stays a NaN
    }
  }
}

struct SoftmaxStatistics {
  double max;
  double sum;
};

// Of no scores at all: maximum -inf, sum 0. The sum is taken in double, since it may have 10^5 terms.
template <typename Real>
SoftmaxStatistics StatisticsOf(const Real* scores, int64_t count) {
  Real max = -std::numeric_limits<Real>::infinity();
  for (int64_t j = 0; j < count; ++j) {
    max = scores[j] > max || std::isnan(scores[j]) ? scores[j] : max;
  }
  const Real shift = max == -std::numeric_limits<Real>::infinity() ? Real(0) : max;  // -inf minus -inf is NaN
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    sum += static_cast<double>(std::exp(scores[j] - shift));
  }
  return {static_cast<double>(max), sum};
}

template <typename Real>
void DenseIndexerDocument(
  const TensorView& query,
  const TensorView& key,
  const TensorView& weights,
  const Document& document,
  float* softmax_max,
  float* softmax_sum
) {
  const int64_t heads = query.dim(-2);
  const int64_t head_size = query.dim(-1);
  const std::vector<Real> panels = PackKeyPanels<Real>(key, document, head_size);
  std::vector<Real> scores(panels.size() / static_cast<size_t>(std::max<int64_t>(head_size, 1)));
  std::vector<Real> row_query(static_cast<size_t>(heads * head_size));
  std::vector<Real> row_weights(static_cast<size_t>(heads));
  for (int64_t i = 0; i < document.query_length; ++i) {
    const int64_t row = document.query_begin + i;
    const int64_t visible = document.VisibleKeys(i);
    LoadElements(query, row * heads * head_size, heads * head_size, row_query.data());
    LoadElements(weights, row * heads, heads, row_weights.data());
    for (int64_t j = 0; j < visible; j += kPanelKeys) {
      ScorePanel(
        row_query.data(),
        row_weights.data(),
        panels.data() + j * head_size,
        heads,
        head_size,
        scores.data() + j
      );
    }
    const SoftmaxStatistics statistics = StatisticsOf(scores.data(), visible);
    softmax_max[row] = static_cast<float>(statistics.max);
    softmax_sum[row] = static_cast<float>(statistics.sum);
  }
}

inline std::vector<Document> DenseIndexerDocuments(
  const TensorView& query,
  const TensorView& key,
  const std::vector<int64_t>& query_ends,
  const std::vector<int64_t>& key_ends,
  const std::string& layout
) {
  if (layout == "TND") {
    return PackedDocuments(query_ends, key_ends, query.dim(0), key.dim(0));
  }
  if (!query_ends.empty() || !key_ends.empty()) {
    throw std::invalid_argument("actual_seq_qlen and actual_seq_klen belong to layout TND, but layout is BSND");
  }
  return BatchDocuments(query.dim(0), query.dim(1), key.dim(1));
}

inline void CheckDenseIndexerShapes(
  const TensorView& query,
  const TensorView& key,
  const TensorView& weights,
  const std::string& layout
) {
  if (layout != "BSND" && layout != "TND") {
    throw std::invalid_argument("layout should be BSND or TND, but got " + layout);
  }
  const size_t rank = layout == "BSND" ? 4 : 3;
  const auto fail = [&](const std::string& expected) {
    throw std::invalid_argument(
      "dense_lightning_indexer_softmax_lse expects " + expected + ", but got query_index " + ShapeText(query.shape) +
      ", key_index " + ShapeText(key.shape) + " and weights " + ShapeText(weights.shape) + " in layout " + layout
    );
  };
  if (query.shape.size() != rank || key.shape.size() != rank) {
    fail(std::to_string(rank) + " dims of query_index and key_index");
  }
  if (weights.shape != std::vector<int64_t>(query.shape.begin(), query.shape.end() - 1)) {
    fail("weights shaped like query_index without its last dim");
  }
  if (key.dim(-2) != 1) {
    fail("one key head");
  }
  if (key.dim(-1) != query.dim(-1) || (rank == 4 && key.dim(0) != query.dim(0))) {
    fail("query_index and key_index of the same batch and head size");
  }
}

// softmax_max = max_j res and softmax_sum = sum_j exp(res - softmax_max) over the visible keys j, with
// res = sum_n weights[n] * relu(query_index[n, :] . key_index[j, :]). A row that sees no key has -inf and 0.
//
// query_index, key_index: float16, bfloat16, float32 (computed in float) or float64 (computed in double);
// weights: any of these; softmax_max, softmax_sum: float32. Shapes as in the operator's description. A missing length
// is an empty vector. Throws std::invalid_argument for anything else.
inline void dense_lightning_indexer_softmax_lse(
  const TensorView& query_index,
  const TensorView& key_index,
  const TensorView& weights,
  const std::vector<int64_t>& actual_seq_qlen,
  const std::vector<int64_t>& actual_seq_klen,
  const std::string& layout,
  int64_t sparse_mode,
  int64_t pre_tokens,
  int64_t next_tokens,
  const TensorView& softmax_max,
  const TensorView& softmax_sum
) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  if (sparse_mode != 3 || pre_tokens != kUnlimited || next_tokens != kUnlimited) {
    throw std::invalid_argument("sparse_mode should be 3 and pre_tokens and next_tokens INT64_MAX");
  }
  CheckDenseIndexerShapes(query_index, key_index, weights, layout);
  if (softmax_max.dtype != DType::kFloat32 || softmax_sum.dtype != DType::kFloat32) {
    throw std::invalid_argument("softmax_max and softmax_sum should be float32");
  }
  const auto documents = DenseIndexerDocuments(query_index, key_index, actual_seq_qlen, actual_seq_klen, layout);
  const auto run = query_index.dtype == DType::kFloat64 ? DenseIndexerDocument<double> : DenseIndexerDocument<float>;
  for (const Document& document : documents) {
    run(
      query_index,
      key_index,
      weights,
      document,
      static_cast<float*>(softmax_max.data),
      static_cast<float*>(softmax_sum.data)
    );
  }
}

}  // namespace hyper_parallel::cpu
