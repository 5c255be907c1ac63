#include "backend/class_axis.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/label_count.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hp {
namespace {

/// The rows, or pixels, whose label is among the top_k, divided by the valid labels of the whole batch. Source: Caffe's
/// AccuracyLayer: a row is right if fewer than top_k other scores reach the label's, so ties count against it. (Caffe
/// calls a row right whose label's score is NaN; here it is wrong.) Scores of pixels in another layout than the dense
/// one go through scratch, behind the number of each row that is right.
class AccuracyOp final : public Op {
 public:
  AccuracyOp(const AccuracyDesc& desc, const TensorDesc& in)
      : desc_(desc),
        in_(in),
        dense_{in.shape, 1},
        at_(in.shape, desc.axis),
        rows_(at_.rows),
        classes_(at_.classes),
        pixels_(at_.pixels) {
    outputs_ = {{{1}, 1}};
    scratch_bytes_ = rows_ * sizeof(int64_t) + (SameOrder(in_, dense_) ? 0 : dense_.bytes());
  }

  void Forward(const OpArgs& args) override {
    const BatchContext& batch = *args.batch;
    int64_t* const right = reinterpret_cast<int64_t*>(args.scratch);
    const float* scores = args.in[0].floats();
    if (!SameOrder(in_, dense_)) {
      float* const copy = reinterpret_cast<float*>(right + rows_);
      CopyLayout(in_, scores, dense_, copy);
      scores = copy;
    }
    ForItems(rows_, dense_.count(), [&](int64_t row) {
      right[row] = 0;
      for (int64_t pixel = 0; pixel < pixels_; ++pixel) {
        const int64_t label = LabelOf(batch.labels[row * pixels_ + pixel]);
        right[row] += IsRight(scores + row * classes_ * pixels_ + pixel, label);
      }
    });
    const int64_t all = std::accumulate(right, right + rows_, int64_t{0});
    args.out[0].floats()[0] = ShareOfCounted(all, desc_, batch, at_.labels);
  }
  /// A count has no gradient.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].floats() != nullptr) std::fill_n(args.d_in[0].floats(), args.d_in[0].count(), 0.0f);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  /// @param scores of a pixel's classes, `pixels_` apart.
  bool IsRight(const float* scores, int64_t label) const {
    if (desc_.has_ignore_label && label == desc_.ignore_label) return false;
    if (label < 0 || label >= classes_ || std::isnan(scores[label * pixels_])) return false;
    int64_t better = 0;  // the label's own score is one of them
    for (int64_t i = 0; i < classes_; ++i) better += scores[i * pixels_] >= scores[label * pixels_];
    return better <= desc_.top_k;
  }

  const AccuracyDesc desc_;
  const TensorDesc in_, dense_;
  const ClassAxis at_;
  const int64_t rows_, classes_, pixels_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Accuracy(const AccuracyDesc& desc, const Descs& in) {
  const auto make = [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<AccuracyOp>(desc, floats[0]));
  };
  return OnFloat32(in, make, /*dense=*/desc.axis != 1);
}

}  // namespace hp
