// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Lightning indexer on the host: the keys that the indexer ranks highest for each query row.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/arguments.h"
#include "csrc/cpu/documents.h"
#include "csrc/cpu/index_top_keys.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

// Cumulative ends from a tensor of cumulative starts, which begin with zero.
inline std::vector<int64_t> EndsOfStarts(const std::string& name, const std::optional<TensorView>& starts) {
  if (!starts.has_value()) {
    throw std::invalid_argument(name + " is missing: layout TND needs the cumulative lengths of the documents");
  }
  CheckDType(name, *starts, DType::kInt32);
  if (starts->shape.size() != 1) {
    throw std::invalid_argument(name + " should have one dim, but has shape " + ShapeText(starts->shape));
  }
  const auto* values = static_cast<const int32_t*>(starts->data);
  if (starts->numel() == 0 || values[0] != 0) {
    const std::string given = starts->numel() == 0 ? "is empty" : "begins with " + std::to_string(values[0]);
    throw std::invalid_argument(name + " should begin with 0, the start of the first document, but " + given);
  }
  return {values + 1, values + starts->numel()};
}

inline std::vector<Document> LightningIndexerDocuments(
  const TensorView& query,
  const TensorView& key,
  const std::optional<TensorView>& cu_seq_lens_q,
  const std::optional<TensorView>& cu_seq_lens_k,
  const std::string& layout
) {
  if (IsPacked(layout)) {
    const std::vector<int64_t> query_ends = EndsOfStarts("cu_seq_lens_q", cu_seq_lens_q);
    const std::vector<int64_t> key_ends = EndsOfStarts("cu_seq_lens_k", cu_seq_lens_k);
    if (query_ends.empty() && key_ends.empty() && query.dim(0) == 0 && key.dim(0) == 0) {
      return {};  // no documents at all
    }
    return PackedDocuments(query_ends, key_ends, query.dim(0), key.dim(0), {"cu_seq_lens_q", "cu_seq_lens_k"});
  }
  if (cu_seq_lens_q.has_value() || cu_seq_lens_k.has_value()) {
    throw std::invalid_argument("cu_seq_lens_q and cu_seq_lens_k belong to layout TND, but layout is BSND");
  }
  return BatchDocuments(query.dim(0), query.dim(1), key.dim(1));
}

inline void CheckLightningIndexer(const TopKeysTensors& tensors, int64_t sparse_count, bool is_packed) {
  if (sparse_count < 1) {
    throw std::invalid_argument("sparse_count should be at least 1, but is " + std::to_string(sparse_count));
  }
  const std::string rows = is_packed ? "T1" : "B S1";
  const std::string slots = rows + " 1 " + std::to_string(sparse_count);
  Extents extents;
  CheckFloating("query", tensors.query);
  CheckFloating("key", tensors.key);
  CheckFloating("weights", tensors.weights);
  extents.Bind("query", tensors.query, rows + " N1 D");
  extents.Bind("key", tensors.key, is_packed ? "T2 1 D" : "B S2 1 D");
  extents.Bind("weights", tensors.weights, rows + " N1");
  CheckDType("sparse_indices", tensors.positions, DType::kInt32);
  extents.Bind("sparse_indices", tensors.positions, slots);
  if (tensors.scores.dtype != DType::kFloat32 && tensors.scores.dtype != DType::kFloat64) {
    throw std::invalid_argument(
      std::string("sparse_values should be float32 or float64, but is ") + DTypeName(tensors.scores.dtype)
    );
  }
  extents.Bind("sparse_values", tensors.scores, slots);
}

// The positions of the sparse_count keys of highest score that a row sees, best first, and their scores
// res = sum_n weights[n] * relu(query[n, :] . key[j, :]). Positions count from the start of the row's document. Of
// scores that are equal as they are returned, that of the lower position comes first. Unused slots hold -1 and -inf. A
// score that is not a number ranks behind all keys of the document. sparse_mode 0: a row sees its whole document; 3:
// causal, aligned at the bottom right.
//
// query [B, S1, N1, D] or [T1, N1, D], key [B, S2, 1, D] or [T2, 1, D], weights [B, S1, N1] or [T1, N1]: float16,
// bfloat16, float32 or float64; computed in double if query is float64, in float otherwise. cu_seq_lens_* int32, TND
// only: the documents' cumulative starts and, last, the number of tokens. sparse_indices, int32, and sparse_values,
// float32 or float64, [B, S1, 1, sparse_count] or [T1, 1, sparse_count], are written whatever return_value says. The
// arguments without a name here, of the kernel that this one stands for, are not used; compressed or paged keys have no
// mathematics. Throws std::invalid_argument for anything else.
//
// A score is within (D + N1) * 2^-24 of the sum of the magnitudes of its terms; keys whose scores are closer than that
// may change places.
inline void lightning_indexer_v2(
  const TensorView& query,
  const TensorView& key,
  const TensorView& weights,
  const std::optional<TensorView>& cu_seq_lens_q,
  const std::optional<TensorView>& cu_seq_lens_k,
  const std::optional<TensorView>&,
  const std::optional<TensorView>&,
  const std::optional<TensorView>& cmp_residual_k,
  const std::optional<TensorView>& block_table,
  const std::optional<TensorView>&,
  const std::optional<TensorView>&,
  int64_t sparse_count,
  int64_t,
  const std::string& layout,
  const std::string& key_layout,
  int64_t sparse_mode,
  int64_t cmp_ratio,
  bool /* return_value */,
  const TensorView& sparse_indices,
  const TensorView& sparse_values
) {
  if (sparse_mode != 0 && sparse_mode != 3) {
    throw std::invalid_argument("sparse_mode should be 0 or 3, but is " + std::to_string(sparse_mode));
  }
  if (cmp_ratio != 1 || cmp_residual_k.has_value()) {
    throw std::invalid_argument("keys should not be compressed: cmp_ratio should be 1 and cmp_residual_k missing");
  }
  if (block_table.has_value()) {
    throw std::invalid_argument("keys should not be paged: block_table should be missing");
  }
  if (key_layout != layout) {
    throw std::invalid_argument("query and key should have one layout, but have " + layout + " and " + key_layout);
  }
  const TopKeysTensors tensors{query, key, weights, sparse_mode == 3, sparse_indices, sparse_values};
  CheckLightningIndexer(tensors, sparse_count, IsPacked(layout));
  const auto documents = LightningIndexerDocuments(query, key, cu_seq_lens_q, cu_seq_lens_k, layout);
  const bool in_double = query.dtype == DType::kFloat64;
  const auto run = in_double ? HP_FASTEST(TopKeysOfDocument<double>) : HP_FASTEST(TopKeysOfDocument<float>);
  ForEachDocument(documents, [&](const Document& document) { run(tensors, document); });
}

}  // namespace hyper_parallel::cpu
