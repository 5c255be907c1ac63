#include "backend/cuda/cudnn_descriptor.h"

#include "base/format.h"

namespace hp {

Status CudnnStatus(cudnnStatus_t status, const std::string& what) {
  if (status == CUDNN_STATUS_SUCCESS) return OkStatus();
  char cause[512] = "";
  cudnnGetLastErrorString(cause, sizeof(cause));
  return FailedPrecondition("cuDNN: %s: %s (%s)", what.c_str(), cudnnGetErrorString(status), cause);
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string what)
    : what_(std::move(what)), type_(type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  Keep(cudnnBackendCreateDescriptor(type, &descriptor), "create descriptor", type);
  descriptor_.reset(descriptor);
}

void CudnnDescriptor::Keep(cudnnStatus_t status, const char* act, int attribute) {
  if (status_.ok()) status_ = CudnnStatus(status, Format("%s: %s %d", what_.c_str(), act, attribute));
}

Status CudnnDescriptor::Finalize() {
  if (status_.ok()) status_ = CudnnStatus(cudnnBackendFinalize(get()), what_);
  return status_;
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  if (status_.ok()) status_ = value.status();
  const cudnnBackendDescriptor_t descriptor = value.get();
  SetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

void CudnnDescriptor::SetDescriptors(cudnnBackendAttributeName_t name, const std::vector<CudnnDescriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (const CudnnDescriptor& value : values) {
    if (status_.ok()) status_ = value.status();
    descriptors.push_back(value.get());
  }
  SetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(descriptors.size()), descriptors.data());
}

std::vector<CudnnDescriptor> CudnnDescriptor::GetDescriptors(cudnnBackendAttributeName_t name,
                                                             cudnnBackendDescriptorType_t type,
                                                             const std::string& what) {
  return GetDescriptors(name, type, what, GetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr));
}

std::vector<CudnnDescriptor> CudnnDescriptor::GetDescriptors(cudnnBackendAttributeName_t name,
                                                             cudnnBackendDescriptorType_t type, const std::string& what,
                                                             int64_t most) {
  std::vector<CudnnDescriptor> values;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < most; ++i) raw.push_back(values.emplace_back(type, what).get());
  if (!raw.empty()) {
    values.resize(GetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), raw.data()));
  }
  return values;
}

void CudnnDescriptor::SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                             const void* values) {
  if (status_.ok()) Keep(cudnnBackendSetAttribute(get(), name, type, count, values), "set attribute", name);
}

int64_t CudnnDescriptor::GetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                                void* values) {
  if (!status_.ok()) return 0;
  int64_t there = 0;
  Keep(cudnnBackendGetAttribute(get(), name, type, count, &there, values), "get attribute", name);
  return status_.ok() ? there : 0;
}

}  // namespace hp
