#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/label_count.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/row_math.h"
#include "backend/label.h"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace hp {
namespace {

constexpr int64_t kCostOfLoss = 8;      // of an element, in copies
constexpr int64_t kValuesAtOnce = 512;  // whose sum is taken, while they are in the cache

// Loops in functions of their own, as in activation.cc, so that they become vectors. `target` is a function of i.

template <typename Function, typename Target>
__attribute__((noinline)) void ComputeValues(const Function function, const float* x, const Target target,
                                             int64_t begin, int64_t count, float* values) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] = function.Value(x[begin + i], target(begin + i));
}

template <typename Function, typename Target>
__attribute__((noinline)) void ComputeGradients(const Function function, const float* x, const Target target, float by,
                                                int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = by * function.Gradient(x[i], target(i));
}

template <typename Function, typename Target>
double SumOfValues(const Function& function, const float* x, const Target& target, int64_t count) {
  float values[kValuesAtOnce];
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kValuesAtOnce) {
    const int64_t some = std::min(kValuesAtOnce, count - begin);
    ComputeValues(function, x, target, begin, some, values);
    sum += RowSum(values, some);
  }
  return sum;
}

/// Elements in the order of the first input's memory, rows added in double. Targets in another layout go through
/// scratch, behind a sum for each row.
template <typename Function>
class ElementLossOp final : public Op {
 public:
  ElementLossOp(const Function& function, const ElementLossDesc& desc, const Backend::Descs& in)
      : function_(function),
        desc_(desc),
        in_(in),
        rows_(in[0].shape[0]),
        width_(in[0].shape.count(1)),
        targets_(in.size() > 1 ? in[1] : TensorDesc{in[0].shape, 1}),
        foreign_(desc.targets <= ElementLossDesc::kLabels && !SameOrder(in[0], targets_)) {
    outputs_ = {{{1}, 1}};
    scratch_bytes_ = rows_ * sizeof(double) + (foreign_ ? targets_.bytes() : 0);
  }

  void Forward(const OpArgs& args) override {
    const float* const x = args.in[0].floats();
    double* const sums = reinterpret_cast<double*>(args.scratch);
    WithTargets(args, [&](const auto& target_of) {
      ForItems(rows_, kCostOfLoss * rows_ * width_, [&](int64_t row) {
        sums[row] = target_of.Counts(row) ? SumOfValues(function_, x + row * width_, target_of.Row(row), width_) : 0;
      });
    });
    double sum = 0;
    for (int64_t row = 0; row < rows_; ++row) sum += sums[row];
    args.out[0].floats()[0] = static_cast<float>(sum / Normalizer(args));
  }

  void BackwardInput(const OpArgs& args) override {
    const float weight = static_cast<float>(desc_.loss_weight / Normalizer(args)) * args.batch->loss_scale;
    if (args.d_in[0].data != nullptr) PutGradient(args, weight, args.d_in[0].floats());
    if (in_.size() < 2 || args.d_in[1].data == nullptr) return;
    float* const to = args.d_in[1].floats();
    if (!Function::kSymmetric) {
      std::fill_n(to, in_[1].count(), 0.0f);
      return;
    }
    float* const own = foreign_ ? Targets(args) : to;  // in place of the targets, each of which is read before
    PutGradient(args, -weight, own);
    if (foreign_) CopyLayout(InOrderOfFirst(), own, in_[1], to);
  }
  bool backward_reads_output() const override { return false; }

 private:
  /// Whether element i of a row is of its label's class. A row whose label is out of range does not count;
  /// CheckBatchLabels refuses them before.
  struct OfLabels {
    const float* labels;
    int64_t classes;
    bool Counts(int64_t row) const { return LabelOf(labels[row]) >= 0 && LabelOf(labels[row]) < classes; }
    auto Row(int64_t row) const {
      return [label = LabelOf(labels[row])](int64_t i) { return i == label ? 1.0f : 0.0f; };
    }
  };
  struct Nothing {
    bool Counts(int64_t) const { return true; }
    auto Row(int64_t) const {
      return [](int64_t) { return 0.0f; };
    }
  };
  struct OfValues {
    const float* t;
    int64_t width;
    bool Counts(int64_t) const { return true; }
    auto Row(int64_t row) const {
      return [of_row = t + row * width](int64_t i) { return of_row[i]; };
    }
  };

  double Normalizer(const OpArgs& args) const {
    const int64_t count =
        desc_.counted ? SumOfCounts(args.batch->batch_labels) : desc_.per_sample * args.batch->global_rows;
    return static_cast<double>(std::max<int64_t>(count, 1));
  }
  float* Targets(const OpArgs& args) const { return reinterpret_cast<float*>(args.scratch + rows_ * sizeof(double)); }
  TensorDesc InOrderOfFirst() const { return {in_[0].shape, in_[0].channel_block}; }

  template <typename Use>
  void WithTargets(const OpArgs& args, const Use& use) const {
    if (desc_.targets == ElementLossDesc::kNone) return use(Nothing());
    if (desc_.targets == ElementLossDesc::kClasses) return use(OfLabels{args.batch->labels.data(), width_});
    const float* t = desc_.targets == ElementLossDesc::kLabels ? args.batch->labels.data() : args.in[1].floats();
    if (foreign_) {
      CopyLayout(targets_, t, InOrderOfFirst(), Targets(args));
      t = Targets(args);
    }
    use(OfValues{t, width_});
  }

  void PutGradient(const OpArgs& args, float weight, float* to) const {
    const float* const x = args.in[0].floats();
    WithTargets(args, [&](const auto& target_of) {
      ForItems(rows_, kCostOfLoss * rows_ * width_, [&](int64_t row) {
        const float by = target_of.Counts(row) ? weight : 0;
        ComputeGradients(function_, x + row * width_, target_of.Row(row), by, width_, to + row * width_);
      });
    });
  }

  const Function function_;
  const ElementLossDesc desc_;
  const Backend::Descs in_;
  const int64_t rows_, width_;
  const TensorDesc targets_;
  const bool foreign_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::ElementLoss(const ElementLossDesc& desc, const Descs& in) {
  const auto make = [&](const Descs& floats) -> StatusOr<OpPtr> {
    return std::visit(
        [&](const auto& function) {
          return OpPtr(std::make_unique<ElementLossOp<std::decay_t<decltype(function)>>>(function, desc, floats));
        },
        desc.function);
  };
  return OnFloat32(in, make, /*dense=*/desc.targets == ElementLossDesc::kClasses);
}

}  // namespace hp
