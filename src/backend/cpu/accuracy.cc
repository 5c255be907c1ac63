#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/label_count.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

/// The rows whose label is among the top_k, divided by the valid labels of the whole batch. Source: Caffe's
/// AccuracyLayer: a row is right if fewer than top_k other scores reach the label's, so ties count against it. (Caffe
/// calls a row right whose label's score is NaN; here it is wrong.)
class AccuracyOp final : public Op {
 public:
  AccuracyOp(const AccuracyDesc& desc, const TensorDesc& in) : desc_(desc), rows_(in.shape[0]), classes_(in.shape[1]) {
    CHECK(desc.axis == 1 && in.count() == rows_ * classes_) << "scores " << in.shape;
    outputs_ = {{{1}, 1}};
  }

  void Forward(const OpArgs& args) override {
    const BatchContext& batch = *args.batch;
    int64_t right = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      right += IsRight(args.in[0].floats() + row * classes_, LabelOf(batch.labels[row]));
    }
    args.out[0].floats()[0] = ShareOfCounted(right, desc_, batch);
  }
  /// A count has no gradient.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].floats() != nullptr) std::fill_n(args.d_in[0].floats(), args.d_in[0].count(), 0.0f);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  bool IsRight(const float* scores, int64_t label) const {
    if (desc_.has_ignore_label && label == desc_.ignore_label) return false;
    if (label < 0 || label >= classes_ || std::isnan(scores[label])) return false;
    const auto better = std::count_if(scores, scores + classes_, [&](float score) { return score >= scores[label]; });
    return better <= desc_.top_k;  // the label's own score is one of them
  }

  const AccuracyDesc desc_;
  const int64_t rows_, classes_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Accuracy(const AccuracyDesc& desc, const Descs& in) {
  return Backend::OpPtr(std::make_unique<AccuracyOp>(desc, in[0]));
}

}  // namespace hp
