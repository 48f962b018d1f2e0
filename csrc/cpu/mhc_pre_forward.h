// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The forward of the pre-mapping of hyper-connections: a block of tokens at a time, which is projected, turned into
// weights, and mixed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/mhc_extents.h"
#include "csrc/cpu/mhc_projection.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/sinkhorn.h"
#include "csrc/cpu/tensor_view.h"
#include "csrc/cpu/token_block.h"

namespace hyper_parallel::cpu {

struct MhcPreInputs {
  const TensorView& x;
  const TensorView& phi;
  const TensorView& alpha;
  const TensorView& bias;
};

struct MhcPreOutputs {
  const TensorView& h_in;
  const TensorView& h_post;
  const TensorView& h_res;
  const TensorView& h_pre;
  const TensorView& hc_before_norm;
  const TensorView& inv_rms;
  const TensorView& sum_out;
  const TensorView& norm_out;
  const TensorView* h_res_logits;  // only where logits are clamped
};

// Bounds of the residual logits. They hold if low < high.
struct LogitBounds {
  double low = 0;
  double high = 0;

  bool hold() const { return low < high; }
  // In this order of the operands, not a number stays so.
  double Clamp(double logit) const { return hold() ? std::min(std::max(logit, low), high) : logit; }
};

struct MhcPreAttributes {
  int64_t num_iters;
  double hc_eps;
  double norm_eps;
  LogitBounds bounds;
};

inline double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));  // exp may overflow to infinity, whose inverse is what the sigmoid tends to
}

// alpha and bias of every logit: pre (N), post (N) and res (N*N) each have their own alpha.
struct LogitScales {
  LogitScales(const TensorView& alpha_view, const TensorView& bias_view, int64_t streams)
      : alpha(static_cast<size_t>(streams * streams + 2 * streams)), bias(alpha.size()) {
    double parts[3];
    LoadElements(alpha_view, 0, 3, parts);
    LoadElements(bias_view, 0, static_cast<int64_t>(bias.size()), bias.data());
    for (size_t l = 0; l < alpha.size(); ++l) {
      alpha[l] = parts[Part(static_cast<int64_t>(l), streams)];
    }
  }

  static int64_t Part(int64_t logit, int64_t streams) { return std::min<int64_t>(logit / streams, 2); }

  std::vector<double> alpha;
  std::vector<double> bias;
};

inline MhcTensors CheckMhcPreInputs(const MhcPreInputs& inputs) {
  MhcTensors tensors(inputs.x);
  const MhcExtents extents = tensors.extents();
  const std::string logits = std::to_string(extents.logits());
  tensors.Bind("phi", inputs.phi, logits + " " + std::to_string(extents.all_widths()));
  tensors.Bind("alpha", inputs.alpha, "3");
  tensors.Bind("bias", inputs.bias, logits);
  return tensors;
}

inline void CheckMhcPreOutputs(const MhcPreOutputs& outputs, int64_t num_iters, MhcTensors* tensors) {
  const int64_t streams = tensors->extents().streams;
  const std::string steps = std::to_string(2 * num_iters);
  tensors->Bind("h_in", outputs.h_in, ". C");
  tensors->Bind("h_post", outputs.h_post, ". N");
  tensors->Bind("h_res", outputs.h_res, ". " + std::to_string(streams * streams));
  tensors->Bind("h_pre", outputs.h_pre, ". N");
  tensors->Bind("hc_before_norm", outputs.hc_before_norm, ". " + std::to_string(tensors->extents().logits()));
  tensors->Bind("inv_rms", outputs.inv_rms, ". 1");
  tensors->Bind("sum_out", outputs.sum_out, steps + " . N");
  tensors->Bind("norm_out", outputs.norm_out, steps + " . N N");
  if (outputs.h_res_logits != nullptr) {
    tensors->Bind("h_res_logits", *outputs.h_res_logits, steps + " . N N");
  }
}

// The Sinkhorn iterations of a block on its residual logits, the last N*N of `logits`; every step is written.
inline void SinkhornBlock(
  const BlockValues& logits,
  const MhcExtents& extents,
  const MhcPreAttributes& attributes,
  const TokenBlock& block,
  const MhcPreOutputs& outputs
) {
  const int64_t streams = extents.streams;
  const int64_t entries = streams * streams;
  BlockValues matrix(entries, block);
  BlockValues sums(streams, block);  // zeros at first, which is what step 0 has
  for (int64_t entry = 0; entry < entries; ++entry) {
    for (int64_t t = 0; t < block.count; ++t) {
      matrix[entry][t] = attributes.bounds.Clamp(logits[2 * streams + entry][t]);
    }
  }
  SoftmaxRows(streams, attributes.hc_eps, &matrix);
  for (int64_t step = 0; step < 2 * attributes.num_iters; ++step) {
    if (step > 0) {
      NormaliseStep(step, streams, attributes.hc_eps, &matrix, &sums);
    }
    StoreBlock(sums, 0, streams, block, step * extents.tokens * streams, outputs.sum_out);
    StoreBlock(matrix, 0, entries, block, step * extents.tokens * entries, outputs.norm_out);
  }
  StoreBlock(matrix, 0, entries, block, 0, outputs.h_res);
  if (outputs.h_res_logits != nullptr) {
    const BlockValues zeros(entries, block);
    StoreBlock(logits, 2 * streams, entries, block, 0, *outputs.h_res_logits);
    for (int64_t step = 1; step < 2 * attributes.num_iters; ++step) {
      StoreBlock(zeros, 0, entries, block, step * extents.tokens * entries, *outputs.h_res_logits);
    }
  }
}

template <typename Real>
void MhcPreForwardBlock(
  const MhcPreInputs& inputs,
  const TransposedPhi<Real>& phi,
  const LogitScales& scales,
  const MhcExtents& extents,
  const MhcPreAttributes& attributes,
  const TokenBlock& block,
  const MhcPreOutputs& outputs
) {
  const int64_t streams = extents.streams;
  BlockValues logits(extents.logits(), block);
  BlockValues inv_rms(1, block);
  ProjectBlock(inputs.x, phi, extents, block, &logits, &inv_rms);
  for (int64_t t = 0; t < block.count; ++t) {
    inv_rms[0][t] = 1.0 / std::sqrt(inv_rms[0][t] / static_cast<double>(extents.all_widths()) + attributes.norm_eps);
  }
  StoreBlock(logits, 0, extents.logits(), block, 0, outputs.hc_before_norm);
  StoreBlock(inv_rms, 0, 1, block, 0, outputs.inv_rms);
  BlockValues gates(2 * streams, block);  // h_pre and h_post
  for (int64_t l = 0; l < extents.logits(); ++l) {
    const double alpha = scales.alpha[static_cast<size_t>(l)];
    const double bias = scales.bias[static_cast<size_t>(l)];
    for (int64_t t = 0; t < block.count; ++t) {
      logits[l][t] = alpha * (logits[l][t] * inv_rms[0][t]) + bias;
      if (l < 2 * streams) {
        gates[l][t] = l < streams ? Sigmoid(logits[l][t]) + attributes.hc_eps : 2.0 * Sigmoid(logits[l][t]);
      }
    }
  }
  StoreBlock(gates, 0, streams, block, 0, outputs.h_pre);
  StoreBlock(gates, streams, streams, block, 0, outputs.h_post);
  SinkhornBlock(logits, extents, attributes, block, outputs);
  MixStreams<Real>(inputs.x, gates, extents, block, outputs.h_in);
}

template <typename Real>
void MhcPreForwardBlocks(
  const MhcPreInputs& inputs,
  const MhcExtents& extents,
  const MhcPreAttributes& attributes,
  const MhcPreOutputs& outputs
) {
  const TransposedPhi<Real> phi(inputs.phi, extents);
  const LogitScales scales(inputs.alpha, inputs.bias, extents.streams);
  ParallelFor(0, extents.blocks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      MhcPreForwardBlock(inputs, phi, scales, extents, attributes, extents.Block(index), outputs);
    }
  });
}

inline void MhcPreForward(
  const MhcPreInputs& inputs,
  int64_t hc_mult,
  const MhcPreAttributes& attributes,
  const MhcPreOutputs& outputs
) {
  MhcTensors tensors = CheckMhcPreInputs(inputs);
  const MhcExtents extents = tensors.extents();
  if (hc_mult != extents.streams) {
    throw std::invalid_argument(
      "hc_mult should be N, the " + std::to_string(extents.streams) + " streams of x, but is " + std::to_string(hc_mult)
    );
  }
  if (attributes.num_iters < 1) {
    throw std::invalid_argument("num_iters should be at least 1, but is " + std::to_string(attributes.num_iters));
  }
  CheckMhcPreOutputs(outputs, attributes.num_iters, &tensors);
  const auto run = inputs.x.dtype == DType::kFloat64 ? MhcPreForwardBlocks<double> : MhcPreForwardBlocks<float>;
  run(inputs, extents, attributes, outputs);
}

}  // namespace hyper_parallel::cpu
