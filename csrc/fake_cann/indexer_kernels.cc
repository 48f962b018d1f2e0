// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the lightning indexer. In layout BSND tensors have batches of equal length, in TND packed documents.
#include <limits>
#include <string>
#include <vector>

#include "csrc/cpu/dense_lightning_indexer.h"
#include "csrc/cpu/lightning_indexer.h"
#include "csrc/cpu/sparse_lightning_indexer.h"
#include "csrc/fake_cann/plan.h"

namespace fake_cann {
namespace {

// What the layout says of the dims: B S1 or T1 for the rows of queries, B S2 or T2 for those of keys.
struct Rows {
  bool is_packed;
  std::string query;
  std::string key;

  // Statistics have the heads in front of the rows, but behind the batch.
  std::string Statistics(const std::string& heads) const { return is_packed ? heads + " T1" : "B " + heads + " S1"; }
};

Rows RowsOf(const Plan& plan, const std::string& layout) {
  plan.Demand(layout == "BSND" || layout == "TND", "layout should be BSND or TND, but is " + layout);
  return layout == "TND" ? Rows{true, "T1", "T2"} : Rows{false, "B S1", "B S2"};
}

void CheckMask(const Plan& plan, int64_t sparseMode, int64_t preTokens, int64_t nextTokens) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  plan.Demand(sparseMode == 3, "sparseMode should be 3, but is " + std::to_string(sparseMode));
  plan.Demand(preTokens == kUnlimited, "preTokens should be INT64_MAX, but is " + std::to_string(preTokens));
  plan.Demand(nextTokens == kUnlimited, "nextTokens should be INT64_MAX, but is " + std::to_string(nextTokens));
}

// Cumulative document ends, up to the number of tokens; none in layout BSND.
void CheckEnds(
  const Plan& plan,
  const std::string& name,
  const std::vector<int64_t>& ends,
  const Rows& rows,
  const std::string& dim
) {
  if (!rows.is_packed) {
    plan.Demand(ends.empty(), name + " belongs to layout TND");
    return;
  }
  int64_t last = 0;
  for (const int64_t end : ends) {
    plan.Demand(end >= last, name + " should not decrease");
    last = end;
  }
  plan.Demand(!ends.empty() && last == plan[dim], name + " should end at " + dim);
}

// The indexer's own tensors, by the names that each kernel gives them.
void IndexTensors(
  Plan& plan,
  const Rows& rows,
  const aclTensor* query,
  const aclTensor* key,
  const aclTensor* weights,
  const std::string& query_name,
  const std::string& key_name
) {
  plan.Input(query_name, query, kHalf, rows.query + " N1i Di");
  plan.Input(key_name, key, {query->dtype}, rows.key + " 1 Di");
  plan.Input("weights", weights, {query->dtype, ACL_FLOAT}, rows.query + " N1i");
  const int64_t heads = plan["N1i"];
  plan.Demand(heads == 8 || heads == 16 || heads == 32 || heads == 64, "there should be 8, 16, 32 or 64 index heads");
  plan.Demand(plan["Di"] == 128, "the index heads should have size 128");
  plan.Demand(rows.is_packed || plan["S1"] <= plan["S2"], "S1 should not be larger than S2");
}

struct LossTensors {
  const aclTensor* query;
  const aclTensor* key;
  const aclTensor* queryIndex;
  const aclTensor* keyIndex;
  const aclTensor* weights;
  const aclTensor* softmaxMax;
  const aclTensor* softmaxSum;
  const aclTensor* queryRope;
  const aclTensor* keyRope;
  const aclTensor* dQueryIndex;
  const aclTensor* dKeyIndex;
  const aclTensor* dWeights;
  const aclTensor* loss;
};

// Main attention and indexer, up to the weights.
void LossInputs(Plan& plan, const Rows& rows, const LossTensors& all) {
  plan.Input("query", all.query, kHalf, rows.query + " N1 D");
  plan.Input("key", all.key, {all.query->dtype}, rows.key + " N2 D");
  IndexTensors(plan, rows, all.queryIndex, all.keyIndex, all.weights, "queryIndex", "keyIndex");
  plan.Demand(all.queryIndex->dtype == all.query->dtype, "queryIndex should have the type of query");
}

void LossStatistics(Plan& plan, const Rows& rows, const LossTensors& all) {
  plan.Input("softmaxMax", all.softmaxMax, kFloat, rows.Statistics("N2") + " G");
  plan.Input("softmaxSum", all.softmaxSum, kFloat, rows.Statistics("N2") + " G");
  plan.Demand(plan["N2"] * plan["G"] == plan["N1"], "N1 should be N2*G");
}

void LossRopes(Plan& plan, const Rows& rows, const LossTensors& all) {
  plan.Demand((all.queryRope == nullptr) == (all.keyRope == nullptr), "queryRope and keyRope belong together");
  plan.OptionalInput("queryRope", all.queryRope, {all.query->dtype}, rows.query + " N1 64");
  plan.OptionalInput("keyRope", all.keyRope, {all.query->dtype}, rows.key + " N2 64");
}

void LossOutputs(Plan& plan, const Rows& rows, const LossTensors& all) {
  plan.Output("dQueryIndex", all.dQueryIndex, {all.queryIndex->dtype}, rows.query + " N1i Di");
  plan.Output("dKeyIndex", all.dKeyIndex, {all.keyIndex->dtype}, rows.key + " 1 Di");
  plan.Output("dWeights", all.dWeights, {all.weights->dtype}, rows.query + " N1i");
  plan.Output("loss", all.loss, kFloat, "1");
}

}  // namespace
}  // namespace fake_cann

using fake_cann::Arguments;
using fake_cann::Plan;
using fake_cann::Planned;
namespace cpu = hyper_parallel::cpu;

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
) {
  return Planned("aclnnDenseLightningIndexerSoftmaxLse", workspaceSize, executor, [&](Plan& plan) {
    const std::string format = plan.Text("layout", layout);
    const fake_cann::Rows rows = fake_cann::RowsOf(plan, format);
    fake_cann::IndexTensors(plan, rows, queryIndex, keyIndex, weights, "queryIndex", "keyIndex");
    const std::vector<int64_t> query_ends = plan.Ints("actualSeqQlen", actualSeqQlen);
    const std::vector<int64_t> key_ends = plan.Ints("actualSeqKlen", actualSeqKlen);
    fake_cann::CheckEnds(plan, "actualSeqQlen", query_ends, rows, "T1");
    fake_cann::CheckEnds(plan, "actualSeqKlen", key_ends, rows, "T2");
    fake_cann::CheckMask(plan, sparseMode, preTokens, nextTokens);
    plan.Output("softmaxMax", softmaxMax, fake_cann::kFloat, rows.Statistics("1"));
    plan.Output("softmaxSum", softmaxSum, fake_cann::kFloat, rows.Statistics("1"));
    plan.Compute([=](const Arguments& given) {
      cpu::dense_lightning_indexer_softmax_lse(
        given["queryIndex"],
        given["keyIndex"],
        given["weights"],
        query_ends,
        key_ends,
        format,
        sparseMode,
        preTokens,
        nextTokens,
        given["softmaxMax"],
        given["softmaxSum"]
      );
    });
  });
}

FAKE_CANN_LAUNCH(aclnnDenseLightningIndexerSoftmaxLse)

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
) {
  return Planned("aclnnDenseLightningIndexerGradKLLoss", workspaceSize, executor, [&](Plan& plan) {
    const std::string format = plan.Text("layout", layout);
    const fake_cann::Rows rows = fake_cann::RowsOf(plan, format);
    const fake_cann::LossTensors all{query, key, queryIndex, keyIndex, weights, softmaxMax, softmaxSum, queryRope, keyRope, dQueryIndex, dKeyIndex, dWeights, loss};
    fake_cann::LossInputs(plan, rows, all);
    fake_cann::LossStatistics(plan, rows, all);
    plan.Input("softmaxMaxIndex", softmaxMaxIndex, fake_cann::kFloat, rows.Statistics("1"));
    plan.Input("softmaxSumIndex", softmaxSumIndex, fake_cann::kFloat, rows.Statistics("1"));
    fake_cann::LossRopes(plan, rows, all);
    const std::vector<int64_t> query_ends = plan.Ints("actualSeqQlen", actualSeqQlen);
    const std::vector<int64_t> key_ends = plan.Ints("actualSeqKlen", actualSeqKlen);
    fake_cann::CheckEnds(plan, "actualSeqQlen", query_ends, rows, "T1");
    fake_cann::CheckEnds(plan, "actualSeqKlen", key_ends, rows, "T2");
    fake_cann::CheckMask(plan, sparseMode, preTokens, nextTokens);
    fake_cann::LossOutputs(plan, rows, all);
    plan.Compute([=](const Arguments& given) {
      cpu::dense_lightning_indexer_grad_kl_loss(
        given["query"],
        given["key"],
        given["queryIndex"],
        given["keyIndex"],
        given["weights"],
        given["softmaxMax"],
        given["softmaxSum"],
        given["softmaxMaxIndex"],
        given["softmaxSumIndex"],
        given.Optional("queryRope"),
        given.Optional("keyRope"),
        query_ends,
        key_ends,
        scaleValue,
        format,
        sparseMode,
        preTokens,
        nextTokens,
        given["dQueryIndex"],
        given["dKeyIndex"],
        given["dWeights"],
        given["loss"]
      );
    });
  });
}

FAKE_CANN_LAUNCH(aclnnDenseLightningIndexerGradKLLoss)

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
) {
  return Planned("aclnnSparseLightningIndexerGradKLLoss", workspaceSize, executor, [&](Plan& plan) {
    const std::string format = plan.Text("layout", layout);
    const fake_cann::Rows rows = fake_cann::RowsOf(plan, format);
    const fake_cann::LossTensors all{query, key, queryIndex, keyIndex, weights, softmaxMax, softmaxSum, queryRope, keyRope, dQueryIndex, dKeyIndex, dWeights, loss};
    fake_cann::LossInputs(plan, rows, all);
    plan.Input("sparseIndices", sparseIndices, fake_cann::kInt32, rows.query + " 1 K");
    fake_cann::LossStatistics(plan, rows, all);
    fake_cann::LossRopes(plan, rows, all);
    const std::vector<int64_t> query_ends = plan.Ints("actualSeqQlen", actualSeqQlen);
    const std::vector<int64_t> key_ends = plan.Ints("actualSeqKlen", actualSeqKlen);
    fake_cann::CheckEnds(plan, "actualSeqQlen", query_ends, rows, "T1");
    fake_cann::CheckEnds(plan, "actualSeqKlen", key_ends, rows, "T2");
    fake_cann::CheckMask(plan, sparseMode, preTokens, nextTokens);
    plan.Demand(deterministic, "deterministic should be true");
    fake_cann::LossOutputs(plan, rows, all);
    plan.Compute([=](const Arguments& given) {
      cpu::sparse_lightning_indexer_grad_kl_loss(
        given["query"],
        given["key"],
        given["queryIndex"],
        given["keyIndex"],
        given["weights"],
        given["sparseIndices"],
        given["softmaxMax"],
        given["softmaxSum"],
        given.Optional("queryRope"),
        given.Optional("keyRope"),
        query_ends,
        key_ends,
        scaleValue,
        format,
        sparseMode,
        preTokens,
        nextTokens,
        deterministic,
        given["dQueryIndex"],
        given["dKeyIndex"],
        given["dWeights"],
        given["loss"]
      );
    });
  });
}

FAKE_CANN_LAUNCH(aclnnSparseLightningIndexerGradKLLoss)

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
) {
  return Planned("aclnnLightningIndexerV2", workspaceSize, executor, [&](Plan& plan) {
    const std::string query_format = plan.Text("layoutQuery", layoutQuery);
    const std::string key_format = plan.Text("layoutKey", layoutKey);
    plan.Demand(query_format == key_format, "layoutQuery and layoutKey should be equal");
    const fake_cann::Rows rows = fake_cann::RowsOf(plan, query_format);
    fake_cann::IndexTensors(plan, rows, query, key, weights, "query", "key");
    plan.Demand((cuSeqLensQ != nullptr) == rows.is_packed, "cuSeqLensQ belongs to layout TND");
    plan.Demand((cuSeqLensK != nullptr) == rows.is_packed, "cuSeqLensK belongs to layout TND");
    plan.OptionalInput("cuSeqLensQ", cuSeqLensQ, fake_cann::kInt32, "ends");
    plan.OptionalInput("cuSeqLensK", cuSeqLensK, fake_cann::kInt32, "ends");
    plan.Absent("absentAfterLengths", absentAfterLengths);
    plan.Absent("absentBeforeResidual", absentBeforeResidual);
    // The kernel takes them; there is no mathematics for them here.
    plan.Absent("cmpResidualK", cmpResidualK);
    plan.Absent("blockTable", blockTable);
    plan.Absent("absentAfterTable", absentAfterTable);
    plan.Absent("absentBeforeCount", absentBeforeCount);
    plan.Demand(alwaysMinusOne == -1, "the number behind sparseCount should be -1");
    plan.Demand(sparseMode == 0 || sparseMode == 3, "sparseMode should be 0 or 3");
    plan.Demand(cmpRatio == 1, "cmpRatio should be 1");
    const std::string selected = rows.query + " 1 " + std::to_string(sparseCount);
    plan.Output("sparseIndices", sparseIndices, fake_cann::kInt32, selected);
    plan.Output("sparseValues", sparseValues, fake_cann::kFloat, selected);
    plan.Compute([=](const Arguments& given) {
      cpu::lightning_indexer_v2(
        given["query"],
        given["key"],
        given["weights"],
        given.Optional("cuSeqLensQ"),
        given.Optional("cuSeqLensK"),
        std::nullopt,
        std::nullopt,
        std::nullopt,
        std::nullopt,
        std::nullopt,
        std::nullopt,
        sparseCount,
        alwaysMinusOne,
        query_format,
        key_format,
        sparseMode,
        cmpRatio,
        returnValue,
        given["sparseIndices"],
        given["sparseValues"]
      );
      if (!returnValue) {
        fake_cann::Unwritten(given["sparseValues"]);
      }
    });
  });
}

FAKE_CANN_LAUNCH(aclnnLightningIndexerV2)
