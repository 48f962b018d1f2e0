// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The runtime's entries (acl/acl_rt.h) that MindSpore needs to run on one device. One that is missing here is null to
// MindSpore, which says so by its name.
#include <cstdint>
#include <cstring>
#include <memory>

#include "acl/acl.h"
#include "acl/acl_tdt.h"
#include "csrc/fake_cann/device.h"
#include "hccl/hccl.h"

namespace {

constexpr size_t kDeviceBytes = size_t{4} << 30;
constexpr uint32_t kCores = 24;

aclError StatusOfWait() {
  return fake_cann::Wait() ? ACL_SUCCESS : ACL_ERROR_RT_AICORE_EXCEPTION;
}

bool IsOnDevice(aclrtMemcpyKind kind, bool destination) {
  return kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
         kind == (destination ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST);
}

aclError CheckedCopy(void* to, size_t room, const void* from, size_t size, aclrtMemcpyKind kind) {
  if (size > room) {
    fake_cann::AddFault("a copy is larger than the room for it");
    return ACL_ERROR_INVALID_PARAM;
  }
  if (IsOnDevice(kind, true) != fake_cann::IsDeviceMemory(to, size) || IsOnDevice(kind, false) != fake_cann::IsDeviceMemory(from, size)) {
    fake_cann::AddFault("a copy between host and device does not say where its memory is");
    return ACL_ERROR_INVALID_PARAM;
  }
  return ACL_SUCCESS;
}

// Streams and events are told apart by their addresses alone.
void* NewHandle() {
  return new char;
}

aclError DeleteHandle(void* handle) {
  delete static_cast<char*>(handle);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclInit(const char*) {
  return ACL_SUCCESS;
}

aclError aclFinalize() {
  return ACL_SUCCESS;
}

const char* aclGetRecentErrMsg() {
  return fake_cann::RecentError();
}

// One device.

const char* aclrtGetSocName() {
  return "Ascend910B1";
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  *count = 1;
  return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t) {
  return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* device) {
  *device = 0;
  return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t) {
  return StatusOfWait();
}

aclError aclrtGetRunMode(aclrtRunMode* mode) {
  *mode = ACL_HOST;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceResLimit(int32_t, aclrtDevResLimitType, uint32_t* cores) {
  *cores = kCores;
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode) {
  return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt, int64_t) {
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t) {
  return ACL_SUCCESS;
}

aclError aclrtSetOpWaitTimeout(uint32_t) {
  return ACL_SUCCESS;
}

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback) {
  return ACL_SUCCESS;
}

aclError aclrtGetLastError(aclrtLastErrLevel) {
  return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext* context, int32_t) {
  static char the_context;
  *context = &the_context;
  return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext) {
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext) {
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return aclrtCreateContext(context, 0);
}

// Memory.

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  *free = kDeviceBytes;
  *total = kDeviceBytes;
  return ACL_SUCCESS;
}

aclError aclrtMalloc(void** block, size_t size, aclrtMemMallocPolicy) {
  *block = fake_cann::Allocate(size);
  return *block == nullptr ? ACL_ERROR_BAD_ALLOC : ACL_SUCCESS;
}

aclError aclrtMallocAlign32(void** block, size_t size, aclrtMemMallocPolicy policy) {
  return aclrtMalloc(block, size, policy);
}

aclError aclrtFree(void* block) {
  fake_cann::Free(block);
  return ACL_SUCCESS;
}

aclError aclrtMallocHost(void** block, size_t size) {
  *block = ::operator new(size);
  return ACL_SUCCESS;
}

aclError aclrtFreeHost(void* block) {
  const aclError status = StatusOfWait();
  ::operator delete(block);
  return status;
}

// Addresses are backed from the start, so that mapping has nothing left to do.

aclError aclrtReserveMemAddress(void** address, size_t size, size_t, void*, uint64_t) {
  return aclrtMalloc(address, size, ACL_MEM_MALLOC_HUGE_FIRST);
}

aclError aclrtReleaseMemAddress(void* address) {
  return aclrtFree(address);
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t, const aclrtPhysicalMemProp*, uint64_t) {
  *handle = static_cast<aclrtDrvMemHandle>(NewHandle());
  return ACL_SUCCESS;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  return DeleteHandle(handle);
}

aclError aclrtMapMem(void*, size_t, size_t, aclrtDrvMemHandle, uint64_t) {
  return ACL_SUCCESS;
}

aclError aclrtUnmapMem(void*) {
  return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t size, aclrtMemcpyKind kind) {
  const aclError status = StatusOfWait();
  if (status != ACL_SUCCESS) {
    return status;
  }
  const aclError checked = CheckedCopy(to, room, from, size, kind);
  if (checked == ACL_SUCCESS) {
    std::memcpy(to, from, size);
  }
  return checked;
}

aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t size, aclrtMemcpyKind kind, aclrtStream) {
  const aclError checked = CheckedCopy(to, room, from, size, kind);
  if (checked == ACL_SUCCESS) {
    fake_cann::Submit([=] { std::memcpy(to, from, size); });
  }
  return checked;
}

aclError aclrtMemset(void* block, size_t, int32_t value, size_t size) {
  const aclError status = StatusOfWait();
  std::memset(block, value, size);
  return status;
}

aclError aclrtMemsetAsync(void* block, size_t, int32_t value, size_t size, aclrtStream) {
  fake_cann::Submit([=] { std::memset(block, value, size); });
  return ACL_SUCCESS;
}

// Streams and events.

aclError aclrtDeviceGetStreamPriorityRange(int32_t* least, int32_t* greatest) {
  *least = 7;
  *greatest = 0;
  return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream* stream) {
  *stream = NewHandle();
  return ACL_SUCCESS;
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  return aclrtCreateStream(stream);
}

aclError aclrtDestroyStream(aclrtStream stream) {
  const aclError status = StatusOfWait();
  DeleteHandle(stream);
  return status;
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return aclrtDestroyStream(stream);
}

aclError aclrtSetStreamFailureMode(aclrtStream, uint64_t) {
  return ACL_SUCCESS;
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream) {
  return ACL_SUCCESS;
}

aclError aclrtSubscribeReport(uint64_t, aclrtStream) {
  return ACL_SUCCESS;
}

aclError aclrtProcessReport(int32_t) {
  return ACL_SUCCESS;
}

aclError aclrtLaunchCallback(aclrtCallback callback, void* data, aclrtCallbackBlockType, aclrtStream) {
  fake_cann::Submit([=] { callback(data); });
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream) {
  return StatusOfWait();
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream, int32_t) {
  return StatusOfWait();
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t) {
  return StatusOfWait();
}

aclError aclrtStreamQuery(aclrtStream, aclrtStreamStatus* status) {
  *status = ACL_STREAM_STATUS_COMPLETE;
  return StatusOfWait();
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) {
  *event = NewHandle();
  return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return aclrtCreateEventExWithFlag(event, flag);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return DeleteHandle(event);
}

aclError aclrtRecordEvent(aclrtEvent, aclrtStream) {
  return ACL_SUCCESS;
}

aclError aclrtResetEvent(aclrtEvent, aclrtStream) {
  return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent) {
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent) {
  return StatusOfWait();
}

aclError aclrtQueryEventStatus(aclrtEvent, aclrtEventRecordedStatus* status) {
  *status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  return StatusOfWait();
}

// What MindSpore asks for at its start, and does without.

acltdtChannelHandle* acltdtCreateChannelWithCapacity(uint32_t, const char*, size_t) {
  return nullptr;
}

HcclResult HcclSetConfig(HcclConfig, HcclConfigValue) {
  return HCCL_SUCCESS;
}

}  // extern "C"
