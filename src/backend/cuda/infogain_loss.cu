#include "backend/class_axis.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/loss_rules.h"
#include "backend/cuda/scratch.h"
#include "backend/cuda/softmax_rows.h"
#include "backend/infogain_rule.h"
#include "tensor/buffer.h"

#include "glog/logging.h"

#include <numeric>
#include <vector>

namespace hp::cuda {
namespace {

/// The matrix, [classes, classes], and behind it the sum of each of its rows.
struct Gains {
  const float* matrix;
  int64_t classes;
  HP_HOST_DEVICE float At(int64_t label, int64_t i) const { return matrix[label * classes + i]; }
  HP_HOST_DEVICE float SumOf(int64_t label) const { return matrix[classes * classes + label]; }
};

/// Reads a row's probabilities, writes its loss.
struct RowOfGains {
  using Value = double;
  const float* probabilities;
  CountedLabels label_of;
  Gains gains;
  SoftmaxColumns at;
  float* losses;
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const {
    const int64_t label = label_of(row);
    return label < 0 ? 0 : InfogainRule::Loss(gains.At(label, i), probabilities[at(row, i)]);
  }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& sum) const { losses[row] = static_cast<float>(sum); }
};

struct GainGradient {
  const float *probabilities, *scale, *loss_scale;
  CountedLabels label_of;
  Gains gains;
  SoftmaxColumns at;
  float* d_logits;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t label = label_of(at.RowOf(i));
    if (label < 0) {
      d_logits[i] = 0;
      return;
    }
    const float gradient = InfogainRule::Gradient(gains.At(label, at.ClassOf(i)), gains.SumOf(label), probabilities[i]);
    d_logits[i] = *scale * *loss_scale * gradient;
  }
};

/// In the input's own layout; a row is what has a label, such as a pixel of a sample. Saved: the probabilities,
/// and the factor of the gradients, which only the device knows where ignored labels are counted. Source of the rules:
/// Caffe's InfogainLossLayer.
class InfogainLossOp final : public Op {
 public:
  /// @param gains of Gains, in the device's memory.
  InfogainLossOp(const GpuContext& context, const SoftmaxLossDesc& desc, const TensorDesc& in, Buffer gains)
      : context_(context),
        desc_(desc),
        outer_(ClassAxis(in.shape, desc.axis).outer),
        labels_(ClassAxis(in.shape, desc.axis).labels),
        rows_(in.shape[0] * labels_),
        at_(ClassColumns(in, desc.axis)),
        gains_(std::move(gains)) {
    outputs_ = {{{1}, 1}};
    if (desc.probabilities) outputs_.push_back(in);
    saved_bytes_ = in.bytes() + sizeof(float);
    ScratchPlan scratch;
    losses_at_ = scratch.Add(rows_ * sizeof(float));
    pieces_at_ = scratch.Add(SoftmaxRowsScratch(rows_, at_));
    scratch_bytes_ = scratch.bytes();
  }

  void Forward(const OpArgs& args) override {
    float* const losses = ScratchFloats(args.scratch, losses_at_);
    const SoftmaxForward softmax = {{}, PlainLogits{args.in[0].floats()}, Probabilities(args), at_};
    ReduceSoftmaxRows(context_.stream(), rows_, softmax, at_, args.scratch + pieces_at_);
    ReduceSoftmaxRows(context_.stream(), rows_, RowOfGains{Probabilities(args), Labels(args), GainsOf(), at_, losses},
                      at_, args.scratch + pieces_at_);
    SumOverBatch(context_.stream(), losses, rows_, LossNormalizer(desc_, *args.batch, outer_, labels_),
                 StoreLoss{desc_.gradient_weight(), args.out[0].floats(), Scale(args)});
    if (!desc_.probabilities) return;
    context_.gpu->Copy(Device::kCompute, args.out[1].data, args.saved, rows_ * at_.classes * sizeof(float));
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    ForEach(context_.stream(), rows_ * at_.classes,
            GainGradient{Probabilities(args), Scale(args), args.batch->loss_scale_on_device, Labels(args), GainsOf(),
                         at_, args.d_in[0].floats()});
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  float* Probabilities(const OpArgs& args) const { return reinterpret_cast<float*>(args.saved); }
  float* Scale(const OpArgs& args) const { return Probabilities(args) + rows_ * at_.classes; }
  CountedLabels Labels(const OpArgs& args) const { return LabelsOf(desc_, *args.batch, at_.classes); }
  Gains GainsOf() const { return {gains_.floats(), at_.classes}; }

  const GpuContext context_;
  const SoftmaxLossDesc desc_;
  const int64_t outer_, labels_, rows_;
  const SoftmaxColumns at_;
  size_t losses_at_ = 0, pieces_at_ = 0;  // in scratch
  const Buffer gains_;
};

/// Puts the matrix into the device's memory, and the sums of its rows.
StatusOr<Buffer> UploadGains(Gpu* gpu, const std::vector<float>& matrix, int64_t classes) {
  std::vector<float> gains = matrix;
  for (auto row = matrix.begin(); row != matrix.end(); row += classes) {
    gains.push_back(static_cast<float>(std::accumulate(row, row + classes, 0.0)));
  }
  HP_ASSIGN_OR_RETURN(Buffer buffer, gpu->Allocate(gains.size() * sizeof(float)));
  gpu->Upload(Device::kCompute, buffer.data(), gains.data(), buffer.bytes());
  HP_RETURN_IF_ERROR(gpu->Wait(gpu->Record(Device::kCompute)));  // before `gains` ends
  return StatusOr<Buffer>(std::move(buffer));
}

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::InfogainLoss(const InfogainLossDesc& desc, const Descs& in) {
  const int64_t classes = in[0].shape[desc.loss.axis];
  CHECK_EQ(static_cast<int64_t>(desc.matrix.size()), classes * classes);
  const auto make = [&](const Descs& float32) -> StatusOr<OpPtr> {
    HP_ASSIGN_OR_RETURN(Buffer gains, UploadGains(context_.gpu, desc.matrix, classes));
    return OpPtr(std::make_unique<InfogainLossOp>(context_, desc.loss, float32[0], std::move(gains)));
  };
  return OnFloat32(context_, in, make, /*dense=*/desc.loss.axis != 1);
}

}  // namespace hp::cuda
