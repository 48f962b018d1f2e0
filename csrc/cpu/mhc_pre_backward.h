// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The backward of the pre-mapping of hyper-connections. Nothing that the forward has saved is computed again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/mhc_extents.h"
#include "csrc/cpu/mhc_pre_forward.h"
#include "csrc/cpu/mhc_projection.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/sinkhorn.h"
#include "csrc/cpu/tensor_view.h"
#include "csrc/cpu/token_block.h"

namespace hyper_parallel::cpu {

struct MhcPreCotangents {
  const TensorView& h_in;
  const TensorView& h_post;
  const TensorView& h_res;
};

struct MhcPreSaved {
  const TensorView& h_pre;
  const TensorView& hc_before_norm;
  const TensorView& inv_rms;
  const TensorView& sum_out;
  const TensorView& norm_out;
  const TensorView* h_res_logits;  // only where logits are clamped

  int64_t steps() const { return norm_out.dim(0); }
};

struct MhcPreGradients {
  const TensorView& x;
  const TensorView& phi;
  const TensorView& alpha;
  const TensorView& bias;
};

inline void CheckMhcPreSaved(const MhcPreSaved& saved, MhcTensors* tensors) {
  const int64_t steps = saved.norm_out.shape.empty() ? 0 : saved.steps();
  if (steps < 2 || steps % 2 != 0) {
    throw std::invalid_argument(
      "norm_out should have 2 * num_iters steps (dim 0), but has shape " + ShapeText(saved.norm_out.shape)
    );
  }
  tensors->Bind("h_pre", saved.h_pre, ". N");
  tensors->Bind("hc_before_norm", saved.hc_before_norm, ". " + std::to_string(tensors->extents().logits()));
  tensors->Bind("inv_rms", saved.inv_rms, ". 1");
  tensors->Bind("norm_out", saved.norm_out, "I . N N");
  tensors->Bind("sum_out", saved.sum_out, "I . N");
  if (saved.h_res_logits != nullptr) {
    tensors->Bind("h_res_logits", *saved.h_res_logits, "I . N N");
  }
}

inline MhcExtents CheckMhcPreBackward(
  const MhcPreCotangents& cotangents,
  const MhcPreInputs& inputs,
  const MhcPreSaved& saved,
  const MhcPreGradients& gradients
) {
  MhcTensors tensors = CheckMhcPreInputs(inputs);
  const MhcExtents extents = tensors.extents();
  const std::string logits = std::to_string(extents.logits());
  tensors.Bind("the gradient of h_in", cotangents.h_in, ". C");
  tensors.Bind("the gradient of h_post", cotangents.h_post, ". N");
  tensors.Bind("the gradient of h_res", cotangents.h_res, ". N N");
  CheckMhcPreSaved(saved, &tensors);
  tensors.Bind("the gradient of x", gradients.x, ". N C");
  tensors.Bind("the gradient of phi", gradients.phi, logits + " " + std::to_string(extents.all_widths()));
  tensors.Bind("the gradient of alpha", gradients.alpha, "3");
  tensors.Bind("the gradient of bias", gradients.bias, logits);
  return extents;
}

// The gradient of a block's residual logits, [N*N][tokens].
inline BlockValues ResidualLogitGradient(
  const TensorView& grad_h_res,
  const MhcPreSaved& saved,
  const MhcExtents& extents,
  double hc_eps,
  const LogitBounds& bounds,
  const TokenBlock& block
) {
  const int64_t streams = extents.streams;
  const int64_t entries = streams * streams;
  BlockValues gradient = LoadBlock(grad_h_res, entries, block);
  BlockValues matrix(entries, block);
  BlockValues sums(streams, block);
  for (int64_t step = saved.steps() - 1; step > 0; --step) {
    LoadBlock(saved.norm_out, step * extents.tokens * entries, block, &matrix);
    LoadBlock(saved.sum_out, step * extents.tokens * streams, block, &sums);
    NormaliseStepBackward(step, streams, matrix, sums, &gradient);
  }
  LoadBlock(saved.norm_out, 0, block, &matrix);
  SoftmaxRowsBackward(streams, hc_eps, matrix, &gradient);
  if (saved.h_res_logits != nullptr && bounds.hold()) {
    const BlockValues logits = LoadBlock(*saved.h_res_logits, entries, block);
    for (int64_t entry = 0; entry < entries; ++entry) {
      for (int64_t t = 0; t < block.count; ++t) {
        const bool inside = bounds.low <= logits[entry][t] && logits[entry][t] <= bounds.high;
        gradient[entry][t] *= inside ? 1.0 : 0.0;
      }
    }
  }
  return gradient;
}

// The gradient of a block's logits h, [L][tokens], through the sigmoids and the Sinkhorn iterations.
template <typename Real>
BlockValues LogitGradient(
  const MhcPreCotangents& cotangents,
  const MhcPreInputs& inputs,
  const LogitScales& scales,
  const MhcPreSaved& saved,
  const MhcExtents& extents,
  double hc_eps,
  const LogitBounds& bounds,
  const TokenBlock& block
) {
  const int64_t streams = extents.streams;
  const BlockValues d_h_pre = MixingWeightGradient<Real>(inputs.x, cotangents.h_in, extents, block);
  const BlockValues d_h_post = LoadBlock(cotangents.h_post, streams, block);
  const BlockValues d_res = ResidualLogitGradient(cotangents.h_res, saved, extents, hc_eps, bounds, block);
  const BlockValues h_pre = LoadBlock(saved.h_pre, streams, block);
  const BlockValues projection = LoadBlock(saved.hc_before_norm, extents.logits(), block);
  const BlockValues inv_rms = LoadBlock(saved.inv_rms, 1, block);
  BlockValues gradient(extents.logits(), block);
  for (int64_t n = 0; n < streams; ++n) {
    const int64_t post = streams + n;
    const double alpha = scales.alpha[static_cast<size_t>(post)];
    const double bias = scales.bias[static_cast<size_t>(post)];
    for (int64_t t = 0; t < block.count; ++t) {
      const double gate = h_pre[n][t] - hc_eps;
      const double spread = Sigmoid(alpha * (projection[post][t] * inv_rms[0][t]) + bias);
      gradient[n][t] = d_h_pre[n][t] * gate * (1.0 - gate);
      gradient[post][t] = 2.0 * d_h_post[n][t] * spread * (1.0 - spread);
    }
  }
  for (int64_t entry = 0; entry < streams * streams; ++entry) {
    std::copy_n(d_res[entry], block.count, gradient[2 * streams + entry]);
  }
  return gradient;
}

// A block's share of the gradients of alpha (3) and bias (L), one after the other.
inline void ShareOfScales(
  const BlockValues& d_logits,
  const BlockValues& projection,
  const BlockValues& inv_rms,
  int64_t streams,
  double* share
) {
  for (int64_t l = 0; l < d_logits.entries(); ++l) {
    double by_alpha = 0;
    double by_bias = 0;
    for (int64_t t = 0; t < d_logits.tokens(); ++t) {
      by_alpha += d_logits[l][t] * projection[l][t] * inv_rms[0][t];
      by_bias += d_logits[l][t];
    }
    share[LogitScales::Part(l, streams)] += by_alpha;
    share[3 + l] = by_bias;
  }
}

// Through alpha * (projection * inv_rms) + bias, with inv_rms = (mean(xf^2) + norm_eps) ** -0.5: what a block's
// streams and phi get.
template <typename Real>
void ThroughProjection(
  const BlockValues& d_logits,
  const BlockValues& projection,
  const BlockValues& inv_rms,
  const LogitScales& scales,
  const MhcExtents& extents,
  const TokenBlock& block,
  ProjectionGradient<Real>* gradient
) {
  for (int64_t t = 0; t < block.count; ++t) {
    const double norm = inv_rms[0][t];
    Real* row = gradient->projection.data() + (block.begin + t) * extents.logits();
    double d_norm = 0;
    for (int64_t l = 0; l < extents.logits(); ++l) {
      const double d_normed = d_logits[l][t] * scales.alpha[static_cast<size_t>(l)];
      row[l] = static_cast<Real>(d_normed * norm);
      d_norm += d_normed * projection[l][t];
    }
    const double shrinkage = -d_norm * norm * norm * norm / static_cast<double>(extents.all_widths());
    gradient->shrinkage.data()[block.begin + t] = shrinkage;
  }
}

template <typename Real>
void MhcPreBackwardBlock(
  const MhcPreCotangents& cotangents,
  const MhcPreInputs& inputs,
  const LogitScales& scales,
  const MhcPreSaved& saved,
  const MhcExtents& extents,
  double hc_eps,
  const LogitBounds& bounds,
  const TokenBlock& block,
  double* share,
  ProjectionGradient<Real>* gradient,
  const TensorView& d_x
) {
  const BlockValues projection = LoadBlock(saved.hc_before_norm, extents.logits(), block);
  const BlockValues inv_rms = LoadBlock(saved.inv_rms, 1, block);
  const BlockValues h_pre = LoadBlock(saved.h_pre, extents.streams, block);
  const BlockValues d_logits =
    LogitGradient<Real>(cotangents, inputs, scales, saved, extents, hc_eps, bounds, block);
  ShareOfScales(d_logits, projection, inv_rms, extents.streams, share);
  ThroughProjection(d_logits, projection, inv_rms, scales, extents, block, gradient);
  StreamGradients(inputs.x, inputs.phi, cotangents.h_in, h_pre, *gradient, extents, block, d_x);
}

template <typename Real>
void MhcPreBackwardBlocks(
  const MhcPreCotangents& cotangents,
  const MhcPreInputs& inputs,
  const MhcPreSaved& saved,
  const MhcExtents& extents,
  double hc_eps,
  const LogitBounds& bounds,
  const MhcPreGradients& gradients
) {
  const LogitScales scales(inputs.alpha, inputs.bias, extents.streams);
  const int64_t share = 3 + extents.logits();
  AlignedBuffer<double> shares(extents.blocks() * share);
  ProjectionGradient<Real> gradient(extents);
  ParallelFor(0, extents.blocks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      MhcPreBackwardBlock(
        cotangents,
        inputs,
        scales,
        saved,
        extents,
        hc_eps,
        bounds,
        extents.Block(index),
        shares.data() + index * share,
        &gradient,
        gradients.x
      );
    }
  });
  PhiGradient(inputs.x, gradient, extents, gradients.phi);
  AlignedBuffer<double> total(share);
  for (int64_t index = 0; index < extents.blocks(); ++index) {
    for (int64_t i = 0; i < share; ++i) {
      total.data()[i] += shares.data()[index * share + i];
    }
  }
  StoreElements(total.data(), 0, 3, gradients.alpha);
  StoreElements(total.data() + 3, 0, extents.logits(), gradients.bias);
}

inline void MhcPreBackward(
  const MhcPreCotangents& cotangents,
  const MhcPreInputs& inputs,
  const MhcPreSaved& saved,
  double hc_eps,
  const LogitBounds& bounds,
  const MhcPreGradients& gradients
) {
  const MhcExtents extents = CheckMhcPreBackward(cotangents, inputs, saved, gradients);
  const auto run = inputs.x.dtype == DType::kFloat64 ? MhcPreBackwardBlocks<double> : MhcPreBackwardBlocks<float>;
  run(cotangents, inputs, saved, extents, hc_eps, bounds, gradients);
}

}  // namespace hyper_parallel::cpu
