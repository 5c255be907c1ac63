// Accuracy over classes that shards have in slices. A row is right if fewer than top_k other scores reach the label's:
// of more than top_k such scores in one shard, its top_k largest show as much.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/label_count.h"
#include "backend/forward_only_op.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace hp {
namespace {

class TopScoresOp final : public ForwardOnlyOp {
 public:
  TopScoresOp(const AccuracyDesc& desc, const ClassSlice& classes, const TensorDesc& in)
      : classes_(classes.here), top_k_(desc.top_k), rows_(in.shape[0]) {
    CHECK(desc.axis == 1 && in.count() == rows_ * classes_.size()) << "scores " << in.shape;
    outputs_ = {{{rows_, 1 + top_k_}, 1}};
  }

  void Forward(const OpArgs& args) override {
    std::vector<float> others;
    for (int64_t row = 0; row < rows_; ++row) {
      const float* const scores = args.in[0].floats() + row * classes_.size();
      float* const said = args.out[0].floats() + row * (1 + top_k_);
      const int64_t of_all = LabelOf(args.batch->labels[row]);
      const int64_t label = of_all >= classes_.begin && of_all < classes_.end ? of_all - classes_.begin : -1;
      said[0] = label >= 0 ? scores[label] : 0;
      others.clear();
      for (int64_t c = 0; c < classes_.size(); ++c) {
        if (c != label && !std::isnan(scores[c])) others.push_back(scores[c]);
      }
      std::fill_n(said + 1, top_k_, std::numeric_limits<float>::quiet_NaN());
      std::partial_sort_copy(others.begin(), others.end(), said + 1,
                             said + 1 + std::min<int64_t>(top_k_, std::ssize(others)), std::greater<>());
    }
  }

 private:
  const Range classes_;
  const int64_t top_k_, rows_;
};

class SlicedAccuracyOp final : public ForwardOnlyOp {
 public:
  SlicedAccuracyOp(const AccuracyDesc& desc, int64_t classes, const TensorDesc& in)
      : desc_(desc), classes_(classes), rows_(in.shape[0]) {
    outputs_ = {{{1}, 1}};
  }

  void Forward(const OpArgs& args) override {
    const BatchContext& batch = *args.batch;
    int64_t right = 0;
    for (int64_t row = 0; row < rows_; ++row) right += IsRight(args.in, row, LabelOf(batch.labels[row]));
    args.out[0].floats()[0] = ShareOfCounted(right, desc_, batch);
  }

 private:
  bool IsRight(std::span<const Tensor> said, int64_t row, int64_t label) const {
    if (desc_.has_ignore_label && label == desc_.ignore_label) return false;
    if (label < 0 || label >= classes_) return false;
    const int64_t numbers = 1 + desc_.top_k;
    const float score = said[PartHolding(classes_, label, std::ssize(said))].floats()[row * numbers];
    int64_t better = 0;
    for (const Tensor& shard : said) {
      const float* const others = shard.floats() + row * numbers + 1;
      better += std::count_if(others, others + desc_.top_k, [=](float other) { return other >= score; });
    }
    return !std::isnan(score) && better < desc_.top_k;
  }

  const AccuracyDesc desc_;
  const int64_t classes_, rows_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::TopScores(const AccuracyDesc& desc, const ClassSlice& classes, const Descs& in) {
  return Backend::OpPtr(std::make_unique<TopScoresOp>(desc, classes, in[0]));
}

StatusOr<Backend::OpPtr> CpuBackend::SlicedAccuracy(const AccuracyDesc& desc, int64_t classes, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SlicedAccuracyOp>(desc, classes, in[0]));
}

}  // namespace hp
