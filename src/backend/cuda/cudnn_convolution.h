#pragma once

#include "backend/cuda/cudnn_plan.h"
#include "backend/cuda/library.h"

#include <memory>
#include <optional>

namespace hp {

/// The plans of one convolution's three products.
struct CudnnConvolutionPlans {
  /// Makes them. @param in [N, C, H, W]. @return kFailedPrecondition: no engine can.
  static StatusOr<CudnnConvolutionPlans> Make(const CudnnTarget& target, const ConvolutionDesc& desc, const Shape& in);

  /// The ids of tensors in Run.
  enum Id : int64_t { kX = 'x', kY = 'y', kWeights = 'w', kBias = 'b', kProduct = 'p' };

  CudnnPlan forward;
  bool bias_fused = false;  ///< `forward` adds the bias
  CudnnPlan backward_weights;
  std::optional<CudnnPlan> backward_input;      ///< where the desc wants it
  Shape out;                                    ///< [N, O, H', W']
  ElementType element = ElementType::kFloat32;  ///< of all tensors
};

/// A convolution on `gpu`'s compute stream. @param target with a handle that is bound to it and outlives the
/// convolution. Errors as above.
StatusOr<std::unique_ptr<GpuConvolution>> MakeCudnnConvolution(Gpu* gpu, const CudnnTarget& target,
                                                               const ConvolutionDesc& desc, const Shape& in);

}  // namespace hp
