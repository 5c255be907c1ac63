#include "backend/class_axis.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/loss_rules.h"
#include "backend/cuda/scratch.h"
#include "backend/cuda/softmax_rows.h"

#include "glog/logging.h"

#include <type_traits>

namespace hp::cuda {
namespace {

/// The row's softmax, a copy of it where one is wanted, and the row's loss.
template <typename Logits>
struct RowLoss {
  using Value = SoftmaxSums::Value;
  SoftmaxOf<Logits> softmax;
  CountedLabels label_of;
  float* copy;
  float* losses;

  HP_HOST_DEVICE Value Identity() const { return softmax.Identity(); }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const { return softmax.Map(row, i); }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return softmax.Combine(a, b); }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& value) const {
    const int64_t label = label_of(row);
    losses[row] = label < 0 ? 0 : LabelLoss(softmax.Probability(softmax.Logit(row, label), value));
  }
  HP_HOST_DEVICE void Each(int64_t row, int64_t i, const Value& value) const {
    softmax.Each(row, i, value);
    if (copy != nullptr) copy[softmax.at(row, i)] = softmax.y[softmax.at(row, i)];
  }
};

struct LossGradient {
  const float* probabilities;
  const float *scale, *loss_scale;
  CountedLabels label_of;
  SoftmaxColumns at;
  float* d_logits;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = at.RowOf(i), label = label_of(row);
    const float probability = probabilities[i];
    const float gradient = *scale * *loss_scale * (i == at(row, label) ? probability - 1 : probability);
    d_logits[i] = label < 0 ? 0 : gradient;
  }
};

/// Softmax and multinomial logistic loss, in the input's own layout; a row is what has a label, such as a pixel of a
/// sample. Saved: the probabilities, and the factor of the gradients, which only the device knows where ignored
/// labels are counted. Source of the rules: Caffe's SoftmaxWithLossLayer.
class SoftmaxLossOp final : public Op {
 public:
  SoftmaxLossOp(const GpuContext& context, const SoftmaxLossDesc& desc, const TensorDesc& in)
      : context_(context),
        desc_(desc),
        outer_(ClassAxis(in.shape, desc.axis).outer),
        labels_(ClassAxis(in.shape, desc.axis).labels),
        rows_(in.shape[0] * labels_),
        at_(ClassColumns(in, desc.axis)) {
    CHECK(labels_ == 1 || !desc.margin) << "logits " << in.shape;
    outputs_ = {{{1}, 1}};
    if (desc.probabilities) outputs_.push_back(in);
    saved_bytes_ = in.bytes() + sizeof(float);
    ScratchPlan scratch;
    losses_at_ = scratch.Add(rows_ * sizeof(float));
    pieces_at_ = scratch.Add(SoftmaxRowsScratch(rows_, at_));
    scratch_bytes_ = scratch.bytes();
  }

  void Forward(const OpArgs& args) override {
    float* losses = ScratchFloats(args.scratch, losses_at_);
    float* const copy = desc_.probabilities ? args.out[1].floats() : nullptr;
    WithLogits(desc_.margin, args.in[0].floats(), Labels(args), 0, [&](const auto& logits) {
      using Logits = std::decay_t<decltype(logits)>;
      const SoftmaxOf<Logits> softmax = {{}, logits, Probabilities(args), at_};
      ReduceSoftmaxRows(context_.stream(), rows_, RowLoss<Logits>{softmax, Labels(args), copy, losses}, at_,
                        args.scratch + pieces_at_);
    });
    SumOverBatch(context_.stream(), losses, rows_, LossNormalizer(desc_, *args.batch, outer_, labels_),
                 StoreLoss{desc_.gradient_weight(), args.out[0].floats(), Scale(args)});
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    ForEach(context_.stream(), rows_ * at_.classes,
            LossGradient{Probabilities(args), Scale(args), args.batch->loss_scale_on_device, Labels(args), at_,
                         args.d_in[0].floats()});
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  float* Probabilities(const OpArgs& args) const { return reinterpret_cast<float*>(args.saved); }
  float* Scale(const OpArgs& args) const { return Probabilities(args) + rows_ * at_.classes; }
  CountedLabels Labels(const OpArgs& args) const { return LabelsOf(desc_, *args.batch, at_.classes); }

  const GpuContext context_;
  const SoftmaxLossDesc desc_;
  const int64_t outer_, labels_, rows_;
  const SoftmaxColumns at_;
  size_t losses_at_ = 0, pieces_at_ = 0;  // in scratch
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) {
  const auto make = [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<SoftmaxLossOp>(context_, desc, float32[0]));
  };
  return OnFloat32(context_, in, make, /*dense=*/desc.axis != 1);
}

}  // namespace hp::cuda
