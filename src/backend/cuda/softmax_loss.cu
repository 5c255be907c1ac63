#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/loss_rules.h"
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
  int64_t classes;
  float* d_logits;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / classes, label = label_of(row);
    const float probability = probabilities[i];
    const float gradient = *scale * *loss_scale * (i - row * classes == label ? probability - 1 : probability);
    d_logits[i] = label < 0 ? 0 : gradient;
  }
};

/// Softmax and multinomial logistic loss of [rows, classes]; one pixel, so every layout is the dense one. Saved: the
/// probabilities, and the factor of the gradients, which only the device knows where ignored labels are counted.
/// Source of the rules: Caffe's SoftmaxWithLossLayer.
class SoftmaxLossOp final : public Op {
 public:
  SoftmaxLossOp(const GpuContext& context, const SoftmaxLossDesc& desc, const TensorDesc& in)
      : context_(context), desc_(desc), rows_(in.shape[0]), classes_(in.shape[1]) {
    CHECK(desc.axis == 1 && in.count() == rows_ * classes_) << "logits " << in.shape;
    outputs_ = {{{1}, 1}};
    if (desc.probabilities) outputs_.push_back({in.shape, 1});
    saved_bytes_ = in.bytes() + sizeof(float);
    scratch_bytes_ = rows_ * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    float* losses = reinterpret_cast<float*>(args.scratch);
    const SoftmaxColumns at = {classes_, 1};
    float* const copy = desc_.probabilities ? args.out[1].floats() : nullptr;
    WithLogits(desc_.margin, args.in[0].floats(), Labels(args), 0, [&](const auto& logits) {
      using Logits = std::decay_t<decltype(logits)>;
      const SoftmaxOf<Logits> softmax = {{}, logits, Probabilities(args), at};
      ReduceSoftmaxRows(context_.stream(), rows_, RowLoss<Logits>{softmax, Labels(args), copy, losses}, at);
    });
    SumOverBatch(context_.stream(), losses, rows_, LossNormalizer(desc_, *args.batch),
                 StoreLoss{desc_.gradient_weight(), args.out[0].floats(), Scale(args)});
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    ForEach(context_.stream(), rows_ * classes_,
            LossGradient{Probabilities(args), Scale(args), args.batch->loss_scale_on_device, Labels(args), classes_,
                         args.d_in[0].floats()});
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  float* Probabilities(const OpArgs& args) const { return reinterpret_cast<float*>(args.saved); }
  float* Scale(const OpArgs& args) const { return Probabilities(args) + rows_ * classes_; }
  CountedLabels Labels(const OpArgs& args) const { return LabelsOf(desc_, *args.batch, classes_); }

  const GpuContext context_;
  const SoftmaxLossDesc desc_;
  const int64_t rows_, classes_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<SoftmaxLossOp>(context_, desc, float32[0]));
  });
}

}  // namespace hp::cuda
