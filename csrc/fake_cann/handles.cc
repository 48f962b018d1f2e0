// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The entries of CANN that make and destroy its objects.
#include "csrc/fake_cann/handles.h"

#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>

#include "csrc/fake_cann/device.h"
#include "csrc/fake_cann/report.h"

namespace fake_cann {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::set<const void*>> live;
};

// Never destroyed: the framework's threads may come here after the end of main.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

template <typename T>
T* Made(const char* kind, T* object) {
  Created(kind, object);
  return object;
}

template <typename T>
int DestroyedStatus(const char* kind, const T* object) {
  if (!Destroyed(kind, object)) {
    return ACL_ERROR_INVALID_PARAM;
  }
  delete object;
  return ACL_SUCCESS;
}

double ValueOf(const void* value, aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return *static_cast<const float*>(value);
    case ACL_DOUBLE:
      return *static_cast<const double*>(value);
    case ACL_INT64:
      return static_cast<double>(*static_cast<const int64_t*>(value));
    case ACL_INT32:
      return *static_cast<const int32_t*>(value);
    case ACL_BOOL:
      return *static_cast<const bool*>(value) ? 1 : 0;
    default:
      AddFault("a scalar has a type that the fake does not know");
      return 0;
  }
}

}  // namespace

void Created(const char* kind, const void* object) {
  const std::lock_guard<std::mutex> locked(TheRegistry().mutex);
  TheRegistry().live[kind].insert(object);
}

bool Destroyed(const char* kind, const void* object) {
  {
    const std::lock_guard<std::mutex> locked(TheRegistry().mutex);
    if (TheRegistry().live[kind].erase(object) == 1) {
      return true;
    }
  }
  AddFault(std::string(kind) + " is destroyed that does not exist, or no longer");
  return false;
}

bool IsLive(const char* kind, const void* object) {
  const std::lock_guard<std::mutex> locked(TheRegistry().mutex);
  return TheRegistry().live[kind].count(object) == 1;
}

}  // namespace fake_cann

using fake_cann::DestroyedStatus;
using fake_cann::Made;

extern "C" {

aclTensor* aclCreateTensor(
  const int64_t* view_dims,
  uint64_t view_dims_num,
  aclDataType data_type,
  const int64_t* stride,
  int64_t offset,
  aclFormat,
  const int64_t* storage_dims,
  uint64_t storage_dims_num,
  void* tensor_data
) {
  const int64_t stored =
    std::accumulate(storage_dims, storage_dims + storage_dims_num, int64_t{1}, std::multiplies<int64_t>());
  return Made(
    fake_cann::kTensor,
    new aclTensor{
      {view_dims, view_dims + view_dims_num},
      data_type,
      {stride, stride + view_dims_num},
      offset,
      stored,
      tensor_data,
    }
  );
}

int aclDestroyTensor(const aclTensor* tensor) {
  // Frameworks destroy the null tensor of an argument that is missing.
  return tensor == nullptr ? ACL_SUCCESS : DestroyedStatus(fake_cann::kTensor, tensor);
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return Made(fake_cann::kIntArray, new aclIntArray{{value, value + size}});
}

int aclDestroyIntArray(const aclIntArray* array) {
  return array == nullptr ? ACL_SUCCESS : DestroyedStatus(fake_cann::kIntArray, array);
}

aclScalar* aclCreateScalar(void* value, aclDataType data_type) {
  return Made(fake_cann::kScalar, new aclScalar{data_type, fake_cann::ValueOf(value, data_type)});
}

int aclDestroyScalar(const aclScalar* scalar) {
  return scalar == nullptr ? ACL_SUCCESS : DestroyedStatus(fake_cann::kScalar, scalar);
}

int aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (!fake_cann::IsLive(fake_cann::kExecutor, executor)) {
    fake_cann::AddFault("an executor is kept that does not exist, or no longer");
    return ACL_ERROR_INVALID_PARAM;
  }
  executor->is_repeatable = true;
  return ACL_SUCCESS;
}

int aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return DestroyedStatus(fake_cann::kExecutor, executor);
}

// `index` counts the tensors of the call from 0, those that are null too.
int aclSetTensorAddr(aclOpExecutor* executor, size_t index, aclTensor* tensor, void* address) {
  if (!fake_cann::IsLive(fake_cann::kExecutor, executor)) {
    fake_cann::AddFault("an executor gets an address that does not exist, or no longer");
    return ACL_ERROR_INVALID_PARAM;
  }
  if (index >= executor->tensors.size() || executor->tensors[index] != tensor) {
    fake_cann::AddFault(executor->kernel + ": the tensor with number " + std::to_string(index) + " is another one");
    return ACL_ERROR_INVALID_PARAM;
  }
  tensor->data = address;
  return ACL_SUCCESS;
}

// Memory that plans share within a thread, which the fake has no use for.

int InitHugeMemThreadLocal(void*, bool) {
  return ACL_SUCCESS;
}

void UnInitHugeMemThreadLocal(void*, bool) {}

void ReleaseHugeMem(void*, bool) {}

int64_t fake_cann_live(const char* kind) {
  const std::lock_guard<std::mutex> locked(fake_cann::TheRegistry().mutex);
  return static_cast<int64_t>(fake_cann::TheRegistry().live[kind].size());
}

}  // extern "C"
