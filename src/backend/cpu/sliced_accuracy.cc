// Accuracy over classes that shards have in slices. A row is right if fewer than top_k other scores reach the label's:
// of more than top_k such scores in one shard, its top_k largest show as much.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/label_count.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/shard_columns.h"
#include "backend/forward_only_op.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <vector>

namespace hp {
namespace {

/// Writes the largest of `scores`, at most top_k, and NaN where there are fewer. @param scores changes.
void SayLargest(std::vector<float>* scores, int64_t top_k, float* said) {
  std::fill_n(said, top_k, std::numeric_limits<float>::quiet_NaN());
  const auto end = scores->begin() + std::min<int64_t>(top_k, std::ssize(*scores));
  std::partial_sort(scores->begin(), end, scores->end(), std::greater<>());
  std::copy(scores->begin(), end, said);
}

class TopScoresOp final : public ForwardOnlyOp {
 public:
  TopScoresOp(const AccuracyDesc& desc, const ClassSlice& classes, const TensorDesc& in)
      : classes_(classes), top_k_(desc.top_k), rows_(in.shape[0]) {
    CHECK(desc.axis == 1 && in.count() == rows_ * classes_.columns()) << "scores " << in.shape;
    outputs_ = {{{rows_, 1 + top_k_}, 1}};
  }

  void Forward(const OpArgs& args) override {
    const ShardColumns columns(classes_, args);
    const int64_t n = columns.count();
    ForItems(rows_, rows_ * n, [&](int64_t row) {
      const float* const scores = args.in[0].floats() + row * classes_.columns();
      float* const said = args.out[0].floats() + row * (1 + top_k_);
      const int64_t label = columns.Of(LabelOf(args.batch->labels[row]));
      said[0] = label >= 0 ? scores[label] : 0;
      std::vector<float> others;
      others.reserve(n);
      for (int64_t c = 0; c < n; ++c) {
        if (c != label && !std::isnan(scores[c])) others.push_back(scores[c]);
      }
      SayLargest(&others, top_k_, said + 1);
    });
  }

 private:
  const ClassSlice classes_;
  const int64_t top_k_, rows_;
};

class JoinedTopScoresOp final : public ForwardOnlyOp {
 public:
  JoinedTopScoresOp(const AccuracyDesc& desc, const ClassSlice& classes, const TensorDesc& in)
      : classes_(classes), top_k_(desc.top_k) {
    outputs_ = {in};
  }

  void Forward(const OpArgs& args) override {
    const int64_t rows = outputs_[0].shape[0], numbers = 1 + top_k_;
    std::vector<float> others;
    for (int64_t row = 0; row < rows; ++row) {
      float* const said = args.out[0].floats() + row * numbers;
      const int64_t block = BlockOf(classes_, LabelOf(args.batch->labels[row]));
      said[0] = block >= 0 ? args.in[block].floats()[row * numbers] : 0;
      others.clear();
      for (const Tensor& part : args.in) {
        const float* const scores = part.floats() + row * numbers + 1;
        std::copy_if(scores, scores + top_k_, std::back_inserter(others), [](float s) { return !std::isnan(s); });
      }
      SayLargest(&others, top_k_, said + 1);
    }
  }

 private:
  const ClassSlice classes_;
  const int64_t top_k_;
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
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<TopScoresOp>(desc, classes, floats[0]));
  });
}

StatusOr<Backend::OpPtr> CpuBackend::JoinedTopScores(const AccuracyDesc& desc, const ClassSlice& classes,
                                                     const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<JoinedTopScoresOp>(desc, classes, floats[0]));
  });
}

StatusOr<Backend::OpPtr> CpuBackend::SlicedAccuracy(const AccuracyDesc& desc, int64_t classes, const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<SlicedAccuracyOp>(desc, classes, floats[0]));
  });
}

}  // namespace hp
