#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

/// Product, weighted sum or maximum of inputs of one shape, in the first input's layout; inputs in other layouts go
/// through scratch. Which input was the largest is found again in the backward pass rather than kept.
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
    const std::vector<const float*> x = Inputs(args);
    float* y = args.out[0].floats();
    ForChunks(count_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = desc_.operation == EltwiseDesc::kSum ? desc_.coeff[0] * x[0][i] : x[0][i];
      for (size_t k = 1; k < x.size(); ++k) Combine(k, x[k], y, begin, end);
    });
  }

  void BackwardInput(const OpArgs& args) override {
    const std::vector<const float*> x =
        desc_.operation == EltwiseDesc::kSum ? std::vector<const float*>() : Inputs(args);
    for (size_t k = 0; k < in_.size(); ++k) {
      float* dx = args.d_in[k].floats();
      if (dx == nullptr) continue;
      const bool foreign = !SameOrder(in_[k], in_[0]);
      float* target = foreign ? reinterpret_cast<float*>(args.scratch) : dx;
      ForChunks(count_,
                [&](int64_t begin, int64_t end) { Gradient(k, x, args.d_out[0].floats(), target, begin, end); });
      if (foreign) CopyLayout(in_[0], target, in_[k], dx);
    }
  }
  bool backward_reads_input() const override { return desc_.operation != EltwiseDesc::kSum; }
  bool backward_reads_output() const override { return false; }

 private:
  /// The inputs in the first one's layout.
  std::vector<const float*> Inputs(const OpArgs& args) const {
    float* place = reinterpret_cast<float*>(args.scratch);
    std::vector<const float*> x;
    for (size_t k = 0; k < in_.size(); ++k) {
      x.push_back(args.in[k].floats());
      if (SameOrder(in_[k], in_[0])) continue;
      place += count_;  // the first place is for gradients
      CopyLayout(in_[k], args.in[k].floats(), in_[0], place);
      x.back() = place;
    }
    return x;
  }

  /// y = y combined with input k.
  void Combine(size_t k, const float* x, float* y, int64_t begin, int64_t end) const {
    const float coeff = desc_.coeff[k];
    switch (desc_.operation) {
      case EltwiseDesc::kProd:
        for (int64_t i = begin; i < end; ++i) y[i] *= x[i];
        break;
      case EltwiseDesc::kSum:
        for (int64_t i = begin; i < end; ++i) y[i] += coeff * x[i];
        break;
      case EltwiseDesc::kMax:
        for (int64_t i = begin; i < end; ++i) y[i] = Replaces(k, y[i], x[i]) ? x[i] : y[i];
        break;
    }
  }

  /// Whether input k is the maximum after `best` of the inputs before it. Caffe's rule for equal values: the second
  /// input goes before the first, any later one behind. A NaN wins, so that it is seen.
  static bool Replaces(size_t k, float best, float x) {
    if (std::isnan(best) || std::isnan(x)) return std::isnan(x);
    return k == 1 ? x >= best : x > best;
  }

  void Gradient(size_t k, const std::vector<const float*>& x, const float* dy, float* dx, int64_t begin,
                int64_t end) const {
    switch (desc_.operation) {
      case EltwiseDesc::kSum:
        for (int64_t i = begin; i < end; ++i) dx[i] = desc_.coeff[k] * dy[i];
        break;
      case EltwiseDesc::kProd:
        std::copy(dy + begin, dy + end, dx + begin);
        for (size_t other = 0; other < x.size(); ++other) {
          if (other == k) continue;
          for (int64_t i = begin; i < end; ++i) dx[i] *= x[other][i];
        }
        break;
      case EltwiseDesc::kMax:
        for (int64_t i = begin; i < end; ++i) dx[i] = Largest(x, i) == k ? dy[i] : 0;
        break;
    }
  }

  static size_t Largest(const std::vector<const float*>& x, int64_t i) {
    size_t largest = 0;
    for (size_t k = 1; k < x.size(); ++k) {
      if (Replaces(k, x[largest][i], x[k][i])) largest = k;
    }
    return largest;
  }

  EltwiseDesc desc_;
  const Backend::Descs in_;
  const int64_t count_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Eltwise(const EltwiseDesc& desc, const Descs& in) {
  return Backend::OpPtr(std::make_unique<EltwiseOp>(desc, in));
}

}  // namespace hp
