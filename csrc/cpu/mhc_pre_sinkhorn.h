// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Pre-mapping of manifold-constrained hyper-connections on the host, with clamped residual logits and without.
#pragma once

#include <cstdint>

#include "csrc/cpu/mhc_pre_backward.h"
#include "csrc/cpu/mhc_pre_forward.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

// xf = flatten(x), inv_rms = 1 / sqrt(mean(xf^2) + norm_eps), hc_before_norm = xf @ phi^T and
// h = alpha * (hc_before_norm * inv_rms) + bias, in the parts pre (N), post (N) and res (N*N), each with its own alpha;
// h_pre = sigmoid(pre) + hc_eps, h_post = 2 * sigmoid(post), h_in = sum_n h_pre[n] * x[n, :]; norm_out and sum_out are
// the matrices and sums of the Sinkhorn iterations on res (see sinkhorn.h), h_res is the last matrix.
//
// x [., N, C], where . is one or two dims, phi [N*N + 2*N, N*C], alpha [3], bias [N*N + 2*N]; h_in [., C], h_post and
// h_pre [., N], h_res [., N*N], hc_before_norm [., N*N + 2*N], inv_rms [., 1], sum_out [2 * num_iters, ., N], its first
// slot zeros, and norm_out [2 * num_iters, ., N, N]. Each of them float16, bfloat16, float32 or float64. What is summed
// over the streams is computed in double if x is float64, in float otherwise; all the rest in double. Everything is
// written whatever out_flag says. Throws std::invalid_argument for anything else.
//
// Sums over N*C are within kStretch * 2^-24 of the sum of the magnitudes of their terms (see matrix_product.h).
inline void mhc_pre_sinkhorn(
  const TensorView& x,
  const TensorView& phi,
  const TensorView& alpha,
  const TensorView& bias,
  int32_t hc_mult,
  int32_t num_iters,
  double hc_eps,
  double norm_eps,
  bool /* out_flag */,
  const TensorView& h_in,
  const TensorView& h_post,
  const TensorView& h_res,
  const TensorView& h_pre,
  const TensorView& hc_before_norm,
  const TensorView& inv_rms,
  const TensorView& sum_out,
  const TensorView& norm_out
) {
  const MhcPreInputs inputs{x, phi, alpha, bias};
  const MhcPreOutputs outputs{h_in, h_post, h_res, h_pre, hc_before_norm, inv_rms, sum_out, norm_out, nullptr};
  MhcPreForward(inputs, hc_mult, {num_iters, hc_eps, norm_eps, {}}, outputs);
}

// The same with the residual logits clamped to [clamp_min, clamp_max] before the Sinkhorn iterations if
// clamp_min < clamp_max, and not clamped otherwise. h_res_logits, shaped like norm_out: the logits before the clamp in
// the first slot and zeros in the others.
inline void mhc_pre_clamp_sinkhorn(
  const TensorView& x,
  const TensorView& phi,
  const TensorView& alpha,
  const TensorView& bias,
  int32_t hc_mult,
  int32_t num_iters,
  double hc_eps,
  double norm_eps,
  bool /* out_flag */,
  double clamp_min,
  double clamp_max,
  const TensorView& h_in,
  const TensorView& h_post,
  const TensorView& h_res,
  const TensorView& h_pre,
  const TensorView& hc_before_norm,
  const TensorView& inv_rms,
  const TensorView& sum_out,
  const TensorView& norm_out,
  const TensorView& h_res_logits
) {
  const MhcPreInputs inputs{x, phi, alpha, bias};
  const MhcPreOutputs outputs{h_in, h_post, h_res, h_pre, hc_before_norm, inv_rms, sum_out, norm_out, &h_res_logits};
  MhcPreForward(inputs, hc_mult, {num_iters, hc_eps, norm_eps, {clamp_min, clamp_max}}, outputs);
}

// The gradients of mhc_pre_sinkhorn from those of h_in [., C], h_post [., N] and h_res [., N, N] (two dims where the
// output has one), and from what the forward has saved. Each has the shape of its input. Those of phi, alpha and bias
// are sums over the tokens in an order that does not depend on the number of threads.
inline void mhc_pre_sinkhorn_backward(
  const TensorView& grad_h_in,
  const TensorView& grad_h_post,
  const TensorView& grad_h_res,
  const TensorView& x,
  const TensorView& phi,
  const TensorView& alpha,
  const TensorView& bias,
  const TensorView& h_pre,
  const TensorView& hc_before_norm,
  const TensorView& inv_rms,
  const TensorView& sum_out,
  const TensorView& norm_out,
  double hc_eps,
  const TensorView& d_x,
  const TensorView& d_phi,
  const TensorView& d_alpha,
  const TensorView& d_bias
) {
  const MhcPreSaved saved{h_pre, hc_before_norm, inv_rms, sum_out, norm_out, nullptr};
  MhcPreBackward(
    {grad_h_in, grad_h_post, grad_h_res},
    {x, phi, alpha, bias},
    saved,
    hc_eps,
    {},
    {d_x, d_phi, d_alpha, d_bias}
  );
}

// The same for mhc_pre_clamp_sinkhorn: where a clamp holds, a residual logit has a gradient only if
// clamp_min <= logit <= clamp_max.
inline void mhc_pre_clamp_sinkhorn_backward(
  const TensorView& grad_h_in,
  const TensorView& grad_h_post,
  const TensorView& grad_h_res,
  const TensorView& x,
  const TensorView& phi,
  const TensorView& alpha,
  const TensorView& bias,
  const TensorView& h_pre,
  const TensorView& hc_before_norm,
  const TensorView& inv_rms,
  const TensorView& sum_out,
  const TensorView& norm_out,
  const TensorView& h_res_logits,
  double hc_eps,
  double clamp_min,
  double clamp_max,
  const TensorView& d_x,
  const TensorView& d_phi,
  const TensorView& d_alpha,
  const TensorView& d_bias
) {
  const MhcPreSaved saved{h_pre, hc_before_norm, inv_rms, sum_out, norm_out, &h_res_logits};
  MhcPreBackward(
    {grad_h_in, grad_h_post, grad_h_res},
    {x, phi, alpha, bias},
    saved,
    hc_eps,
    {clamp_min, clamp_max},
    {d_x, d_phi, d_alpha, d_bias}
  );
}

}  // namespace hyper_parallel::cpu
