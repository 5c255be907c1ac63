#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/loss_rules.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/rows.h"
#include "backend/label.h"
#include "backend/layout.h"

#include <type_traits>
#include <variant>

namespace hp::cuda {
namespace {

/// Whether element i of a row is of its label's class. A row whose label is out of range does not count.
struct TargetsOfLabels {
  CountedLabels label_of;
  HP_HOST_DEVICE bool Counts(int64_t row) const { return label_of(row) >= 0; }
  HP_HOST_DEVICE float operator()(int64_t row, int64_t i) const { return i == label_of(row) ? 1.0f : 0.0f; }
};
struct NoTargets {
  HP_HOST_DEVICE bool Counts(int64_t) const { return true; }
  HP_HOST_DEVICE float operator()(int64_t, int64_t) const { return 0; }
};
struct TargetsOfValues {
  const float* t;
  int64_t width;
  HP_HOST_DEVICE bool Counts(int64_t) const { return true; }
  HP_HOST_DEVICE float operator()(int64_t row, int64_t i) const { return t[row * width + i]; }
};

/// Reads a row of x and its targets, writes its loss.
template <typename Function, typename Targets>
struct RowOfLosses {
  using Value = double;
  Function function;
  Targets target_of;
  const float* x;
  int64_t width;
  float* losses;
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const {
    return target_of.Counts(row) ? function.Value(x[row * width + i], target_of(row, i)) : 0.0f;
  }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& sum) const { losses[row] = static_cast<float>(sum); }
};

/// Reads x and targets, writes their gradient, or its opposite. It may overwrite the targets.
template <typename Function, typename Targets>
struct ElementGradient {
  Function function;
  Targets target_of;
  const float* x;
  const float *scale, *loss_scale;
  float sign;
  int64_t width;
  float* to;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    const int64_t at = row * width + i;
    const float by = target_of.Counts(row) ? sign * *scale * *loss_scale : 0;
    to[at] = by * function.Gradient(x[at], target_of(row, i));
  }
};

/// Elements in the order of the first input's memory. Targets in another layout go through scratch, behind a loss for
/// each row. Saved: what gradients are multiplied by.
template <typename Function>
class ElementLossOp final : public Op {
 public:
  ElementLossOp(const GpuContext& context, const Function& function, const ElementLossDesc& desc,
                const Backend::Descs& in)
      : context_(context),
        function_(function),
        desc_(desc),
        in_(in),
        rows_(in[0].shape[0]),
        width_(in[0].shape.count(1)),
        targets_(in.size() > 1 ? in[1] : TensorDesc{in[0].shape, 1}),
        foreign_(desc.targets <= ElementLossDesc::kLabels && !SameOrder(in[0], targets_)) {
    outputs_ = {{{1}, 1}};
    saved_bytes_ = sizeof(float);
    scratch_bytes_ = LossesBytes() + (foreign_ ? targets_.bytes() : 0);
  }

  void Forward(const OpArgs& args) override {
    float* const losses = reinterpret_cast<float*>(args.scratch);
    WithTargets(args, [&](const auto& target_of) {
      using Targets = std::decay_t<decltype(target_of)>;
      ReduceRows(context_.stream(), rows_, width_,
                 RowOfLosses<Function, Targets>{function_, target_of, args.in[0].floats(), width_, losses});
    });
    const SampleCount count = desc_.counted ? SampleCount::Sum(args.batch->batch_labels)
                                            : SampleCount::Fixed(desc_.per_sample * args.batch->global_rows);
    SumOverBatch(context_.stream(), losses, rows_, count,
                 StoreLoss{desc_.loss_weight, args.out[0].floats(), Scale(args)});
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) PutGradient(args, 1, args.d_in[0].floats());
    if (in_.size() < 2 || args.d_in[1].data == nullptr) return;
    if (!Function::kSymmetric) return Sum(context_.stream(), in_[1], {}, args.d_in[1].data);
    float* const own = foreign_ ? TargetsInOrder(args) : args.d_in[1].floats();
    PutGradient(args, -1, own);
    if (foreign_) CopyLayout(context_.stream(), InOrderOfFirst(), own, in_[1], args.d_in[1].data);
  }
  bool backward_reads_output() const override { return false; }

 private:
  size_t LossesBytes() const { return (rows_ * sizeof(float) + 63) / 64 * 64; }
  float* Scale(const OpArgs& args) const { return reinterpret_cast<float*>(args.saved); }
  float* TargetsInOrder(const OpArgs& args) const { return reinterpret_cast<float*>(args.scratch + LossesBytes()); }
  TensorDesc InOrderOfFirst() const { return {in_[0].shape, in_[0].channel_block}; }

  template <typename Use>
  void WithTargets(const OpArgs& args, const Use& use) const {
    if (desc_.targets == ElementLossDesc::kNone) return use(NoTargets());
    const float* const labels = args.batch->labels.data();
    if (desc_.targets == ElementLossDesc::kClasses) return use(TargetsOfLabels{{labels, width_, false, 0}});
    const float* const targets = desc_.targets == ElementLossDesc::kLabels ? labels : args.in[1].floats();
    if (!foreign_) return use(TargetsOfValues{targets, width_});
    CopyLayout(context_.stream(), targets_, targets, InOrderOfFirst(), TargetsInOrder(args));
    use(TargetsOfValues{TargetsInOrder(args), width_});
  }
  void PutGradient(const OpArgs& args, float sign, float* to) const {
    WithTargets(args, [&](const auto& target_of) {
      using Targets = std::decay_t<decltype(target_of)>;
      ForEachInRows(context_.stream(), rows_, width_,
                    ElementGradient<Function, Targets>{function_, target_of, args.in[0].floats(), Scale(args),
                                                       args.batch->loss_scale_on_device, sign, width_, to});
    });
  }

  const GpuContext context_;
  const Function function_;
  const ElementLossDesc desc_;
  const Backend::Descs in_;
  const int64_t rows_, width_;
  const TensorDesc targets_;
  const bool foreign_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::ElementLoss(const ElementLossDesc& desc, const Descs& in) {
  const auto make = [&](const Descs& float32) {
    return std::visit(
        [&](const auto& function) {
          using Function = std::decay_t<decltype(function)>;
          return StatusOr<OpPtr>(std::make_unique<ElementLossOp<Function>>(context_, function, desc, float32));
        },
        desc.function);
  };
  return OnFloat32(context_, in, make, /*dense=*/desc.targets == ElementLossDesc::kClasses);
}

}  // namespace hp::cuda
