#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/loss_rules.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/rows.h"
#include "backend/layout.h"

namespace hp::cuda {
namespace {

/// Reads a row of each input and its label, writes its loss and by which factor of the difference its gradient is.
struct RowOfDistances {
  using Value = double;
  ContrastiveRule rule;
  const float *a, *b, *similar;
  int64_t width;
  float *losses, *factors;
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const {
    const int64_t at = row * width + i;
    const double difference = static_cast<double>(a[at]) - static_cast<double>(b[at]);
    return difference * difference;
  }
  HP_HOST_DEVICE Value Combine(const Value& x, const Value& y) const { return x + y; }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& sum) const {
    const float d2 = static_cast<float>(sum);
    losses[row] = rule.Value(d2, SaysSimilar(similar[row]));
    factors[row] = rule.Factor(d2, SaysSimilar(similar[row]));
  }
};

/// Reads both inputs, writes the gradient of one. It may overwrite the second.
struct DistanceGradient {
  const float *a, *b, *factors, *scale, *loss_scale;
  float sign;
  int64_t width;
  float* to;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    const int64_t at = row * width + i;
    to[at] = sign * *scale * *loss_scale * factors[row] * (a[at] - b[at]);
  }
};

/// Elements in the order of the first input's memory. A second input in another layout goes through scratch, behind a
/// loss for each row. Saved: what gradients are multiplied by, all of them and those of each row.
class ContrastiveLossOp final : public Op {
 public:
  ContrastiveLossOp(const GpuContext& context, const ContrastiveLossDesc& desc, const Backend::Descs& in)
      : context_(context),
        desc_(desc),
        in_(in),
        rows_(in[0].shape[0]),
        width_(in[0].shape.count(1)),
        foreign_(!SameOrder(in[0], in[1])) {
    outputs_ = {{{1}, 1}};
    saved_bytes_ = (1 + rows_) * sizeof(float);
    scratch_bytes_ = LossesBytes() + (foreign_ ? in[1].bytes() : 0);
  }

  void Forward(const OpArgs& args) override {
    float* const losses = reinterpret_cast<float*>(args.scratch);
    const float* const similar = in_.size() > 2 ? args.in[2].floats() : args.batch->labels.data();
    ReduceRows(context_.stream(), rows_, width_,
               RowOfDistances{desc_.rule, args.in[0].floats(), Second(args), similar, width_, losses, Factors(args)});
    SumOverBatch(context_.stream(), losses, rows_, SampleCount::Fixed(args.batch->global_rows),
                 StoreLoss{desc_.loss_weight, args.out[0].floats(), Scale(args)});
  }

  void BackwardInput(const OpArgs& args) override {
    const float* const b = Second(args);
    if (args.d_in[0].data != nullptr) PutGradient(args, b, 1, args.d_in[0].floats());
    if (args.d_in[1].data != nullptr) {
      float* const own = foreign_ ? Copy(args) : args.d_in[1].floats();
      PutGradient(args, b, -1, own);
      if (foreign_) CopyLayout(context_.stream(), InOrderOfFirst(), own, in_[1], args.d_in[1].data);
    }
    if (in_.size() > 2 && args.d_in[2].data != nullptr) Sum(context_.stream(), in_[2], {}, args.d_in[2].data);
  }
  bool backward_reads_output() const override { return false; }

 private:
  size_t LossesBytes() const { return (rows_ * sizeof(float) + 63) / 64 * 64; }
  float* Scale(const OpArgs& args) const { return reinterpret_cast<float*>(args.saved); }
  float* Factors(const OpArgs& args) const { return Scale(args) + 1; }
  float* Copy(const OpArgs& args) const { return reinterpret_cast<float*>(args.scratch + LossesBytes()); }
  TensorDesc InOrderOfFirst() const { return {in_[1].shape, in_[0].channel_block}; }
  const float* Second(const OpArgs& args) const {
    if (!foreign_) return args.in[1].floats();
    CopyLayout(context_.stream(), in_[1], args.in[1].data, InOrderOfFirst(), Copy(args));
    return Copy(args);
  }
  void PutGradient(const OpArgs& args, const float* b, float sign, float* to) const {
    ForEachInRows(context_.stream(), rows_, width_,
                  DistanceGradient{args.in[0].floats(), b, Factors(args), Scale(args), args.batch->loss_scale_on_device,
                                   sign, width_, to});
  }

  const GpuContext context_;
  const ContrastiveLossDesc desc_;
  const Backend::Descs in_;
  const int64_t rows_, width_;
  const bool foreign_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::ContrastiveLoss(const ContrastiveLossDesc& desc, const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<ContrastiveLossOp>(context_, desc, float32));
  });
}

}  // namespace hp::cuda
