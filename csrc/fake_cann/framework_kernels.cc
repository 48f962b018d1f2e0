// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The few kernels that the framework launches itself around an operator: copies of views, ones and zeros for gradients,
// and what the tests' loss is made of. They take any strides, and compute in double.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "csrc/cpu/half.h"
#include "csrc/fake_cann/device.h"
#include "csrc/fake_cann/plan.h"

namespace fake_cann {
namespace {

using Index = std::vector<int64_t>;

// A tensor as it lies in memory, element by element.
class Elements {
 public:
  explicit Elements(const aclTensor& tensor) : tensor_(tensor) {}

  const Index& shape() const { return tensor_.shape; }

  double Read(const Index& index) const {
    switch (tensor_.dtype) {
      case ACL_BOOL:
        return *At<bool>(index) ? 1 : 0;
      case ACL_INT32:
        return *At<int32_t>(index);
      case ACL_INT64:
        return static_cast<double>(*At<int64_t>(index));
      case ACL_FLOAT16:
        return static_cast<float>(*At<cpu::Float16>(index));
      case ACL_BF16:
        return static_cast<float>(*At<cpu::BFloat16>(index));
      case ACL_FLOAT:
        return *At<float>(index);
      case ACL_DOUBLE:
        return *At<double>(index);
      default:
        throw std::invalid_argument("the fake has no elements of type " + std::to_string(tensor_.dtype));
    }
  }

  void Write(const Index& index, double value) const {
    switch (tensor_.dtype) {
      case ACL_BOOL:
        *At<bool>(index) = value != 0;
        break;
      case ACL_INT32:
        *At<int32_t>(index) = static_cast<int32_t>(value);
        break;
      case ACL_INT64:
        *At<int64_t>(index) = static_cast<int64_t>(value);
        break;
      case ACL_FLOAT16:
        *At<cpu::Float16>(index) = static_cast<cpu::Float16>(value);
        break;
      case ACL_BF16:
        *At<cpu::BFloat16>(index) = static_cast<cpu::BFloat16>(value);
        break;
      case ACL_FLOAT:
        *At<float>(index) = static_cast<float>(value);
        break;
      case ACL_DOUBLE:
        *At<double>(index) = value;
        break;
      default:
        throw std::invalid_argument("the fake has no elements of type " + std::to_string(tensor_.dtype));
    }
  }

 private:
  // `index` may have more dims than the tensor, whose dims are the last ones and are repeated where they are 1.
  template <typename T>
  T* At(const Index& index) const {
    int64_t place = tensor_.offset;
    const size_t before = index.size() - tensor_.shape.size();
    for (size_t i = 0; i < tensor_.shape.size(); ++i) {
      place += tensor_.shape[i] == 1 ? 0 : index[before + i] * tensor_.strides[i];
    }
    T* const address = static_cast<T*>(tensor_.data) + place;
    if (!IsDeviceMemory(address, sizeof(T))) {
      throw std::invalid_argument("an element is not in device memory");
    }
    return address;
  }

  aclTensor tensor_;
};

// Calls `each` with every index of a shape.
void ForEach(const Index& shape, const std::function<void(const Index&)>& each) {
  for (const int64_t extent : shape) {
    if (extent == 0) {
      return;
    }
  }
  Index index(shape.size(), 0);
  while (true) {
    each(index);
    size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1]) {
      index[--dim] = 0;
    }
    if (dim == 0) {
      return;
    }
  }
}

using Compute = std::function<void(const std::vector<Elements>&)>;

// `tensors` are those of the call, in its order.
aclnnStatus PlannedElementwise(
  const char* kernel,
  const std::vector<const aclTensor*>& tensors,
  uint64_t* workspace_size,
  aclOpExecutor** executor,
  const Compute& compute
) {
  *executor = NewExecutor(kernel, tensors, [tensors, compute]() {
    std::vector<Elements> elements;
    for (const aclTensor* tensor : tensors) {
      elements.emplace_back(*tensor);
    }
    return [elements, compute]() { compute(elements); };
  });
  *workspace_size = (*executor)->workspace_size;
  return ACL_SUCCESS;
}

// The last tensor's elements from those of the others.
aclnnStatus PlannedMap(
  const char* kernel,
  const std::vector<const aclTensor*>& tensors,
  uint64_t* workspace_size,
  aclOpExecutor** executor,
  const std::function<double(const std::vector<double>&)>& function
) {
  return PlannedElementwise(kernel, tensors, workspace_size, executor, [function](const std::vector<Elements>& all) {
    const Elements& out = all.back();
    ForEach(out.shape(), [&](const Index& index) {
      std::vector<double> values;
      for (size_t i = 0; i + 1 < all.size(); ++i) {
        values.push_back(all[i].Read(index));
      }
      out.Write(index, function(values));
    });
  });
}

}  // namespace
}  // namespace fake_cann

using fake_cann::PlannedElementwise;
using fake_cann::PlannedMap;
using Values = std::vector<double>;

extern "C" {

aclnnStatus aclnnInplaceCopyGetWorkspaceSize(
  aclTensor* selfRef,
  const aclTensor* src,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return PlannedElementwise("aclnnInplaceCopy", {selfRef, src}, workspaceSize, executor, [](const auto& all) {
    fake_cann::ForEach(all[0].shape(), [&](const fake_cann::Index& index) { all[0].Write(index, all[1].Read(index)); });
  });
}

aclnnStatus aclnnInplaceOneGetWorkspaceSize(aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PlannedMap("aclnnInplaceOne", {selfRef}, workspaceSize, executor, [](const Values&) { return 1.0; });
}

aclnnStatus aclnnInplaceZeroGetWorkspaceSize(aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PlannedMap("aclnnInplaceZero", {selfRef}, workspaceSize, executor, [](const Values&) { return 0.0; });
}

aclnnStatus aclnnCastGetWorkspaceSize(
  const aclTensor* self,
  aclDataType /*dtype*/,
  aclTensor* out,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return PlannedMap("aclnnCast", {self, out}, workspaceSize, executor, [](const Values& of) { return of[0]; });
}

aclnnStatus aclnnAddsGetWorkspaceSize(
  const aclTensor* self,
  const aclScalar* other,
  const aclScalar* alpha,
  aclTensor* out,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  const double added = other->value * alpha->value;
  return PlannedMap("aclnnAdds", {self, out}, workspaceSize, executor, [added](const Values& of) {
    return of[0] + added;
  });
}

aclnnStatus aclnnAddGetWorkspaceSize(
  const aclTensor* self,
  const aclTensor* other,
  const aclScalar* alpha,
  aclTensor* out,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  const double factor = alpha->value;
  return PlannedMap("aclnnAdd", {self, other, out}, workspaceSize, executor, [factor](const Values& of) {
    return of[0] + factor * of[1];
  });
}

aclnnStatus aclnnMulGetWorkspaceSize(
  const aclTensor* self,
  const aclTensor* other,
  aclTensor* out,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return PlannedMap("aclnnMul", {self, other, out}, workspaceSize, executor, [](const Values& of) {
    return of[0] * of[1];
  });
}

// Over all dims.
aclnnStatus aclnnReduceSumGetWorkspaceSize(
  const aclTensor* self,
  const aclIntArray* /*dims*/,
  bool /*keepDims*/,
  aclDataType /*dtype*/,
  aclTensor* out,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return PlannedElementwise("aclnnReduceSum", {self, out}, workspaceSize, executor, [](const auto& all) {
    if (!all[1].shape().empty()) {
      throw std::invalid_argument("the fake has only the sum over all dims");
    }
    double sum = 0;
    fake_cann::ForEach(all[0].shape(), [&](const fake_cann::Index& index) { sum += all[0].Read(index); });
    all[1].Write({}, sum);
  });
}

// Along every dim, as often as `repeats` says.
aclnnStatus aclnnRepeatGetWorkspaceSize(
  const aclTensor* self,
  const aclIntArray* /*repeats*/,
  aclTensor* out,
  uint64_t* workspaceSize,
  aclOpExecutor** executor
) {
  return PlannedElementwise("aclnnRepeat", {self, out}, workspaceSize, executor, [](const auto& all) {
    const fake_cann::Index& shape = all[0].shape();
    const size_t before = all[1].shape().size() - shape.size();
    fake_cann::ForEach(all[1].shape(), [&](const fake_cann::Index& index) {
      fake_cann::Index source(index.begin() + static_cast<int64_t>(before), index.end());
      for (size_t i = 0; i < shape.size(); ++i) {
        source[i] %= shape[i];
      }
      all[1].Write(index, all[0].Read(source));
    });
  });
}

}  // extern "C"

FAKE_CANN_LAUNCH(aclnnInplaceCopy)
FAKE_CANN_LAUNCH(aclnnInplaceOne)
FAKE_CANN_LAUNCH(aclnnInplaceZero)
FAKE_CANN_LAUNCH(aclnnCast)
FAKE_CANN_LAUNCH(aclnnAdds)
FAKE_CANN_LAUNCH(aclnnAdd)
FAKE_CANN_LAUNCH(aclnnMul)
FAKE_CANN_LAUNCH(aclnnReduceSum)
FAKE_CANN_LAUNCH(aclnnRepeat)
