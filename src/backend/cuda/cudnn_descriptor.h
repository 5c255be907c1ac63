#pragma once

#include "hp/status.h"
#include "tensor/tensor.h"

#include <cudnn_graph.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace hp {

/// Ok, or kFailedPrecondition with cuDNN's message. @param what the operation, for the message.
Status CudnnStatus(cudnnStatus_t status, const std::string& what);

/// cuDNN's name of an element type.
inline cudnnDataType_t CudnnTypeOf(ElementType element) {
  if (element == ElementType::kBFloat16) return CUDNN_DATA_BFLOAT16;
  return element == ElementType::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/// cuDNN's constant for the C++ type of an attribute.
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
  if constexpr (std::is_same_v<T, cudnnBackendKnobType_t>) return CUDNN_TYPE_KNOB_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
}

/// Owns one descriptor of cuDNN's backend (graph) API: create, Set attributes, Finalize, then use it in others or Get
/// from it. Set and Get report nothing: the first failure is kept, and Finalize and status() return it
/// (kFailedPrecondition). Movable. One thread at a time.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;  ///< no descriptor
  /// Creates one of `type`. @param what names it in messages.
  CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string what);

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }
  /// As created; only of one that was.
  cudnnBackendDescriptorType_t type() const { return type_; }
  const Status& status() const { return status_; }
  /// After all Sets; makes the descriptor usable by others. @return the first failure of any call so far.
  Status Finalize();

  /// Sets attribute `name` to one value of type T, which must be one that CudnnTypeOf knows.
  template <typename T>
  void Set(cudnnBackendAttributeName_t name, const T& value) {
    SetRaw(name, CudnnTypeOf<T>(), 1, &value);
  }
  /// Sets an attribute that is an array.
  template <typename T>
  void SetAll(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    SetRaw(name, CudnnTypeOf<T>(), static_cast<int64_t>(values.size()), values.data());
  }
  /// @param value a finalized descriptor, which must outlive this one. Its failure becomes this one's.
  void Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void SetDescriptors(cudnnBackendAttributeName_t name, const std::vector<CudnnDescriptor>& values);

  /// An attribute of a finalized descriptor; T{} if it cannot be read.
  template <typename T>
  T Get(cudnnBackendAttributeName_t name) {
    T value = {};
    GetRaw(name, CudnnTypeOf<T>(), 1, &value);
    return value;
  }
  /// An attribute that is an array: its first `most` values at most.
  template <typename T>
  std::vector<T> GetAll(cudnnBackendAttributeName_t name, int64_t most) {
    std::vector<T> values(most);
    values.resize(GetRaw(name, CudnnTypeOf<T>(), most, values.data()));
    return values;
  }
  /// All descriptors of `type` in an attribute. @param what names them in messages.
  std::vector<CudnnDescriptor> GetDescriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                              const std::string& what);
  /// The same of an attribute that does not say how many it has: the first `most` of them.
  std::vector<CudnnDescriptor> GetDescriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                              const std::string& what, int64_t most);

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }
  };

  void SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  /// @return how many there were.
  int64_t GetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, void* values);
  void Keep(cudnnStatus_t status, const char* act, int attribute);

  std::string what_;
  cudnnBackendDescriptorType_t type_ = {};
  Status status_;
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace hp
