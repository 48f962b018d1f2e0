// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels' documented prototypes. Each kernel is planned by ...GetWorkspaceSize, which takes its arguments, and
// launched by the function of its name. Written from the kernels' documentation and from nothing else in this
// repository: what the specs say is tried against it.
//
// The toolkit declares each kernel in a header of its own, aclnnop/aclnn_<name>.h.
#pragma once

#include <cstdint>

struct aclTensor;
struct aclIntArray;
struct aclOpExecutor;
using aclnnStatus = int32_t;

extern "C" {

aclnnStatus aclnnDenseLightningIndexerSoftmaxLseGetWorkspaceSize(
  const aclTensor* queryIndex,
  const aclTensor* keyIndex,
  const aclTensor* weights,
  const aclIntArray* actualSeqQlen,
  const aclIntArray* actualSeqKlen,
  char* layout,
  int64_t sparseMode,
  int64_t preTokens,
  int64_t nextTokens,
  const aclTensor* softmaxMax,
  const aclTensor* softmaxSum,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
);

aclnnStatus aclnnDenseLightningIndexerGradKLLossGetWorkspaceSize(
  const aclTensor* query,
  const aclTensor* key,
  const aclTensor* queryIndex,
  const aclTensor* keyIndex,
  const aclTensor* weights,
  const aclTensor* softmaxMax,
  const aclTensor* softmaxSum,
  const aclTensor* softmaxMaxIndex,
  const aclTensor* softmaxSumIndex,
  const aclTensor* queryRope,
  const aclTensor* keyRope,
  const aclIntArray* actualSeqQlen,
  const aclIntArray* actualSeqKlen,
  double scaleValue,
  char* layout,
  int64_t sparseMode,
  int64_t preTokens,
  int64_t nextTokens,
  const aclTensor* dQueryIndex,
  const aclTensor* dKeyIndex,
  const aclTensor* dWeights,
  const aclTensor* loss,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
);

aclnnStatus aclnnSparseLightningIndexerGradKLLossGetWorkspaceSize(
  const aclTensor* query,
  const aclTensor* key,
  const aclTensor* queryIndex,
  const aclTensor* keyIndex,
  const aclTensor* weights,
  const aclTensor* sparseIndices,
  const aclTensor* softmaxMax,
  const aclTensor* softmaxSum,
  const aclTensor* queryRope,
  const aclTensor* keyRope,
  const aclIntArray* actualSeqQlen,
  const aclIntArray* actualSeqKlen,
  double scaleValue,
  char* layout,
  int64_t sparseMode,
  int64_t preTokens,
  int64_t nextTokens,
  bool deterministic,
  const aclTensor* dQueryIndex,
  const aclTensor* dKeyIndex,
  const aclTensor* dWeights,
  const aclTensor* loss,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
);

// Four tensors between and behind the lengths are never given.
aclnnStatus aclnnLightningIndexerV2GetWorkspaceSize(
  const aclTensor* query,
  const aclTensor* key,
  const aclTensor* weights,
  const aclTensor* cuSeqLensQ,
  const aclTensor* cuSeqLensK,
  const aclTensor* absentAfterLengths,
  const aclTensor* absentBeforeResidual,
  const aclTensor* cmpResidualK,
  const aclTensor* blockTable,
  const aclTensor* absentAfterTable,
  const aclTensor* absentBeforeCount,
  int64_t sparseCount,
  int64_t alwaysMinusOne,
  char* layoutQuery,
  char* layoutKey,
  int64_t sparseMode,
  int64_t cmpRatio,
  bool returnValue,
  const aclTensor* sparseIndices,
  const aclTensor* sparseValues,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
);

aclnnStatus aclnnMhcPostGetWorkspaceSize(
  const aclTensor* x,
  const aclTensor* hRes,
  const aclTensor* hOut,
  const aclTensor* hPost,
  const aclTensor* out,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
);

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
);

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
);

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
);

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
);

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
);

}  // extern "C"
