// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "csrc/cpu/mhc_post.h"
#include "csrc/fake_cann/mhc_tokens.h"
#include "csrc/fake_cann/plan.h"

namespace fake_cann {
namespace {

void PostInputs(
  Plan& plan,
  const aclTensor* x,
  const aclTensor* hRes,
  const aclTensor* hOut,
  const aclTensor* hPost,
  const std::string& tokens
) {
  plan.Input("x", x, kHalf, tokens + " N D");
  plan.Input("hRes", hRes, kFloat, tokens + " N N");
  plan.Input("hOut", hOut, {x->dtype}, tokens + " D");
  plan.Input("hPost", hPost, kFloat, tokens + " N");
}

}  // namespace
}  // namespace fake_cann

using fake_cann::Arguments;
using fake_cann::Plan;
using fake_cann::Planned;
namespace cpu = hyper_parallel::cpu;

aclnnStatus aclnnMhcPostGetWorkspaceSize(
  const aclTensor* x,
  const aclTensor* hRes,
  const aclTensor* hOut,
  const aclTensor* hPost,
  const aclTensor* out,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return Planned("aclnnMhcPost", workspaceSize, executor, [&](Plan& plan) {
    const std::string tokens = fake_cann::TokensOf(plan, x);
    fake_cann::PostInputs(plan, x, hRes, hOut, hPost, tokens);
    plan.Output("out", out, {x->dtype}, tokens + " N D");
    plan.Compute([](const Arguments& given) {
      cpu::mhc_post(given["x"], given["hRes"], given["hOut"], given["hPost"], given["out"]);
    });
  });
}

FAKE_CANN_LAUNCH(aclnnMhcPost)

aclnnStatus aclnnMhcPostBackwardGetWorkspaceSize(
  const aclTensor* gradOut,
  const aclTensor* x,
  const aclTensor* hRes,
  const aclTensor* hOut,
  const aclTensor* hPost,
  const aclTensor* gradX,
  const aclTensor* gradHRes,
  const aclTensor* gradHOut,
  const aclTensor* gradHPost,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return Planned("aclnnMhcPostBackward", workspaceSize, executor, [&](Plan& plan) {
    const std::string tokens = fake_cann::TokensOf(plan, x);
    plan.Input("gradOut", gradOut, {x->dtype}, tokens + " N D");
    fake_cann::PostInputs(plan, x, hRes, hOut, hPost, tokens);
    plan.Output("gradX", gradX, {x->dtype}, tokens + " N D");
    plan.Output("gradHRes", gradHRes, fake_cann::kFloat, tokens + " N N");
    plan.Output("gradHOut", gradHOut, {x->dtype}, tokens + " D");
    plan.Output("gradHPost", gradHPost, fake_cann::kFloat, tokens + " N");
    plan.Compute([](const Arguments& given) {
      cpu::mhc_post_backward(
        given["gradOut"],
        given["x"],
        given["hRes"],
        given["hOut"],
        given["hPost"],
        given["gradX"],
        given["gradHRes"],
        given["gradHOut"],
        given["gradHPost"]
      );
    });
  });
}

FAKE_CANN_LAUNCH(aclnnMhcPostBackward)
