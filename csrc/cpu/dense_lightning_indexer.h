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
#include "csrc/cpu/index_statistics.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

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
  const bool in_double = query_index.dtype == DType::kFloat64;
  const auto run = in_double ? HP_FASTEST(IndexStatisticsOfDocument<double>) : HP_FASTEST(IndexStatisticsOfDocument<float>);
  auto* max = static_cast<float*>(softmax_max.data);
  auto* sum = static_cast<float*>(softmax_sum.data);
  ForEachDocument(documents, [&](const Document& document) {
    run(query_index, key_index, weights, document, max + document.query_begin, sum + document.query_begin);
  });
}

}  // namespace hyper_parallel::cpu
