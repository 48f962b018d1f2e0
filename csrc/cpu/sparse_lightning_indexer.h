// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Sparse lightning indexer on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "csrc/cpu/arguments.h"
#include "csrc/cpu/documents.h"
#include "csrc/cpu/kl_loss.h"
#include "csrc/cpu/sparse_kl_loss.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

// loss = sum over rows of KL(p || s) over the selected keys and its gradients with respect to the indexer's tensors, p
// held fixed (see kl_loss.h). softmax_max and softmax_sum are the main attention's statistics; s is a plain softmax.
//
// sparse_indices: int32, -1 or positions in the row's document among the keys that the row sees, each at most once.
// Other inputs: float16, bfloat16, float32 (computed in float) or float64 (computed in double, if query is); the
// gradients have any of these types, loss is float32. Shapes as in the operator's description. A missing length is an
// empty vector. The kernel is always deterministic. Throws std::invalid_argument for anything else. A NaN or an infinity
// reaches the gradients of the row and of the keys that it selects.
//
// Scratch memory: for each document being worked on up to kSlices times the keys' gradient in double.
inline void sparse_lightning_indexer_grad_kl_loss(
  const TensorView& query,
  const TensorView& key,
  const TensorView& query_index,
  const TensorView& key_index,
  const TensorView& weights,
  const TensorView& sparse_indices,
  const TensorView& softmax_max,
  const TensorView& softmax_sum,
  const std::optional<TensorView>& query_rope,
  const std::optional<TensorView>& key_rope,
  const std::vector<int64_t>& actual_seq_qlen,
  const std::vector<int64_t>& actual_seq_klen,
  double scale_value,
  const std::string& layout,
  int64_t sparse_mode,
  int64_t pre_tokens,
  int64_t next_tokens,
  bool /*deterministic*/,
  const TensorView& d_query_index,
  const TensorView& d_key_index,
  const TensorView& d_weights,
  const TensorView& loss
) {
  CheckCausalMask(sparse_mode, pre_tokens, next_tokens);
  SparseKlLossTensors tensors;
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
  tensors.sparse_indices = sparse_indices;
  Extents extents = CheckKlLoss(tensors, loss);
  CheckDType("sparse_indices", sparse_indices, DType::kInt32);
  extents.Bind("sparse_indices", sparse_indices, tensors.packed ? "T1 1 K" : "B S1 1 K");
  const auto documents = DocumentsOf(query, key, actual_seq_qlen, actual_seq_klen, layout);
  const bool in_double = query.dtype == DType::kFloat64;
  const auto run = in_double ? HP_FASTEST(SparseKlLossOfDocument<double>) : HP_FASTEST(SparseKlLossOfDocument<float>);
  SumOverDocuments(documents, loss, [&](const Document& document) { return run(tensors, document); });
}

}  // namespace hyper_parallel::cpu
