// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// A kernel of the fake: what its documentation demands of every argument, checked when it is planned, and what it
// computes, done after it has been launched.
//
//   aclnnStatus aclnnScaleGetWorkspaceSize(const aclTensor* x, double factor, const aclTensor* y, uint64_t* workspaceSize,
//                                          aclOpExecutor** executor) {
//     return Planned("aclnnScale", workspaceSize, executor, [&](Plan& plan) {
//       plan.Input("x", x, kHalf, "T D");
//       plan.Output("y", y, {x->dtype}, "T D");
//       plan.Compute([factor](const Arguments& given) { cpu::scale(given["x"], factor, given["y"]); });
//     });
//   }
//   FAKE_CANN_LAUNCH(aclnnScale)
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/arguments.h"
#include "csrc/cpu/tensor_view.h"
#include "csrc/fake_cann/handles.h"
#include "csrc/fake_cann/prototypes.h"

namespace fake_cann {

namespace cpu = ::hyper_parallel::cpu;

using Dtypes = std::set<aclDataType>;

inline const Dtypes kHalf = {ACL_FLOAT16, ACL_BF16};
inline const Dtypes kFloat = {ACL_FLOAT};
inline const Dtypes kInt32 = {ACL_INT32};

// A tensor's memory while the kernel runs: a copy of exactly its size, so that whoever reads or writes past it touches
// memory that is nobody's.
struct Staged {
  std::string name;
  bool is_output;
  cpu::TensorView view;
  void* device;
  std::unique_ptr<char[]> memory;
};

class Arguments {
 public:
  explicit Arguments(const std::vector<Staged>& staged) : staged_(staged) {}

  const cpu::TensorView& operator[](const std::string& name) const;
  // None for a tensor that is missing.
  std::optional<cpu::TensorView> Optional(const std::string& name) const;

 private:
  const std::vector<Staged>& staged_;
};

// Leaves an output with what memory held that nobody has written.
void Unwritten(const cpu::TensorView& output);

class Plan {
 public:
  explicit Plan(const std::string& kernel) : kernel_(kernel) {}

  // A tensor that has to be there, with one of the types and these dims: names or integers, "T N 128".
  void Input(const std::string& name, const aclTensor* tensor, const Dtypes& dtypes, const std::string& dims);
  // The same for one that may be null.
  void OptionalInput(const std::string& name, const aclTensor* tensor, const Dtypes& dtypes, const std::string& dims);
  // One that has to be null.
  void Absent(const std::string& name, const aclTensor* tensor);
  void Output(const std::string& name, const aclTensor* tensor, const Dtypes& dtypes, const std::string& dims);
  // The numbers of an array, which may be empty and not null.
  std::vector<int64_t> Ints(const std::string& name, const aclIntArray* array) const;
  // A string, not null.
  std::string Text(const std::string& name, const char* text) const;
  // Anything else that the documentation demands.
  void Demand(bool holds, const std::string& otherwise) const;

  // The extent of a dim that has been seen.
  int64_t operator[](const std::string& dim) const { return extents_[dim]; }

  void Compute(std::function<void(const Arguments&)> compute) { compute_ = std::move(compute); }

  aclOpExecutor* MakeExecutor() const;

 private:
  struct Parameter {
    std::string name;
    bool is_output;
    const aclTensor* tensor;
  };

  void Add(const Parameter& parameter, const Dtypes& dtypes, const std::string& dims);
  [[noreturn]] void Fail(const std::string& name, const std::string& problem) const;

  std::string kernel_;
  std::vector<Parameter> parameters_;
  cpu::Extents extents_;
  std::function<void(const Arguments&)> compute_;
};

// What is behind a planned call: `bind` is called at the launch, and what it returns when the device gets to it.
aclOpExecutor* NewExecutor(
  const std::string& kernel,
  const std::vector<const aclTensor*>& tensors,
  std::function<std::function<void()>()> bind
);

// What a kernel that writes no executor answers, as CANN does for wrong arguments.
constexpr aclnnStatus kInvalidArguments = 161002;

aclnnStatus Planned(
  const char* kernel,
  uint64_t* workspace_size,
  aclOpExecutor** executor,
  const std::function<void(Plan&)>& describe
);

aclnnStatus Launched(const char* kernel, void* workspace, uint64_t workspace_size, aclOpExecutor* executor);

}  // namespace fake_cann

// The second function of a kernel.
#define FAKE_CANN_LAUNCH(kernel)                                                        \
  extern "C" aclnnStatus kernel(                                                        \
    void* workspace, uint64_t workspace_size, aclOpExecutor* executor, void* /*stream*/ \
  ) {                                                                                   \
    return fake_cann::Launched(#kernel, workspace, workspace_size, executor);           \
  }
