#pragma once

#include "hp/status.h"
#include "tensor/tensor.h"

#include <cudnn_graph.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace hp {

/// OK, or kFailedPrecondition with cuDNN's words. @param what what was asked of it.
Status CudnnStatus(cudnnStatus_t status, const std::string& what);

/// cuDNN's name of an element type.
inline cudnnDataType_t CudnnTypeOf(ElementType element) {
  if (element == ElementType::kBFloat16) return CUDNN_DATA_BFLOAT16;
  return element == ElementType::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/// By what name cuDNN knows the C++ type of an attribute.
template <typename T>
constexpr cudnnBackendAttributeType_t CudnnTypeOf() {
  if constexpr (std::is_same_v<T, int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, bool>) return CUDNN_TYPE_BOOLEAN;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
}

/// One descriptor of cuDNN's graph API. Set and Get keep the first failure, which Finalize and status() tell.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  /// @param what for messages.
  CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string what);

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }
  const Status& status() const { return status_; }
  Status Finalize();

  template <typename T>
  void Set(cudnnBackendAttributeName_t name, const T& value) {
    SetRaw(name, CudnnTypeOf<T>(), 1, &value);
  }
  template <typename T>
  void SetAll(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    SetRaw(name, CudnnTypeOf<T>(), static_cast<int64_t>(values.size()), values.data());
  }
  /// @param value finalised; must outlive this descriptor.
  void Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void SetDescriptors(cudnnBackendAttributeName_t name, const std::vector<CudnnDescriptor>& values);

  template <typename T>
  T Get(cudnnBackendAttributeName_t name) {
    T value = {};
    GetRaw(name, CudnnTypeOf<T>(), 1, &value);
    return value;
  }
  /// At most `most` of them.
  template <typename T>
  std::vector<T> GetAll(cudnnBackendAttributeName_t name, int64_t most) {
    std::vector<T> values(most);
    values.resize(GetRaw(name, CudnnTypeOf<T>(), most, values.data()));
    return values;
  }
  /// Descriptors of `type`, as many as there are.
  std::vector<CudnnDescriptor> GetDescriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                              const std::string& what);

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }
  };

  void SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  /// @return how many there were.
  int64_t GetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, void* values);
  void Keep(cudnnStatus_t status, const char* act, int attribute);

  std::string what_;
  Status status_;
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace hp
