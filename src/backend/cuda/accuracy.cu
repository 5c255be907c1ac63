#include "backend/class_axis.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/loss_rules.h"
#include "backend/cuda/scratch.h"

namespace hp::cuda {
namespace {

/// 1 for a row whose label is among the top_k, else 0. A row is right if fewer than top_k other scores reach the
/// label's, so ties count against it; a score that is NaN reaches nothing, and nothing reaches it, and yet a label with
/// such a score is wrong.
struct RowIsRight {
  using Value = int64_t;
  const float* scores;
  CountedLabels label_of;
  SoftmaxColumns at;
  int top_k;
  float* right;

  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const {
    const int64_t label = label_of(row);
    return label >= 0 && scores[at(row, i)] >= scores[at(row, label)] ? 1 : 0;
  }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& reached) const {
    // The label's own score is one of those that reach it, if it is a number.
    right[row] = reached > 0 && reached <= top_k ? 1.0f : 0.0f;
  }
};

struct Zero {
  float* to;
  HP_HOST_DEVICE void operator()(int64_t i) const { to[i] = 0; }
};

/// The rows whose label is among the top_k, divided by the valid labels of the whole batch; a row is what has a label,
/// such as a pixel of a sample.
/// Source: Caffe's AccuracyLayer.
class AccuracyOp final : public Op {
 public:
  AccuracyOp(const GpuContext& context, const AccuracyDesc& desc, const TensorDesc& in)
      : context_(context),
        desc_(desc),
        labels_(ClassAxis(in.shape, desc.axis).labels),
        rows_(in.shape[0] * labels_),
        at_(ClassColumns(in, desc.axis)) {
    outputs_ = {{{1}, 1}};
    ScratchPlan scratch;
    right_at_ = scratch.Add(rows_ * sizeof(float));
    pieces_at_ = scratch.Add(SoftmaxRowsScratch(rows_, at_));
    scratch_bytes_ = scratch.bytes();
  }

  void Forward(const OpArgs& args) override {
    float* right = ScratchFloats(args.scratch, right_at_);
    const CountedLabels label_of = LabelsOf(desc_, *args.batch, at_.classes);
    ReduceSoftmaxRows(context_.stream(), rows_, RowIsRight{args.in[0].floats(), label_of, at_, desc_.top_k, right}, at_,
                      args.scratch + pieces_at_);
    SumOverBatch(context_.stream(), right, rows_, ValidLabels(desc_, *args.batch, labels_),
                 StoreAccuracy{args.out[0].floats()});
  }
  /// A count has no gradient.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].floats() != nullptr) ForEach(context_.stream(), args.d_in[0].count(), Zero{args.d_in[0].floats()});
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const GpuContext context_;
  const AccuracyDesc desc_;
  const int64_t labels_, rows_;
  const SoftmaxColumns at_;
  size_t right_at_ = 0, pieces_at_ = 0;  // in scratch
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Accuracy(const AccuracyDesc& desc, const Descs& in) {
  const auto make = [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<AccuracyOp>(context_, desc, float32[0]));
  };
  return OnFloat32(context_, in, make, /*dense=*/desc.axis != 1);
}

}  // namespace hp::cuda
