#pragma once

#include "backend/cuda/cudnn_plan.h"
#include "backend/cuda/library.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hp {

/// How cuDNN computes one convolution: a plan for the forward pass and one for each gradient.
struct CudnnConvolutionPlans {
  /// @param in the input's shape [N, C, H, W]. @param nhwc the layout, as GpuConvolution::nhwc.
  /// @return kFailedPrecondition: cuDNN has no acceptable engine for one of them.
  static StatusOr<CudnnConvolutionPlans> Make(const CudnnTarget& target, const ConvolutionDesc& desc, const Shape& in,
                                              bool nhwc);
  /// The same in the layout that is best for the target's math. Where plans for few groups do without tensor cores that
  /// one group alone would use, or copy x or y in a workspace (AlexNet's conv2, conv4 and conv5), each group becomes a
  /// convolution of its own (`groups`), on channels that lie in groups.
  static StatusOr<CudnnConvolutionPlans> MakeBest(const CudnnTarget& target, const ConvolutionDesc& desc,
                                                  const Shape& in);

  /// The ids of tensors in CudnnPlan::Run. Gradients have the id of their tensor; kProduct is the product before the
  /// bias, kSum their sum before a ReLU.
  enum Id : int64_t { kX = 'x', kY = 'y', kWeights = 'w', kBias = 'b', kProduct = 'p', kSum = 's' };

  /// The forward plan of a desc with a bias, which it adds, and a ReLU behind, which may lose NaNs (nan_probe.h).
  /// Parameters and errors as Make's.
  static StatusOr<CudnnPlan> MakeForwardWithRelu(const CudnnTarget& target, const ConvolutionDesc& desc,
                                                 const Shape& in, bool nhwc);

  /// What CudnnPlan::Run takes for the tensors of group `g`. @param bias null: the plan reads none.
  std::vector<std::pair<int64_t, const void*>> PointersOf(int64_t g, const void* x, const void* weights,
                                                          const void* bias, const void* y) const;
  /// Of the three plans.
  size_t workspace_bytes() const;

  bool nhwc = false;
  int64_t groups = 1;   ///< as GpuConvolution::groups; the plans, and what stands below, are those of one group
  Shape in;             ///< [N, C, H, W]
  int64_t weights = 0;  ///< elements
  CudnnPlan forward;
  bool bias_fused = false;  ///< `forward` adds the bias; else a kernel does (add_bias.h)
  CudnnPlan backward_weights;
  std::optional<CudnnPlan> backward_input;      ///< where the desc wants it
  Shape out;                                    ///< [N, O, H', W']
  ElementType element = ElementType::kFloat32;  ///< of all tensors
};

/// A convolution on `gpu`'s compute stream. @param target its handle is bound to that stream and outlives the
/// convolution, as `gpu` does; it has no `device`. @return kFailedPrecondition: as Make.
StatusOr<std::unique_ptr<GpuConvolution>> MakeCudnnConvolution(Gpu* gpu, const CudnnTarget& target,
                                                               const ConvolutionDesc& desc, const Shape& in);

}  // namespace hp
