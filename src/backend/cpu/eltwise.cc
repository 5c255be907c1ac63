#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/relu_runs.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/vec.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

/// Product, weighted sum or maximum of inputs of one shape and element type, in the first input's layout; inputs in
/// other layouts go through scratch. Which input was the largest is found again in the backward pass rather than kept.
/// @tparam T float or BFloat16.
template <typename T>
class EltwiseOp final : public Op {
 public:
  EltwiseOp(const EltwiseDesc& desc, const Backend::Descs& in) : desc_(desc), in_(in), count_(in[0].count()) {
    outputs_ = {in[0]};
    if (desc_.coeff.empty()) desc_.coeff.assign(in.size(), 1.0f);
    // One place for each input in a foreign layout, and one for the gradient of such an input.
    const auto foreign = std::count_if(in.begin(), in.end(), [&](const TensorDesc& d) { return !SameOrder(d, in[0]); });
    if (foreign > 0) scratch_bytes_ = static_cast<size_t>(foreign + 1) * in[0].bytes();
  }

  void Forward(const OpArgs& args) override {
    const std::vector<const T*> x = Inputs(args);
    T* const y = DataOf<T>(args.out[0]);
    ForChunks(count_, [&](int64_t begin, int64_t end) {
      if (desc_.operation == EltwiseDesc::kSum) return Sum(x, begin, end, y);
      ForRuns<T>(begin, end, y, [&](int64_t first, int64_t count, float* values) {
        Combine(x, first, count, values);
        if (before_relu_) ReluRun(values, count);
      });
    });
  }

  void BackwardInput(const OpArgs& args) override {
    const std::vector<const T*> x = desc_.operation == EltwiseDesc::kSum ? std::vector<const T*>() : Inputs(args);
    const T* const dy = DataOf<const T>(args.d_out[0]);
    for (size_t k = 0; k < in_.size(); ++k) {
      T* const dx = DataOf<T>(args.d_in[k]);
      if (dx == nullptr) continue;
      const bool foreign = !SameOrder(in_[k], in_[0]);
      T* const target = foreign ? reinterpret_cast<T*>(args.scratch) : dx;
      ForChunks(count_, [&](int64_t begin, int64_t end) {
        ForRuns<T>(begin, end, target, [&](int64_t first, int64_t count, float* values) {
          Gradient(k, x, dy + first, first, count, values);
        });
      });
      if (foreign) CopyLayout(in_[0], target, in_[k], dx);
    }
  }
  bool TakeReluBehind() override {
    before_relu_ = true;
    return true;
  }
  bool backward_reads_input() const override { return desc_.operation != EltwiseDesc::kSum; }
  bool backward_reads_output() const override { return false; }

 private:
  /// The inputs in the first one's layout.
  std::vector<const T*> Inputs(const OpArgs& args) const {
    T* place = reinterpret_cast<T*>(args.scratch);
    std::vector<const T*> x;
    for (size_t k = 0; k < in_.size(); ++k) {
      x.push_back(DataOf<const T>(args.in[k]));
      if (SameOrder(in_[k], in_[0])) continue;
      place += count_;  // the first place is for gradients
      CopyLayout(in_[k], args.in[k].data, in_[0], place);
      x.back() = place;
    }
    return x;
  }

  /// Elements [begin, end) of the weighted sum, in the order of the inputs; in one pass over memory.
  void Sum(const std::vector<const T*>& inputs, int64_t begin, int64_t end, T* y) const {
    ForEachChunk(end - begin, [&](auto width, int64_t i) {
      constexpr int W = decltype(width)::value;
      const int64_t at = begin + i;
      FloatVec<W> sum = desc_.coeff[0] * Load<W>(inputs[0] + at);
      for (size_t k = 1; k < inputs.size(); ++k) sum += desc_.coeff[k] * Load<W>(inputs[k] + at);
      before_relu_ ? StoreRelu<T, W>(y + at, sum) : Store<W>(y + at, sum);
    });
  }

  /// y = elements [first, first + count) of all inputs, multiplied or their maximum, in order.
  void Combine(const std::vector<const T*>& inputs, int64_t first, int64_t count, float* y) const {
    for (size_t k = 0; k < inputs.size(); ++k) {
      const T* const x = inputs[k] + first;
      if (k == 0) {
        for (int64_t i = 0; i < count; ++i) y[i] = x[i];
      } else if (desc_.operation == EltwiseDesc::kProd) {
        for (int64_t i = 0; i < count; ++i) y[i] *= x[i];
      } else {
        for (int64_t i = 0; i < count; ++i) y[i] = Replaces(k, y[i], x[i]) ? static_cast<float>(x[i]) : y[i];
      }
    }
  }

  static void ReluRun(float* y, int64_t count) {
    ForEachChunk(count, [&](auto width, int64_t i) {
      constexpr int W = decltype(width)::value;
      StoreRelu<float, W>(y + i, Stored<T, W>(Load<W>(y + i)));
    });
  }

  /// Whether input k is the maximum after `best` of the inputs before it. Caffe's rule for equal values: the second
  /// input goes before the first, any later one behind. A NaN wins, so that it is seen.
  static bool Replaces(size_t k, float best, float x) {
    if (std::isnan(best) || std::isnan(x)) return std::isnan(x);
    return k == 1 ? x >= best : x > best;
  }

  /// @param dy from element `first` on.
  void Gradient(size_t k, const std::vector<const T*>& x, const T* dy, int64_t first, int64_t count, float* dx) const {
    switch (desc_.operation) {
      case EltwiseDesc::kSum:
        for (int64_t i = 0; i < count; ++i) dx[i] = desc_.coeff[k] * dy[i];
        break;
      case EltwiseDesc::kProd:
        for (int64_t i = 0; i < count; ++i) dx[i] = dy[i];
        for (size_t other = 0; other < x.size(); ++other) {
          if (other == k) continue;
          const T* const factor = x[other] + first;
          for (int64_t i = 0; i < count; ++i) dx[i] *= factor[i];
        }
        break;
      case EltwiseDesc::kMax:
        for (int64_t i = 0; i < count; ++i) dx[i] = Largest(x, first + i) == k ? static_cast<float>(dy[i]) : 0;
        break;
    }
  }

  static size_t Largest(const std::vector<const T*>& x, int64_t i) {
    size_t largest = 0;
    for (size_t k = 1; k < x.size(); ++k) {
      if (Replaces(k, x[largest][i], x[k][i])) largest = k;
    }
    return largest;
  }

  EltwiseDesc desc_;
  const Backend::Descs in_;
  const int64_t count_;
  bool before_relu_ = false;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Eltwise(const EltwiseDesc& desc, const Descs& in) {
  const auto is_bfloat16 = [](const TensorDesc& input) { return input.element == ElementType::kBFloat16; };
  if (std::all_of(in.begin(), in.end(), is_bfloat16)) return OpPtr(std::make_unique<EltwiseOp<BFloat16>>(desc, in));
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<EltwiseOp<float>>(desc, floats));
  });
}

}  // namespace hp
