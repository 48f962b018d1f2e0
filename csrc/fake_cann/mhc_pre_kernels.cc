// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "csrc/cpu/mhc_pre_sinkhorn.h"
#include "csrc/fake_cann/mhc_tokens.h"
#include "csrc/fake_cann/plan.h"

namespace fake_cann {
namespace {

// The number of mixes, N*N + 2*N, as a dim.
std::string MixesOf(int64_t streams) {
  return std::to_string(streams * streams + 2 * streams);
}

// x, whose dims the others are made of, has been seen.
void PreParameters(Plan& plan, const aclTensor* phi, const aclTensor* alpha, const aclTensor* bias) {
  const std::string mixes = MixesOf(plan["N"]);
  plan.Input("phi", phi, kFloat, mixes + " " + std::to_string(plan["N"] * plan["C"]));
  plan.Input("alpha", alpha, kFloat, "3");
  plan.Input("bias", bias, kFloat, mixes);
}

struct PreForwardTensors {
  const aclTensor* x;
  const aclTensor* phi;
  const aclTensor* alpha;
  const aclTensor* bias;
  const aclTensor* hIn;
  const aclTensor* hPost;
  const aclTensor* hRes;
  const aclTensor* hPre;
  const aclTensor* hcBeforeNorm;
  const aclTensor* invRms;
  const aclTensor* sumOut;
  const aclTensor* normOut;
};

// Returns the dims of the tokens.
std::string PreForward(Plan& plan, const PreForwardTensors& all, int32_t hcMult, int32_t numIters, bool outFlag) {
  const std::string tokens = TokensOf(plan, all.x);
  plan.Input("x", all.x, kHalf, tokens + " N C");
  PreParameters(plan, all.phi, all.alpha, all.bias);
  plan.Demand(hcMult == plan["N"], "hcMult should be N");
  plan.Demand(outFlag, "outFlag should be true, what the backward needs is not written otherwise");
  plan.Demand(numIters >= 1, "numIters should be at least 1");
  const std::string N = std::to_string(plan["N"]);
  const std::string steps = std::to_string(2 * numIters) + " " + tokens;
  plan.Output("hIn", all.hIn, {all.x->dtype}, tokens + " C");
  plan.Output("hPost", all.hPost, kFloat, tokens + " N");
  plan.Output("hRes", all.hRes, kFloat, tokens + " " + std::to_string(plan["N"] * plan["N"]));
  plan.Output("hPre", all.hPre, kFloat, tokens + " N");
  plan.Output("hcBeforeNorm", all.hcBeforeNorm, kFloat, tokens + " " + MixesOf(plan["N"]));
  plan.Output("invRms", all.invRms, kFloat, tokens + " 1");
  plan.Output("sumOut", all.sumOut, kFloat, steps + " " + N);
  plan.Output("normOut", all.normOut, kFloat, steps + " " + N + " " + N);
  return tokens;
}

struct PreBackwardTensors {
  const aclTensor* gradHIn;
  const aclTensor* gradHPost;
  const aclTensor* gradHRes;
  const aclTensor* x;
  const aclTensor* phi;
  const aclTensor* alpha;
  const aclTensor* bias;
  const aclTensor* hPre;
  const aclTensor* hcBeforeNorm;
  const aclTensor* invRms;
  const aclTensor* sumOut;
  const aclTensor* normOut;
  const aclTensor* gradX;
  const aclTensor* gradPhi;
  const aclTensor* gradAlpha;
  const aclTensor* gradBias;
};

// h_res_logits stands between the inputs and the gradients, where there is one; its dims are those of norm_out.
void PreBackward(Plan& plan, const PreBackwardTensors& all, const aclTensor* const* hResLogits) {
  const std::string tokens = TokensOf(plan, all.x);
  // The streams and the width, which the gradients' dims are named by, are those of x.
  const size_t rank = all.x->shape.size();
  const std::string N = std::to_string(all.x->shape[rank - 2]);
  const std::string C = std::to_string(all.x->shape[rank - 1]);
  plan.Input("gradHIn", all.gradHIn, {all.x->dtype}, tokens + " " + C);
  plan.Input("gradHPost", all.gradHPost, kFloat, tokens + " " + N);
  plan.Input("gradHRes", all.gradHRes, kFloat, tokens + " " + N + " " + N);
  plan.Input("x", all.x, kHalf, tokens + " N C");
  PreParameters(plan, all.phi, all.alpha, all.bias);
  plan.Input("hPre", all.hPre, kFloat, tokens + " N");
  plan.Input("hcBeforeNorm", all.hcBeforeNorm, kFloat, tokens + " " + MixesOf(plan["N"]));
  plan.Input("invRms", all.invRms, kFloat, tokens + " 1");
  plan.Input("sumOut", all.sumOut, kFloat, "steps " + tokens + " N");
  plan.Input("normOut", all.normOut, kFloat, "steps " + tokens + " N N");
  if (hResLogits != nullptr) {
    plan.Input("hResLogits", *hResLogits, kFloat, "steps " + tokens + " N N");
  }
  const std::string mixes = MixesOf(plan["N"]);
  plan.Output("gradX", all.gradX, {all.x->dtype}, tokens + " N C");
  plan.Output("gradPhi", all.gradPhi, kFloat, mixes + " " + std::to_string(plan["N"] * plan["C"]));
  plan.Output("gradAlpha", all.gradAlpha, kFloat, "3");
  plan.Output("gradBias", all.gradBias, kFloat, mixes);
}

}  // namespace
}  // namespace fake_cann

using fake_cann::Arguments;
using fake_cann::Plan;
using fake_cann::Planned;
namespace cpu = hyper_parallel::cpu;

aclnnStatus aclnnMhcPreSinkhornGetWorkspaceSize(
  const aclTensor* x,
  const aclTensor* phi,
  const aclTensor* alpha,
  const aclTensor* bias,
  int32_t hcMult,
  int32_t numIters,
  double hcEps,
  double normEps,
  bool outFlag,
  const aclTensor* hIn,
  const aclTensor* hPost,
  const aclTensor* hRes,
  const aclTensor* hPre,
  const aclTensor* hcBeforeNorm,
  const aclTensor* invRms,
  const aclTensor* sumOut,
  const aclTensor* normOut,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return Planned("aclnnMhcPreSinkhorn", workspaceSize, executor, [&](Plan& plan) {
    fake_cann::PreForward(
      plan,
      {x, phi, alpha, bias, hIn, hPost, hRes, hPre, hcBeforeNorm, invRms, sumOut, normOut},
      hcMult,
      numIters,
      outFlag
    );
    plan.Compute([=](const Arguments& given) {
      cpu::mhc_pre_sinkhorn(
        given["x"],
        given["phi"],
        given["alpha"],
        given["bias"],
        hcMult,
        numIters,
        hcEps,
        normEps,
        outFlag,
        given["hIn"],
        given["hPost"],
        given["hRes"],
        given["hPre"],
        given["hcBeforeNorm"],
        given["invRms"],
        given["sumOut"],
        given["normOut"]
      );
    });
  });
}

FAKE_CANN_LAUNCH(aclnnMhcPreSinkhorn)

aclnnStatus aclnnMhcPreSinkhornBackwardGetWorkspaceSize(
  const aclTensor* gradHIn,
  const aclTensor* gradHPost,
  const aclTensor* gradHRes,
  const aclTensor* x,
  const aclTensor* phi,
  const aclTensor* alpha,
  const aclTensor* bias,
  const aclTensor* hPre,
  const aclTensor* hcBeforeNorm,
  const aclTensor* invRms,
  const aclTensor* sumOut,
  const aclTensor* normOut,
  double hcEps,
  const aclTensor* gradX,
  const aclTensor* gradPhi,
  const aclTensor* gradAlpha,
  const aclTensor* gradBias,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return Planned("aclnnMhcPreSinkhornBackward", workspaceSize, executor, [&](Plan& plan) {
    const fake_cann::PreBackwardTensors all{gradHIn, gradHPost, gradHRes, x, phi, alpha, bias, hPre, hcBeforeNorm, invRms, sumOut, normOut, gradX, gradPhi, gradAlpha, gradBias};
    fake_cann::PreBackward(plan, all, nullptr);
    plan.Compute([=](const Arguments& given) {
      cpu::mhc_pre_sinkhorn_backward(
        given["gradHIn"],
        given["gradHPost"],
        given["gradHRes"],
        given["x"],
        given["phi"],
        given["alpha"],
        given["bias"],
        given["hPre"],
        given["hcBeforeNorm"],
        given["invRms"],
        given["sumOut"],
        given["normOut"],
        hcEps,
        given["gradX"],
        given["gradPhi"],
        given["gradAlpha"],
        given["gradBias"]
      );
    });
  });
}

FAKE_CANN_LAUNCH(aclnnMhcPreSinkhornBackward)

aclnnStatus aclnnMhcPreClampSinkhornGetWorkspaceSize(
  const aclTensor* x,
  const aclTensor* phi,
  const aclTensor* alpha,
  const aclTensor* bias,
  int32_t hcMult,
  int32_t numIters,
  double hcEps,
  double normEps,
  bool outFlag,
  double clampMin,
  double clampMax,
  const aclTensor* hIn,
  const aclTensor* hPost,
  const aclTensor* hRes,
  const aclTensor* hPre,
  const aclTensor* hcBeforeNorm,
  const aclTensor* invRms,
  const aclTensor* sumOut,
  const aclTensor* normOut,
  const aclTensor* hResLogits,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return Planned("aclnnMhcPreClampSinkhorn", workspaceSize, executor, [&](Plan& plan) {
    const std::string tokens = fake_cann::PreForward(
      plan,
      {x, phi, alpha, bias, hIn, hPost, hRes, hPre, hcBeforeNorm, invRms, sumOut, normOut},
      hcMult,
      numIters,
      outFlag
    );
    plan.Output("hResLogits", hResLogits, fake_cann::kFloat, std::to_string(2 * numIters) + " " + tokens + " N N");
    plan.Compute([=](const Arguments& given) {
      cpu::mhc_pre_clamp_sinkhorn(
        given["x"],
        given["phi"],
        given["alpha"],
        given["bias"],
        hcMult,
        numIters,
        hcEps,
        normEps,
        outFlag,
        clampMin,
        clampMax,
        given["hIn"],
        given["hPost"],
        given["hRes"],
        given["hPre"],
        given["hcBeforeNorm"],
        given["invRms"],
        given["sumOut"],
        given["normOut"],
        given["hResLogits"]
      );
    });
  });
}

FAKE_CANN_LAUNCH(aclnnMhcPreClampSinkhorn)

aclnnStatus aclnnMhcPreClampSinkhornBackwardGetWorkspaceSize(
  const aclTensor* gradHIn,
  const aclTensor* gradHPost,
  const aclTensor* gradHRes,
  const aclTensor* x,
  const aclTensor* phi,
  const aclTensor* alpha,
  const aclTensor* bias,
  const aclTensor* hPre,
  const aclTensor* hcBeforeNorm,
  const aclTensor* invRms,
  const aclTensor* sumOut,
  const aclTensor* normOut,
  const aclTensor* hResLogits,
  double hcEps,
  double clampMin,
  double clampMax,
  const aclTensor* gradX,
  const aclTensor* gradPhi,
  const aclTensor* gradAlpha,
  const aclTensor* gradBias,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return Planned("aclnnMhcPreClampSinkhornBackward", workspaceSize, executor, [&](Plan& plan) {
    const fake_cann::PreBackwardTensors all{gradHIn, gradHPost, gradHRes, x, phi, alpha, bias, hPre, hcBeforeNorm, invRms, sumOut, normOut, gradX, gradPhi, gradAlpha, gradBias};
    fake_cann::PreBackward(plan, all, &hResLogits);
    plan.Compute([=](const Arguments& given) {
      cpu::mhc_pre_clamp_sinkhorn_backward(
        given["gradHIn"],
        given["gradHPost"],
        given["gradHRes"],
        given["x"],
        given["phi"],
        given["alpha"],
        given["bias"],
        given["hPre"],
        given["hcBeforeNorm"],
        given["invRms"],
        given["sumOut"],
        given["normOut"],
        given["hResLogits"],
        hcEps,
        clampMin,
        clampMax,
        given["gradX"],
        given["gradPhi"],
        given["gradAlpha"],
        given["gradBias"]
      );
    });
  });
}

FAKE_CANN_LAUNCH(aclnnMhcPreClampSinkhornBackward)
