#pragma once

#include "backend/cuda/channel_groups.h"
#include "backend/cuda/kept_gradients.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/pad_channels.h"
#include "backend/layout.h"

#include "glog/logging.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace hp::cuda {

// What a convolution and a deconvolution read and write, brought to the library's form: its layout, element type and
// alignment. What is copied lies in the op's scratch area, and for parameters in PackedParams.

/// A tensor in the library's form. @param nhwc as GpuConvolution::nhwc. @param padded_channels above 0: so many, of
/// which those behind the tensor's own are zeros; only of NHWC.
inline TensorDesc ConvolutionForm(const GpuContext& context, const Shape& shape, bool nhwc, int64_t padded_channels) {
  const Shape padded = padded_channels > 0 ? shape.With(1, padded_channels) : shape;
  return {padded, nhwc ? padded[1] : 1, context.library->element()};
}

/// CopyLayout into the library's form.
inline void CopyToForm(const GpuStream& stream, const TensorDesc& desc, const void* from, const TensorDesc& form,
                       void* to) {
  if (form.shape == desc.shape) return CopyLayout(stream, desc, from, form, to);
  PadChannels(stream, desc, from, form, to);
}

/// An input or output of any layout and type, or its gradient.
class ConvolutionTensor {
 public:
  /// @param convolution whose tensor it is. @param padded_channels as ConvolutionForm's; of one group.
  ConvolutionTensor(const GpuContext& context, const TensorDesc& desc, const GpuConvolution& convolution,
                    int64_t padded_channels = 0)
      : stream_(context.stream()),
        desc_(desc),
        form_(ConvolutionForm(context, desc.shape, convolution.nhwc(), padded_channels)),
        groups_(convolution.groups()) {}

  /// From now on the tensor itself lies in `groups` groups of channels; 1: as its desc says.
  /// @return false: the library's has others, and nothing has changed.
  bool LieInGroups(int64_t groups) {
    const bool may = groups == 1 || (groups == groups_ && SameOrder(desc_, form_) && desc_.element == form_.element);
    if (may) lies_in_groups_ = groups;
    return may;
  }
  /// Of the copy; 0: the tensor is used where it is, and no copy is needed.
  size_t copy_bytes() const { return HasForm() && SurelyAligned() ? 0 : form_.bytes(); }
  const void* Read(const Tensor& tensor, std::byte* copy) const {
    if (InPlace(tensor)) return tensor.data;
    CHECK_EQ(lies_in_groups_, 1) << "what lies in groups is a buffer of its own, and so aligned";
    if (groups_ > 1) {
      CopyToGroups(stream_, desc_, tensor.data, form_.element, groups_, copy);
    } else {
      CopyToForm(stream_, desc_, tensor.data, form_, copy);
    }
    return copy;
  }
  /// Read of the net's images, of which the padded copy is made at once.
  const void* ReadRaw(const RawImages& images, std::byte* copy) const {
    PadImages(stream_, images, form_, copy);
    return copy;
  }
  bool may_be_raw() const { return padded() && desc_.plain(); }
  /// Where it is to be written, for Store.
  void* Target(const Tensor& tensor, std::byte* copy) const { return InPlace(tensor) ? tensor.data : copy; }
  void Store(const void* target, const Tensor& tensor) const {
    if (target == tensor.data) return;
    CHECK_EQ(lies_in_groups_, 1);
    if (padded()) return DropPadding(stream_, form_, target, desc_, tensor.data);
    if (groups_ > 1) return CopyFromGroups(stream_, form_.element, groups_, target, desc_, tensor.data);
    CopyLayout(stream_, form_, target, desc_, tensor.data);
  }
  bool padded() const { return form_.shape != desc_.shape; }

 private:
  bool HasForm() const {
    return !padded() && lies_in_groups_ == groups_ && SameOrder(desc_, form_) && desc_.element == form_.element;
  }
  /// Dense rows may be those of a micro-batch behind others' (NetBuffer::kUpdateMatrix); all else is a buffer's start.
  bool SurelyAligned() const {
    return !desc_.dense() || desc_.bytes() / desc_.shape[0] % GpuConvolution::kAlignment == 0;
  }
  bool InPlace(const Tensor& tensor) const {
    return HasForm() && reinterpret_cast<uintptr_t>(tensor.data) % GpuConvolution::kAlignment == 0;
  }

  const GpuStream stream_;
  const TensorDesc desc_, form_;
  const int64_t groups_;  // of the library's form
  int64_t lies_in_groups_ = 1;
};

/// Weights [A, B, kH, kW], as Caffe has them, in the library's form: where that is [A, kH, kW, B or the padded
/// channels] made once for each version of them, mostly by the update itself; and their gradient.
class ConvolutionWeights {
 public:
  ConvolutionWeights(const GpuContext& context, const Shape& shape, bool nhwc, int64_t padded_channels = 0)
      : context_(context), weights_{shape, 1}, form_(ConvolutionForm(context, shape, nhwc, padded_channels)) {}

  /// Of the copy and the gradient.
  size_t packed_bytes() const { return (InPlace() ? 0 : form_.bytes()) + form_.bytes(); }
  const void* Read(const ParamView& param) const {
    if (InPlace()) return param.data;
    // Kept beyond this call, and perhaps beyond this op.
    const auto fill = [stream = context_.stream(), from = weights_, to = form_, data = param.data](std::byte* copy) {
      CopyToForm(stream, from, data, to, copy);
    };
    return param.packed->Get(Key(), form_.bytes(), param.version, fill, CopyForm());
  }
  /// Where their gradient is to be written, for Store. One in Caffe's own layout that is not added to needs no detour.
  void* Target(const OpArgs& args) const {
    if (InPlace() && !args.accumulate) return args.d_params[0];
    std::byte* const memory = args.params[0].packed->Space(Key() + " gradient", form_.bytes());
    context_.kept_gradients->BeforeWriting(memory);
    return memory;
  }
  void Store(const OpArgs& args, void* target) const {
    if (target == args.d_params[0]) return;
    ValueCopy from = CopyForm();
    from.data = target;
    context_.kept_gradients->Keep({from, weights_.count(), args.accumulate, args.d_params[0]});
  }

 private:
  bool InPlace() const {
    return form_.shape == weights_.shape && SameOrder(weights_, form_) && weights_.element == form_.element;
  }
  std::string Key() const { return "form " + form_.shape.ToString(); }
  /// Places that fill up a pixel's channels are not the values'.
  ValueCopy CopyForm() const {
    if (form_.shape == weights_.shape && SameOrder(weights_, form_)) return {.element = form_.element};
    return {nullptr, form_.element, weights_.shape[1], weights_.shape.count(2), form_.shape[1]};
  }

  const GpuContext context_;
  const TensorDesc weights_, form_;
};

/// A bias [n] in the library's element type, made once for each version of it.
class TypedBias {
 public:
  TypedBias(const GpuContext& context, int64_t n)
      : stream_(context.stream()), bias_{Shape{1, n}, 1}, typed_{Shape{1, n}, 1, context.library->element()} {}

  size_t packed_bytes() const { return InPlace() ? 0 : typed_.bytes(); }
  const void* Read(const ParamView& param) const {
    if (InPlace()) return param.data;
    const auto fill = [stream = stream_, from = bias_, to = typed_, data = param.data](std::byte* copy) {
      CopyLayout(stream, from, data, to, copy);
    };
    return param.packed->Get("16 bits", typed_.bytes(), param.version, fill, {.element = typed_.element});
  }

 private:
  bool InPlace() const { return typed_.element == bias_.element; }

  const GpuStream stream_;
  const TensorDesc bias_, typed_;
};

}  // namespace hp::cuda
