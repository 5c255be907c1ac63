// Softmax and its loss over classes that are spread over shards. Each shard says the largest of its logits and the sum
// of their exponentials; merged in the order of shards they are what a reduction of the whole row yields, so that all
// nodes get the same bits. Probabilities are computed from the logits wherever they are wanted.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/loss_rules.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/scratch.h"
#include "backend/cuda/shard_rows.h"
#include "backend/cuda/softmax_rows.h"

#include "glog/logging.h"

#include <optional>
#include <type_traits>

namespace hp::cuda {
namespace {

using RowSum = SoftmaxSums::Value;

/// Reads x once and writes `width` numbers for each row: the largest logit, the sum of exponentials and, if labels are
/// not null, the label's logit (0 where it is another shard's).
template <typename Logits>
struct RowStatistics {
  using Value = RowSum;
  SoftmaxOf<Logits> softmax;
  const float* labels;
  Range classes;
  int64_t width;
  float* said;

  HP_HOST_DEVICE Value Identity() const { return softmax.Identity(); }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const { return softmax.Map(row, i); }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return softmax.Combine(a, b); }
  HP_HOST_DEVICE void Finish(int64_t row, const Value& value) const {
    float* to = said + row * width;
    to[0] = value.largest;
    to[1] = Sum(value);
    if (labels == nullptr) return;
    const int64_t label = LabelOf(labels[row]);
    const bool here = label >= classes.begin && label < classes.end;
    to[2] = here ? softmax.Logit(row, label - classes.begin) : 0;
  }

 private:
  /// The reduction adds 1 for an element that equals the largest one, and for a row's only element: also for a minus
  /// infinity or, in a row of one, a NaN.
  HP_HOST_DEVICE static float Sum(const Value& value) {
    if (!(value.largest < INFINITY)) return NAN;
    const float sum = static_cast<float>(value.sum);
    return value.largest == -INFINITY && sum == sum ? 0 : sum;
  }
};

/// Adds what some shards said of a row to what those before them did. A shard whose sum is zero adds nothing; if all
/// are, every probability comes out as a NaN.
struct MergeRow {
  ShardRows said;
  RowSum* merged;
  HP_HOST_DEVICE void operator()(int64_t row) const { merged[row] = Merge(row); }
  HP_HOST_DEVICE RowSum Merge(int64_t row) const {
    RowSum value = said.begins() ? SoftmaxSums::Identity() : merged[row];
    for (int64_t shard = 0; shard < said.count; ++shard) {
      const float* numbers = said.Row(shard, row);
      value = SoftmaxSums::Combine(value, {numbers[0], numbers[1]});
    }
    return value;
  }
};

/// The same, and the row's loss, for which the label's logit is kept in `losses` until all shards are merged.
struct MergeLoss {
  MergeRow merge;
  CountedLabels label_of;
  float* losses;
  HP_HOST_DEVICE void operator()(int64_t row) const {
    const RowSum value = merge.Merge(row);
    merge.merged[row] = value;
    const int64_t label = label_of(row);
    if (label < 0) {
      losses[row] = 0;
      return;
    }
    const float* numbers = merge.said.RowOfHolder(row, label, label_of.classes);
    if (numbers != nullptr) losses[row] = numbers[2];
    if (merge.said.ends()) losses[row] = LabelLoss(SoftmaxSums::Probability(losses[row], value));
  }
};

/// Reads x, writes y.
struct SliceSoftmax {
  SoftmaxForward softmax;
  const RowSum* merged;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const { softmax.Each(row, i, merged[row]); }
};

/// Reads x, writes its gradient.
template <typename Logits>
struct SliceLossGradient {
  SoftmaxOf<Logits> softmax;  ///< without y
  const RowSum* merged;
  const float *scale, *loss_scale;
  CountedLabels label_of;
  int64_t first_class;
  float* d_x;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    const int64_t label = label_of(row);
    const float probability = softmax.Probability(softmax.Logit(row, i), merged[row]);
    const float gradient = *scale * *loss_scale * (first_class + i == label ? probability - 1 : probability);
    d_x[softmax.at(row, i)] = label < 0 ? 0 : gradient;
  }
};

/// What the ops of this file have in common: logits [rows, n] of one pixel, so every layout is the dense one.
class SlicedOp : public Op {
 protected:
  SlicedOp(const GpuContext& context, const TensorDesc& x)
      : context_(context), rows_(x.shape[0]), columns_{x.shape[1], 1} {
    CHECK_EQ(x.count(), rows_ * columns_.classes) << "logits " << x.shape;
  }
  /// Calls use(SoftmaxOf<...> without y) for this shard's logits. @param label_of among all classes.
  template <typename Use>
  void WithSoftmax(const OpArgs& args, const std::optional<MarginDesc>& margin, const CountedLabels& label_of,
                   int64_t first_class, const Use& use) const {
    WithLogits(margin, args.in[0].floats(), label_of, first_class, [&](const auto& logits) {
      use(SoftmaxOf<std::decay_t<decltype(logits)>>{{}, logits, nullptr, columns_});
    });
  }

  const GpuContext context_;
  const int64_t rows_;
  const SoftmaxColumns columns_;
};

class ClassStatisticsOp final : public SlicedOp {
 public:
  ClassStatisticsOp(const GpuContext& context, const ClassSlice& classes, bool labels,
                    const std::optional<MarginDesc>& margin, const TensorDesc& x)
      : SlicedOp(context, x), classes_(classes), labels_(labels), margin_(margin) {
    CHECK_EQ(classes.here.size(), columns_.classes);
    CHECK(labels || !margin) << "a margin needs labels";
    outputs_ = {{{rows_, width()}, 1}};
    scratch_bytes_ = SoftmaxRowsScratch(rows_, columns_);
  }

  void Forward(const OpArgs& args) override {
    const float* labels = labels_ ? args.batch->labels.data() : nullptr;
    const CountedLabels label_of = {labels, classes_.count, false, 0};
    WithSoftmax(args, margin_, label_of, classes_.here.begin, [&]<typename Logits>(const SoftmaxOf<Logits>& softmax) {
      ReduceSoftmaxRows(context_.stream(), rows_,
                        RowStatistics<Logits>{softmax, labels, classes_.here, width(), args.out[0].floats()}, columns_,
                        args.scratch);
    });
  }
  void BackwardInput(const OpArgs&) override {}
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  int64_t width() const { return labels_ ? 3 : 2; }

  const ClassSlice classes_;
  const bool labels_;
  const std::optional<MarginDesc> margin_;
};

/// Scratch: the merged sums.
class SlicedSoftmaxOp final : public SlicedOp {
 public:
  SlicedSoftmaxOp(const GpuContext& context, const TensorDesc& x) : SlicedOp(context, x) {
    outputs_ = {x};
    scratch_bytes_ = rows_ * sizeof(RowSum);
  }

  void Forward(const OpArgs& args) override {
    RowSum* merged = reinterpret_cast<RowSum*>(args.scratch);
    ForShards(args.in.subspan(1), 2, [&](const ShardRows& said) {
      ForEach(context_.stream(), rows_, MergeRow{said, merged});
    });
    ForEachInRows(context_.stream(), rows_, columns_.classes,
                  SliceSoftmax{{{}, {args.in[0].floats()}, args.out[0].floats(), columns_}, merged});
  }
  void BackwardInput(const OpArgs&) override {}
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }
};

/// Saved: the merged sums, then the factor of the gradients, which only the device knows where ignored labels are
/// counted. Source of the rules: Caffe's SoftmaxWithLossLayer.
class SlicedSoftmaxLossOp final : public SlicedOp {
 public:
  SlicedSoftmaxLossOp(const GpuContext& context, const SoftmaxLossDesc& desc, const ClassSlice& classes,
                      const TensorDesc& x)
      : SlicedOp(context, x), desc_(desc), classes_(classes) {
    CHECK(desc.axis == 1 && !desc.probabilities);
    CHECK_EQ(classes.here.size(), columns_.classes);
    outputs_ = {{{1}, 1}};
    saved_bytes_ = rows_ * sizeof(RowSum) + sizeof(float);
    scratch_bytes_ = rows_ * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    float* losses = ScratchFloats(args.scratch, 0);
    const CountedLabels label_of = LabelsOf(desc_, *args.batch, classes_.count);
    ForShards(args.in.subspan(1), 3, [&](const ShardRows& said) {
      ForEach(context_.stream(), rows_, MergeLoss{{said, Merged(args)}, label_of, losses});
    });
    SumOverBatch(context_.stream(), losses, rows_, LossNormalizer(desc_, *args.batch),
                 StoreLoss{desc_.gradient_weight(), args.out[0].floats(), Scale(args)});
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const CountedLabels label_of = LabelsOf(desc_, *args.batch, classes_.count);
    const int64_t first = classes_.here.begin;
    WithSoftmax(args, desc_.margin, label_of, first, [&]<typename Logits>(const SoftmaxOf<Logits>& softmax) {
      ForEachInRows(context_.stream(), rows_, columns_.classes,
                    SliceLossGradient<Logits>{softmax, Merged(args), Scale(args), args.batch->loss_scale_on_device,
                                              label_of, first, args.d_in[0].floats()});
    });
  }
  bool backward_reads_output() const override { return false; }

 private:
  RowSum* Merged(const OpArgs& args) const { return reinterpret_cast<RowSum*>(args.saved); }
  float* Scale(const OpArgs& args) const { return reinterpret_cast<float*>(Merged(args) + rows_); }

  const SoftmaxLossDesc desc_;
  const ClassSlice classes_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::ClassStatistics(const ClassSlice& classes, bool labels,
                                                      const std::optional<MarginDesc>& margin, const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<ClassStatisticsOp>(context_, classes, labels, margin, float32[0]));
  });
}

StatusOr<Backend::OpPtr> CudaBackend::SlicedSoftmax(const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<SlicedSoftmaxOp>(context_, float32[0]));
  });
}

StatusOr<Backend::OpPtr> CudaBackend::SlicedSoftmaxLoss(const SoftmaxLossDesc& desc, const ClassSlice& classes,
                                                        const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<SlicedSoftmaxLossOp>(context_, desc, classes, float32[0]));
  });
}

}  // namespace hp::cuda
