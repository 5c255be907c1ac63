// Accuracy over classes that are spread over shards. A row is right if fewer than top_k other scores reach the label's,
// so of each shard no more than its top_k largest ones matter.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/long_rows.h"
#include "backend/cuda/loss_rules.h"
#include "backend/cuda/scratch.h"
#include "backend/cuda/shard_rows.h"
#include "backend/forward_only_op.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp::cuda {
namespace {

/// The scores [rows, classes] of a shard whose first class is `first`.
struct ShardScores {
  const float *x, *labels;
  int64_t first, classes;
  HP_HOST_DEVICE float At(int64_t row, int64_t i) const { return x[row * classes + i]; }
  /// The place of the row's label among the classes; -1: it is not of this shard.
  HP_HOST_DEVICE int64_t Label(int64_t row) const {
    const int64_t label = LabelOf(labels[row]);
    return label >= first && label < first + classes ? label - first : -1;
  }
};

/// A score and the place of its class; no class: -1.
struct RankedScore {
  float score;
  int32_t index;
};

/// Whether `a` comes before `b`: scores fall, of equal ones the lower index goes first. Both are scores.
HP_HOST_DEVICE inline bool RanksBefore(const RankedScore& a, const RankedScore& b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

/// One of top_k rounds: finds the first score behind the one that the round before found, and writes it. Reads x once.
struct NextScore {
  using Value = RankedScore;
  ShardScores scores;
  int64_t width, round;
  RankedScore* last;  ///< [rows]: what the round before found, replaced by what this one finds
  float* said;

  HP_HOST_DEVICE Value Identity() const { return {0, -1}; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const {
    const Value value = {scores.At(row, i), static_cast<int32_t>(i)};
    const bool is_number = value.score == value.score, is_label = i == scores.Label(row);
    const bool is_left = round == 0 || (last[row].index >= 0 && RanksBefore(last[row], value));
    return is_number && !is_label && is_left ? value : Identity();
  }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const {
    if (a.index < 0) return b;
    return b.index < 0 || RanksBefore(a, b) ? a : b;
  }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& value) const {
    last[row] = value;
    said[row * width + 1 + round] = value.index < 0 ? NAN : value.score;
  }
};

/// The label's score (0 where it is another shard's), and NaN in the places from `found` on, for which the shard has
/// too few classes.
struct LabelScore {
  ShardScores scores;
  int64_t width, found;
  float* said;
  HP_HOST_DEVICE void operator()(int64_t row) const {
    const int64_t label = scores.Label(row);
    said[row * width] = label < 0 ? 0 : scores.At(row, label);
    for (int64_t i = 1 + found; i < width; ++i) said[row * width + i] = NAN;
  }
};

/// Scratch: the last score found of each row, then ReduceLongRows'.
class TopScoresOp final : public ForwardOnlyOp {
 public:
  TopScoresOp(const GpuContext& context, const AccuracyDesc& desc, const ClassSlice& classes, const TensorDesc& x)
      : context_(context), top_k_(desc.top_k), rows_(x.shape[0]), classes_(classes.here) {
    CHECK(desc.axis == 1 && x.shape[1] == classes_.size() && x.count() == rows_ * classes_.size())
        << "scores " << x.shape;
    outputs_ = {{{rows_, 1 + top_k_}, 1}};
    ScratchPlan scratch;
    scratch.Add(rows_ * sizeof(RankedScore));
    pieces_at_ = scratch.Add(RowPieces(rows_, classes_.size()).scratch_bytes());
    scratch_bytes_ = scratch.bytes();
  }

  void Forward(const OpArgs& args) override {
    const ShardScores scores = {args.in[0].floats(), args.batch->labels.data(), classes_.begin, classes_.size()};
    const int64_t width = 1 + top_k_, rounds = std::min(top_k_, scores.classes);
    float* said = args.out[0].floats();
    RankedScore* last = reinterpret_cast<RankedScore*>(args.scratch);
    ForEach(context_.stream(), rows_, LabelScore{scores, width, rounds, said});
    for (int64_t round = 0; round < rounds; ++round) {
      ReduceLongRows(context_.stream(), RowPieces(rows_, scores.classes), NextScore{scores, width, round, last, said},
                     args.scratch + pieces_at_);
    }
  }

 private:
  const GpuContext context_;
  const int64_t top_k_, rows_;
  const Range classes_;
  size_t pieces_at_ = 0;  // in scratch
};

/// The label's score, found where its shard is among these; NaN for a row that does not count.
struct FindLabelScore {
  ShardRows said;
  CountedLabels label_of;
  float* scores;
  HP_HOST_DEVICE void operator()(int64_t row) const {
    const int64_t label = label_of(row);
    if (label < 0) {
      scores[row] = NAN;
      return;
    }
    const float* numbers = said.RowOfHolder(row, label, label_of.classes);
    if (numbers != nullptr) scores[row] = numbers[0];
  }
};

/// Counts the other scores that reach the label's in `right`; after the last shard, 1 for a right row, else 0. A NaN
/// reaches nothing, and yet a label with such a score is wrong.
struct CountReached {
  ShardRows said;
  const float* scores;
  float* right;
  HP_HOST_DEVICE void operator()(int64_t row) const {
    const float score = scores[row];
    const int64_t top_k = said.width - 1;
    int64_t reached = said.begins() ? 0 : static_cast<int64_t>(right[row]);
    for (int64_t shard = 0; shard < said.count; ++shard) {
      const float* others = said.Row(shard, row) + 1;
      for (int64_t i = 0; i < top_k; ++i) reached += others[i] >= score ? 1 : 0;
    }
    if (reached > top_k) reached = top_k;  // a float holds it
    right[row] = said.ends() ? (score == score && reached < top_k ? 1 : 0) : static_cast<float>(reached);
  }
};

/// Scratch: each row's label's score, and whether it is right. Source of the rules: Caffe's AccuracyLayer.
class SlicedAccuracyOp final : public ForwardOnlyOp {
 public:
  SlicedAccuracyOp(const GpuContext& context, const AccuracyDesc& desc, int64_t classes, const TensorDesc& said)
      : context_(context), desc_(desc), classes_(classes), rows_(said.shape[0]), width_(said.shape[1]) {
    CHECK_EQ(width_, 1 + desc.top_k);
    outputs_ = {{{1}, 1}};
    ScratchPlan plan;
    scores_ = plan.Add(rows_ * sizeof(float));
    right_ = plan.Add(rows_ * sizeof(float));
    scratch_bytes_ = plan.bytes();
  }

  void Forward(const OpArgs& args) override {
    float *scores = ScratchFloats(args.scratch, scores_), *right = ScratchFloats(args.scratch, right_);
    const CountedLabels label_of = LabelsOf(desc_, *args.batch, classes_);
    ForShards(args.in, width_, [&](const ShardRows& said) {
      ForEach(context_.stream(), rows_, FindLabelScore{said, label_of, scores});
    });
    ForShards(args.in, width_, [&](const ShardRows& said) {
      ForEach(context_.stream(), rows_, CountReached{said, scores, right});
    });
    SumOverBatch(context_.stream(), right, rows_, ValidLabels(desc_, *args.batch), StoreAccuracy{args.out[0].floats()});
  }

 private:
  const GpuContext context_;
  const AccuracyDesc desc_;
  const int64_t classes_, rows_, width_;
  size_t scores_ = 0, right_ = 0;  ///< offsets in scratch
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::TopScores(const AccuracyDesc& desc, const ClassSlice& classes, const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<TopScoresOp>(context_, desc, classes, float32[0]));
  });
}

StatusOr<Backend::OpPtr> CudaBackend::SlicedAccuracy(const AccuracyDesc& desc, int64_t classes, const Descs& in) {
  return OpPtr(std::make_unique<SlicedAccuracyOp>(context_, desc, classes, in[0]));
}

}  // namespace hp::cuda
