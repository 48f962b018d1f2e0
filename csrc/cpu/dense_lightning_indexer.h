// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Dense lightning indexer on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "csrc/cpu/arguments.h"
#include "csrc/cpu/dense_kl_loss.h"
#include "csrc/cpu/documents.h"
#include "csrc/cpu/index_statistics.h"
#include "csrc/cpu/kl_loss.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

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
  CheckCausalMask(sparse_mode, pre_tokens, next_tokens);
  const bool packed = IsPacked(layout);
  Extents extents;
  const auto bind = [&extents](const std::string& name, const TensorView& view, const std::string& dims) {
    CheckFloating(name, view);
    extents.Bind(name, view, dims);
  };
  bind("query_index", query_index, packed ? "T1 N1 D" : "B S1 N1 D");
  bind("key_index", key_index, packed ? "T2 1 D" : "B S2 1 D");
  bind("weights", weights, packed ? "T1 N1" : "B S1 N1");
  bind("softmax_max", softmax_max, packed ? "1 T1" : "B 1 S1");
  bind("softmax_sum", softmax_sum, packed ? "1 T1" : "B 1 S1");
  CheckDType("softmax_max", softmax_max, DType::kFloat32);
  CheckDType("softmax_sum", softmax_sum, DType::kFloat32);
  const auto documents = DocumentsOf(query_index, key_index, actual_seq_qlen, actual_seq_klen, layout);
  const bool in_double = query_index.dtype == DType::kFloat64;
  const auto run = in_double ? HP_FASTEST(IndexStatisticsOfDocument<double>) : HP_FASTEST(IndexStatisticsOfDocument<float>);
  auto* max = static_cast<float*>(softmax_max.data);
  auto* sum = static_cast<float*>(softmax_sum.data);
  ForEachDocument(documents, [&](const Document& document) {
    run(query_index, key_index, weights, document, max + document.query_begin, sum + document.query_begin);
  });
}

// loss = sum over rows of KL(p || s) and its gradients with respect to the indexer's tensors, p held fixed (see
// kl_loss.h). softmax_max and softmax_sum are the main attention's statistics, softmax_max_index and softmax_sum_index
// those of dense_lightning_indexer_softmax_lse.
//
// Inputs: float16, bfloat16, float32 (computed in float) or float64 (computed in double, if query is); the gradients
// have any of these types, loss is float32. Shapes as in the operator's description. A missing length is an empty
// vector. Throws std::invalid_argument for anything else. A NaN or an infinity in a row or in a key reaches the
// gradients of all that see it, and may reach others of its document.
//
// Scratch memory: for each document being worked on up to kSlices times the keys' gradient in double.
inline void dense_lightning_indexer_grad_kl_loss(
  const TensorView& query,
  const TensorView& key,
  const TensorView& query_index,
  const TensorView& key_index,
  const TensorView& weights,
  const TensorView& softmax_max,
  const TensorView& softmax_sum,
  const TensorView& softmax_max_index,
  const TensorView& softmax_sum_index,
  const std::optional<TensorView>& query_rope,
  const std::optional<TensorView>& key_rope,
  const std::vector<int64_t>& actual_seq_qlen,
  const std::vector<int64_t>& actual_seq_klen,
  double scale_value,
  const std::string& layout,
  int64_t sparse_mode,
  int64_t pre_tokens,
  int64_t next_tokens,
  const TensorView& d_query_index,
  const TensorView& d_key_index,
  const TensorView& d_weights,
  const TensorView& loss
) {
  CheckCausalMask(sparse_mode, pre_tokens, next_tokens);
  DenseKlLossTensors tensors;
  static_cast<KlLossTensors&>(tensors) = {
    query,
    key,
    query_index,
    key_index,
    weights,
    softmax_max,
    softmax_sum,
    query_rope,
    key_rope,
    scale_value,
    d_query_index,
    d_key_index,
    d_weights,
    IsPacked(layout),
  };
  tensors.softmax_max_index = softmax_max_index;
  tensors.softmax_sum_index = softmax_sum_index;
  Extents extents = CheckKlLoss(tensors, loss);
  CheckFloating("softmax_max_index", softmax_max_index);
  CheckFloating("softmax_sum_index", softmax_sum_index);
  extents.Bind("softmax_max_index", softmax_max_index, tensors.packed ? "1 T1" : "B 1 S1");
  extents.Bind("softmax_sum_index", softmax_sum_index, tensors.packed ? "1 T1" : "B 1 S1");
  const auto documents = DocumentsOf(query, key, actual_seq_qlen, actual_seq_klen, layout);
  const bool in_double = query.dtype == DType::kFloat64;
  const auto run = in_double ? HP_FASTEST(DenseKlLossOfDocument<double>) : HP_FASTEST(DenseKlLossOfDocument<float>);
  SumOverDocuments(documents, loss, [&](const Document& document) { return run(tensors, document); });
}

}  // namespace hyper_parallel::cpu
