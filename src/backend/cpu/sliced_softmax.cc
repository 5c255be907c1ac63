// Softmax and its loss over classes that shards have in slices. Each shard says of a row the largest of its logits and
// the sum of exponentials relative to it; the sums of all shards are brought to the largest of all and added in the
// order of shards, so that every shard has the same bits. What a shard then needs of its own classes is computed again
// from the logits: to keep it would take memory of rows x classes in every solver.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/loss_rows.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/row_math.h"
#include "backend/cpu/shard_columns.h"
#include "backend/cpu/softmax_math.h"
#include "backend/forward_only_op.h"

#include "glog/logging.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <optional>

namespace hp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What is known of a row's classes, some or all: the largest logit, and the sum of exponentials relative to it.
struct RowClasses {
  float largest = -kInfinity;
  double sum = 0;

  static RowClasses Of(const float* x, int64_t classes) {
    return Of(RowMax(x, classes), classes, [x](int64_t begin, int64_t, float*) { return x + begin; });
  }
  /// Of the logits that `margin` makes of x. @param label its index among them, if it is one of them.
  static RowClasses Of(const MarginRule& margin, const float* x, int64_t classes, int64_t label) {
    const bool here = label >= 0 && label < classes;
    const int64_t before = here ? label : classes, behind = here ? label + 1 : classes;
    float largest = here ? std::max(-kInfinity, margin.LabelLogit(x[label])) : -kInfinity;  // so without a NaN
    if (!here || classes > 1) {
      const float others = std::max(RowMax(x, before), RowMax(x + behind, classes - behind));
      largest = std::max(largest, margin.Logit(others));
    }
    return Of(largest, classes, [&](int64_t begin, int64_t count, float* logits) {
      MarginLogits(margin, x + begin, count, label - begin, logits);
      return logits;
    });
  }
  /// @param largest of the logits. @param logits(begin, count, place) yields some of them, computed at `place` or not.
  template <typename Logits>
  static RowClasses Of(float largest, int64_t classes, const Logits& logits) {
    constexpr int64_t kChunk = 1024;  // 4 KiB: they stay in the first-level cache
    RowClasses row = {largest, 0};
    // Minus infinity is no number to subtract. Classes there add nothing; a NaN stays.
    const float shift = row.largest == -kInfinity ? 0 : row.largest;
    float exponentials[kChunk];
    for (int64_t begin = 0; begin < classes; begin += kChunk) {
      const int64_t count = std::min(kChunk, classes - begin);
      RowExp(logits(begin, count, exponentials), shift, 1, count, exponentials);
      row.sum += RowSum(exponentials, count);
    }
    return row;
  }
  /// @param said [rows, numbers] of each shard, or of each block of one.
  static RowClasses Joined(std::span<const Tensor> said, int64_t row) {
    RowClasses joined;
    for (const Tensor& part : said) joined.largest = std::max(joined.largest, Numbers(part, row)[0]);
    for (const Tensor& part : said) {
      const float* const numbers = Numbers(part, row);
      // Without any finite class its largest is minus infinity, which is no number to subtract.
      joined.sum += numbers[1] == 0 ? 0 : numbers[1] * std::exp(numbers[0] - joined.largest);
    }
    return joined;
  }
  /// Of all classes that there are.
  static RowClasses Merged(std::span<const Tensor> said, int64_t row) {
    RowClasses merged = Joined(said, row);
    // As the whole softmax: if nothing is above minus infinity it is not a number.
    if (merged.sum == 0) merged.sum = std::numeric_limits<double>::quiet_NaN();
    return merged;
  }
  float Probability(float x) const { return factor() * std::exp(x - largest); }
  /// `scale` times the probabilities of `classes` classes.
  void Probabilities(const float* x, int64_t classes, float scale, float* to) const {
    RowExp(x, largest, scale * factor(), classes, to);
  }

  float factor() const { return static_cast<float>(1 / sum); }
  static const float* Numbers(const Tensor& said, int64_t row) {
    return said.floats() + row * said.desc.shape.count(1);
  }
};

class ClassStatisticsOp final : public ForwardOnlyOp {
 public:
  ClassStatisticsOp(const ClassSlice& classes, bool labels, const std::optional<MarginDesc>& margin,
                    const TensorDesc& in)
      : classes_(classes), labels_(labels), rows_(in.shape[0]) {
    CHECK_EQ(in.count(), rows_ * classes_.columns()) << "logits " << in.shape;
    CHECK(labels || !margin) << "a margin needs labels";
    if (margin) margin_.emplace(*margin);
    outputs_ = {{{rows_, labels ? 3 : 2}, 1}};
  }

  void Forward(const OpArgs& args) override {
    const ShardColumns columns(classes_, args);
    const int64_t n = columns.count(), numbers = labels_ ? 3 : 2;
    ForItems(rows_, kExpCost * rows_ * n, [&](int64_t row) {
      const float* const x = args.in[0].floats() + row * classes_.columns();
      float* const said = args.out[0].floats() + row * numbers;
      const int64_t at = labels_ ? columns.Of(LabelOf(args.batch->labels[row])) : -1;
      const RowClasses classes = margin_ ? RowClasses::Of(*margin_, x, n, at) : RowClasses::Of(x, n);
      said[0] = classes.largest;
      said[1] = static_cast<float>(classes.sum);
      if (labels_) said[2] = at >= 0 ? LabelLogit(x[at]) : 0;
    });
  }

 private:
  float LabelLogit(float x) const { return margin_ ? margin_->LabelLogit(x) : x; }

  const ClassSlice classes_;
  const bool labels_;
  const int64_t rows_;
  std::optional<MarginRule> margin_;
};

class JoinedStatisticsOp final : public ForwardOnlyOp {
 public:
  JoinedStatisticsOp(const ClassSlice& classes, const TensorDesc& in) : classes_(classes) { outputs_ = {in}; }

  void Forward(const OpArgs& args) override {
    const Shape& shape = outputs_[0].shape;
    for (int64_t row = 0; row < shape[0]; ++row) {
      const RowClasses joined = RowClasses::Joined(args.in, row);
      float* const said = args.out[0].floats() + row * shape[1];
      said[0] = joined.largest;
      said[1] = static_cast<float>(joined.sum);
      if (shape[1] < 3) continue;
      const int64_t block = BlockOf(classes_, LabelOf(args.batch->labels[row]));
      said[2] = block < 0 ? 0 : RowClasses::Numbers(args.in[block], row)[2];
    }
  }

 private:
  const ClassSlice classes_;
};

class SlicedSoftmaxOp final : public ForwardOnlyOp {
 public:
  explicit SlicedSoftmaxOp(const TensorDesc& in) { outputs_ = {in}; }

  void Forward(const OpArgs& args) override {
    const int64_t rows = outputs_[0].shape[0], n = outputs_[0].shape.count(1);
    ForItems(rows, kExpCost * rows * n, [&](int64_t row) {
      const RowClasses classes = RowClasses::Merged(args.in.subspan(1), row);
      const float* const x = args.in[0].floats() + row * n;
      float* const y = args.out[0].floats() + row * n;
      classes.Probabilities(x, n, 1, y);
    });
  }
};

/// Saved, for each row: RowClasses of all shards. Source of the rules: Caffe's SoftmaxWithLossLayer.
class SlicedSoftmaxLossOp final : public Op {
 public:
  SlicedSoftmaxLossOp(const SoftmaxLossDesc& desc, const ClassSlice& classes, const Backend::Descs& in)
      : rule_(desc, classes.count), classes_(classes), rows_(in[0].shape[0]) {
    CHECK(desc.axis == 1 && !desc.probabilities && in[0].count() == rows_ * classes.columns())
        << "logits " << in[0].shape;
    outputs_ = {{{1}, 1}};
    if (desc.margin) margin_.emplace(*desc.margin);
    saved_bytes_ = static_cast<size_t>(rows_) * sizeof(RowClasses);
  }

  void Forward(const OpArgs& args) override {
    const std::span<const Tensor> said = args.in.subspan(1);
    const int64_t shards = std::ssize(said);
    double sum = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const RowClasses classes = Saved(args)[row] = RowClasses::Merged(said, row);
      if (!rule_.IsCounted(*args.batch, row)) continue;
      const int64_t owner = PartHolding(classes_.count, LabelOf(args.batch->labels[row]), shards);
      const float probability = classes.Probability(RowClasses::Numbers(said[owner], row)[2]);
      sum -= std::log(std::max(probability, FLT_MIN));  // in this order a NaN stays
    }
    args.out[0].floats()[0] = static_cast<float>(sum / rule_.Normalizer(*args.batch));
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const float scale = rule_.GradientScale(*args.batch);
    const ShardColumns columns(classes_, args);
    const int64_t n = columns.count(), stride = classes_.columns();
    ForItems(rows_, kExpCost * rows_ * n, [&](int64_t row) {
      const float* const x = args.in[0].floats() + row * stride;
      float* const to = args.d_in[0].floats() + row * stride;
      if (!rule_.IsCounted(*args.batch, row)) {
        std::fill_n(to, n, 0.0f);
        return;
      }
      const RowClasses classes = Saved(args)[row];
      const int64_t label = columns.Of(LabelOf(args.batch->labels[row]));
      const bool here = label >= 0;
      if (margin_) MarginLogits(*margin_, x, n, label, to);
      const float* const logits = margin_ ? to : x;
      const float of_label = here ? logits[label] : 0;
      classes.Probabilities(logits, n, scale, to);
      if (here) to[label] = scale * (classes.Probability(of_label) - 1);
    });
  }
  bool backward_reads_output() const override { return false; }

 private:
  RowClasses* Saved(const OpArgs& args) const { return reinterpret_cast<RowClasses*>(args.saved); }

  const LossRows rule_;
  const ClassSlice classes_;
  const int64_t rows_;
  std::optional<MarginRule> margin_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::ClassStatistics(const ClassSlice& classes, bool labels,
                                                     const std::optional<MarginDesc>& margin, const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<ClassStatisticsOp>(classes, labels, margin, floats[0]));
  });
}

StatusOr<Backend::OpPtr> CpuBackend::JoinedStatistics(const ClassSlice& classes, const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<JoinedStatisticsOp>(classes, floats[0]));
  });
}

StatusOr<Backend::OpPtr> CpuBackend::SlicedSoftmax(const Descs& in) {
  return OnFloat32(
      in, [&](const Descs& floats) -> StatusOr<OpPtr> { return OpPtr(std::make_unique<SlicedSoftmaxOp>(floats[0])); });
}

StatusOr<Backend::OpPtr> CpuBackend::SlicedSoftmaxLoss(const SoftmaxLossDesc& desc, const ClassSlice& classes,
                                                       const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<SlicedSoftmaxLossOp>(desc, classes, floats));
  });
}

}  // namespace hp
