// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
#include "csrc/fake_cann/plan.h"

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "csrc/fake_cann/device.h"
#include "csrc/fake_cann/report.h"

namespace fake_cann {
namespace {

// What memory holds before anybody has written it, and what a workspace holds afterwards.
constexpr int kUnwritten = 0xA5;
constexpr uint64_t kWorkspaceGrain = 512;

std::atomic<int64_t> planned{0};
std::atomic<int64_t> launched{0};

cpu::DType DtypeOf(aclDataType dtype) {
  switch (dtype) {
    case ACL_BOOL:
      return cpu::DType::kBool;
    case ACL_INT32:
      return cpu::DType::kInt32;
    case ACL_INT64:
      return cpu::DType::kInt64;
    case ACL_FLOAT16:
      return cpu::DType::kFloat16;
    case ACL_BF16:
      return cpu::DType::kBFloat16;
    case ACL_FLOAT:
      return cpu::DType::kFloat32;
    case ACL_DOUBLE:
      return cpu::DType::kFloat64;
    default:
      throw std::invalid_argument("the fake has no elements of type " + std::to_string(dtype));
  }
}

size_t SizeOf(cpu::DType dtype) {
  switch (dtype) {
    case cpu::DType::kBool:
      return 1;
    case cpu::DType::kFloat16:
    case cpu::DType::kBFloat16:
      return 2;
    case cpu::DType::kInt32:
    case cpu::DType::kFloat32:
      return 4;
    default:
      return 8;
  }
}

bool IsContiguous(const aclTensor& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] == 0) {
      return true;
    }
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) {
      return false;
    }
    expected *= tensor.shape[i];
  }
  return true;
}

std::string DtypeText(const Dtypes& dtypes) {
  std::string text;
  for (const aclDataType dtype : dtypes) {
    text += (text.empty() ? "" : " or ") + std::string(cpu::DTypeName(DtypeOf(dtype)));
  }
  return text;
}

bool Overlap(const void* first, size_t first_size, const void* second, size_t second_size) {
  const auto a = reinterpret_cast<uintptr_t>(first);
  const auto b = reinterpret_cast<uintptr_t>(second);
  return a < b + second_size && b < a + first_size;
}

size_t BytesOf(const Staged& staged) {
  return static_cast<size_t>(staged.view.numel()) * SizeOf(staged.view.dtype);
}

Staged StagedOf(const std::string& kernel, const std::string& name, bool is_output, const aclTensor& tensor) {
  const cpu::DType dtype = DtypeOf(tensor.dtype);
  Staged staged{name, is_output, {nullptr, dtype, tensor.shape}, nullptr, nullptr};
  staged.device = static_cast<char*>(tensor.data) + static_cast<size_t>(tensor.offset) * SizeOf(dtype);
  const size_t bytes = BytesOf(staged);
  if (bytes > 0 && !IsDeviceMemory(staged.device, bytes)) {
    throw std::invalid_argument(kernel + ": " + name + " is not in device memory");
  }
  return staged;
}

void CheckOverlaps(const std::string& kernel, const std::vector<Staged>& staged) {
  for (const Staged& output : staged) {
    for (const Staged& other : staged) {
      if (output.is_output && &output != &other && Overlap(output.device, BytesOf(output), other.device, BytesOf(other))) {
        throw std::invalid_argument(kernel + ": " + output.name + " and " + other.name + " share memory");
      }
    }
  }
}

void CheckWorkspace(const aclOpExecutor& executor, const void* workspace, uint64_t size) {
  if (size != executor.workspace_size) {
    const std::string sizes = std::to_string(executor.workspace_size) + " bytes, but got " + std::to_string(size);
    throw std::invalid_argument(executor.kernel + ": the workspace should have " + sizes);
  }
  if (!IsDeviceMemory(workspace, size)) {
    throw std::invalid_argument(executor.kernel + ": the workspace is not in device memory");
  }
}

}  // namespace

const cpu::TensorView& Arguments::operator[](const std::string& name) const {
  for (const Staged& staged : staged_) {
    if (staged.name == name) {
      return staged.view;
    }
  }
  throw std::logic_error("the kernel has no tensor " + name);
}

std::optional<cpu::TensorView> Arguments::Optional(const std::string& name) const {
  for (const Staged& staged : staged_) {
    if (staged.name == name) {
      return staged.view;
    }
  }
  return std::nullopt;
}

void Unwritten(const cpu::TensorView& output) {
  std::memset(output.data, kUnwritten, static_cast<size_t>(output.numel()) * SizeOf(output.dtype));
}

void Plan::Input(const std::string& name, const aclTensor* tensor, const Dtypes& dtypes, const std::string& dims) {
  Demand(tensor != nullptr, name + " should not be null");
  Add({name, false, tensor}, dtypes, dims);
}

void Plan::OptionalInput(
  const std::string& name,
  const aclTensor* tensor,
  const Dtypes& dtypes,
  const std::string& dims
) {
  if (tensor == nullptr) {
    parameters_.push_back({name, false, nullptr});
  } else {
    Add({name, false, tensor}, dtypes, dims);
  }
}

void Plan::Absent(const std::string& name, const aclTensor* tensor) {
  Demand(tensor == nullptr, name + " should be null");
  parameters_.push_back({name, false, nullptr});
}

void Plan::Output(const std::string& name, const aclTensor* tensor, const Dtypes& dtypes, const std::string& dims) {
  Demand(tensor != nullptr, name + " should not be null");
  Add({name, true, tensor}, dtypes, dims);
}

std::vector<int64_t> Plan::Ints(const std::string& name, const aclIntArray* array) const {
  Demand(array != nullptr, name + " should be an array, an empty one if there is nothing in it, but is null");
  Demand(IsLive(kIntArray, array), name + " has been destroyed");
  return array->values;
}

std::string Plan::Text(const std::string& name, const char* text) const {
  Demand(text != nullptr, name + " should not be null");
  return text;
}

void Plan::Demand(bool holds, const std::string& otherwise) const {
  if (!holds) {
    throw std::invalid_argument(kernel_ + ": " + otherwise);
  }
}

void Plan::Add(const Parameter& parameter, const Dtypes& dtypes, const std::string& dims) {
  const auto& [name, is_output, tensor] = parameter;
  Demand(IsLive(kTensor, tensor), name + " has been destroyed");
  Demand(
    dtypes.count(tensor->dtype) == 1,
    name + " should be " + DtypeText(dtypes) + ", but is " + cpu::DTypeName(DtypeOf(tensor->dtype))
  );
  cpu::TensorView view{nullptr, DtypeOf(tensor->dtype), tensor->shape};
  try {
    extents_.Bind(name, view, dims);
  } catch (const std::invalid_argument& error) {
    Demand(false, error.what());
  }
  Demand(IsContiguous(*tensor), name + " should be contiguous, but is a view with strides");
  Demand(
    tensor->offset >= 0 && (view.numel() == 0 || tensor->offset + view.numel() <= tensor->storage_elements),
    name + " reaches past its storage"
  );
  parameters_.push_back(parameter);
}

aclOpExecutor* NewExecutor(
  const std::string& kernel,
  const std::vector<const aclTensor*>& tensors,
  std::function<std::function<void()>()> bind
) {
  auto* const executor = new aclOpExecutor;
  executor->kernel = kernel;
  executor->is_repeatable = false;
  executor->workspace_size = kWorkspaceGrain * (1 + tensors.size());
  for (const aclTensor* tensor : tensors) {
    executor->tensors.push_back(const_cast<aclTensor*>(tensor));
  }
  executor->bind = std::move(bind);
  Created(kExecutor, executor);
  return executor;
}

aclOpExecutor* Plan::MakeExecutor() const {
  std::vector<const aclTensor*> tensors;
  for (const Parameter& parameter : parameters_) {
    tensors.push_back(parameter.tensor);
  }
  return NewExecutor(kernel_, tensors, [kernel = kernel_, parameters = parameters_, compute = compute_]() {
    const auto staged = std::make_shared<std::vector<Staged>>();
    for (const auto& [name, is_output, tensor] : parameters) {
      if (tensor != nullptr) {
        if (!IsLive(kTensor, tensor)) {
          throw std::invalid_argument(kernel + ": " + name + " has been destroyed before the launch");
        }
        staged->push_back(StagedOf(kernel, name, is_output, *tensor));
      }
    }
    CheckOverlaps(kernel, *staged);
    return [staged, compute]() {
      for (Staged& each : *staged) {
        const size_t bytes = BytesOf(each);
        each.memory = std::make_unique<char[]>(bytes);
        each.view.data = each.memory.get();
        if (each.is_output) {
          std::memset(each.view.data, kUnwritten, bytes);
        } else if (bytes > 0) {
          std::memcpy(each.view.data, each.device, bytes);
        }
      }
      compute(Arguments(*staged));
      for (Staged& each : *staged) {
        if (each.is_output && BytesOf(each) > 0) {
          std::memcpy(each.device, each.view.data, BytesOf(each));
        }
        each.memory.reset();
      }
    };
  });
}

aclnnStatus Planned(
  const char* kernel,
  uint64_t* workspace_size,
  aclOpExecutor** executor,
  const std::function<void(Plan&)>& describe
) {
  try {
    Plan plan(kernel);
    describe(plan);
    *executor = plan.MakeExecutor();
    *workspace_size = (*executor)->workspace_size;
  } catch (const std::exception& error) {
    AddFault(error.what());
    return kInvalidArguments;
  }
  ++planned;
  return ACL_SUCCESS;
}

aclnnStatus Launched(const char* kernel, void* workspace, uint64_t workspace_size, aclOpExecutor* executor) {
  try {
    if (!IsLive(kExecutor, executor)) {
      throw std::invalid_argument(std::string(kernel) + ": the executor does not exist, or no longer");
    }
    if (executor->kernel != kernel) {
      throw std::invalid_argument(std::string(kernel) + ": the executor is one of " + executor->kernel);
    }
    CheckWorkspace(*executor, workspace, workspace_size);
    Submit([workspace, workspace_size] { std::memset(workspace, kUnwritten, workspace_size); });
    Submit(executor->bind());
  } catch (const std::exception& error) {
    AddFault(error.what());
    return kInvalidArguments;
  }
  ++launched;
  if (!executor->is_repeatable) {  // as in CANN, it has served its turn
    Destroyed(kExecutor, executor);
    delete executor;
  }
  return ACL_SUCCESS;
}

}  // namespace fake_cann

int64_t fake_cann_planned() {
  return fake_cann::planned;
}

int64_t fake_cann_launched() {
  return fake_cann::launched;
}
