#include "test/unit/backend/op_test_util.h"

#include <cfloat>
#include <functional>
#include <optional>

// Softmax, loss and accuracy over classes in slices, beside the whole ops of the same backend.
namespace hp::test {
namespace {

using ShardValues = std::vector<Values>;  // one for each shard

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

/// Rows of logits and their labels, and how the classes are divided.
struct SlicedBatch {
  int64_t classes = 0, shards = 1;
  Values x, labels;
  Values other_labels = {};  ///< of the global batch's rows behind these
  float loss_scale = 1;
  ElementType element = ElementType::kFloat32;
  bool nhwc = false;  ///< [rows, n, 1, 1] in NHWC instead of [rows, n]

  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
  ClassSlice slice(int64_t shard) const { return {PartOf(classes, shard, shards), classes}; }
  TensorDesc desc(int64_t n) const {
    return nhwc ? TensorDesc{{rows(), n, 1, 1}, n, element} : TensorDesc{{rows(), n}, 1, element};
  }
  Values XOf(int64_t shard) const {
    const Range range = slice(shard).here;
    Values part;
    for (int64_t row = 0; row < rows(); ++row) {
      part.insert(part.end(), x.begin() + row * classes + range.begin, x.begin() + row * classes + range.end);
    }
    return part;
  }
  /// Puts the slices [rows, n] of all shards side by side.
  Values Join(const ShardValues& slices) const {
    Values joined;
    for (int64_t row = 0; row < rows(); ++row) {
      for (int64_t shard = 0; shard < shards; ++shard) {
        const int64_t n = slice(shard).here.size();
        joined.insert(joined.end(), slices[shard].begin() + row * n, slices[shard].begin() + (row + 1) * n);
      }
    }
    return joined;
  }
  std::string name() const { return std::to_string(classes) + " classes over " + std::to_string(shards) + " shards"; }
};

/// An op that has been run forward.
class DoneOp {
 public:
  DoneOp(StatusOr<Backend::OpPtr> op, const Backend::Descs& in, const ShardValues& inputs, const SlicedBatch& batch)
      : op_(std::move(op).value()), batch_labels_(batch.labels), runner_(op_.get(), in) {
    batch_labels_.insert(batch_labels_.end(), batch.other_labels.begin(), batch.other_labels.end());
    runner_.batch().batch_labels = batch_labels_;
    runner_.batch().labels = std::span(batch_labels_).first(batch.labels.size());
    runner_.batch().global_rows = static_cast<int64_t>(batch_labels_.size());
    runner_.batch().loss_scale = batch.loss_scale;
    for (size_t i = 0; i < inputs.size(); ++i) runner_.SetInput(static_cast<int>(i), inputs[i]);
    runner_.Forward();
  }
  OpRunner* operator->() { return &runner_; }
  const std::vector<TensorDesc>& outputs() const { return op_->outputs(); }

 private:
  const Backend::OpPtr op_;
  Values batch_labels_;
  OpRunner runner_;
};

Backend& Ops() { return *UnderTest().backend; }

/// The output of a first op on every shard.
using FirstOp = std::function<StatusOr<Backend::OpPtr>(const ClassSlice&, const Backend::Descs&)>;
ShardValues SaidByAll(const SlicedBatch& batch, int64_t numbers, const FirstOp& make) {
  ShardValues said;
  for (int64_t shard = 0; shard < batch.shards; ++shard) {
    const ClassSlice slice = batch.slice(shard);
    const Backend::Descs in = {batch.desc(slice.here.size())};
    DoneOp op(make(slice, in), in, {batch.XOf(shard)}, batch);
    EXPECT_EQ(op.outputs(), (Backend::Descs{{{batch.rows(), numbers}, 1}}));
    said.push_back(op->Output());
    op->BackwardInput();  // there is none, so it does no harm
  }
  return said;
}

ShardValues Statistics(const SlicedBatch& batch, bool labels, const std::optional<MarginDesc>& margin = {}) {
  return SaidByAll(batch, labels ? 3 : 2, [=](const ClassSlice& slice, const Backend::Descs& in) {
    return Ops().ClassStatistics(slice, labels, margin, in);
  });
}

ShardValues Scores(const SlicedBatch& batch, const AccuracyDesc& desc) {
  return SaidByAll(batch, 1 + desc.top_k,
                   [&](const ClassSlice& slice, const Backend::Descs& in) { return Ops().TopScores(desc, slice, in); });
}

/// x of a shard, if one is given, then what all said.
Backend::Descs DescsOf(const SlicedBatch& batch, const ShardValues& said, int64_t shard = -1) {
  Backend::Descs descs;
  if (shard >= 0) descs.push_back(batch.desc(batch.slice(shard).here.size()));
  for (const Values& numbers : said) {
    descs.push_back({{batch.rows(), static_cast<int64_t>(numbers.size()) / batch.rows()}, 1});
  }
  return descs;
}
ShardValues InputsOf(const SlicedBatch& batch, const ShardValues& said, int64_t shard) {
  ShardValues inputs = {batch.XOf(shard)};
  inputs.insert(inputs.end(), said.begin(), said.end());
  return inputs;
}

Values WholeSoftmax(const SlicedBatch& batch) {
  const Backend::Descs in = {batch.desc(batch.classes)};
  return DoneOp(Ops().Softmax(1, in), in, {batch.x}, batch)->Output();
}

Values SoftmaxInSlices(const SlicedBatch& batch) {
  const ShardValues said = Statistics(batch, false);
  ShardValues slices;
  for (int64_t shard = 0; shard < batch.shards; ++shard) {
    const Backend::Descs in = DescsOf(batch, said, shard);
    DoneOp op(Ops().SlicedSoftmax(in), in, InputsOf(batch, said, shard), batch);
    EXPECT_EQ(op.outputs().size(), 1u);
    EXPECT_EQ(op.outputs()[0].shape, in[0].shape);
    EXPECT_EQ(op.outputs()[0].channel_block, in[0].channel_block);
    slices.push_back(op->Output());
    op->BackwardInput();
  }
  return batch.Join(slices);
}

struct LossResult {
  float loss = 0;
  Values gradient;
};

LossResult WholeLoss(const SlicedBatch& batch, const SoftmaxLossDesc& desc) {
  const Backend::Descs in = {batch.desc(batch.classes)};
  DoneOp op(Ops().SoftmaxLoss(desc, in), in, {batch.x}, batch);
  const float loss = op->Output()[0];
  op->BackwardInput();
  return {loss, op->InputGradient()};
}

/// All shards have the same bits of the loss.
LossResult LossInSlices(const SlicedBatch& batch, const SoftmaxLossDesc& desc, const ShardValues& said) {
  LossResult result;
  ShardValues gradients;
  for (int64_t shard = 0; shard < batch.shards; ++shard) {
    const Backend::Descs in = DescsOf(batch, said, shard);
    DoneOp op(Ops().SlicedSoftmaxLoss(desc, batch.slice(shard), in), in, InputsOf(batch, said, shard), batch);
    const float loss = op->Output()[0];
    if (shard > 0 && !std::isnan(loss)) {
      EXPECT_EQ(loss, result.loss) << "shard " << shard;
    }
    result.loss = loss;
    op->BackwardInput();
    gradients.push_back(op->InputGradient());
  }
  result.gradient = batch.Join(gradients);
  return result;
}
LossResult LossInSlices(const SlicedBatch& batch, const SoftmaxLossDesc& desc) {
  return LossInSlices(batch, desc, Statistics(batch, true, desc.margin));
}

float WholeAccuracy(const SlicedBatch& batch, const AccuracyDesc& desc) {
  const Backend::Descs in = {batch.desc(batch.classes)};
  return DoneOp(Ops().Accuracy(desc, in), in, {batch.x}, batch)->Output()[0];
}

float AccuracyInSlices(const SlicedBatch& batch, const AccuracyDesc& desc, const ShardValues& said) {
  const Backend::Descs in = DescsOf(batch, said);
  DoneOp op(Ops().SlicedAccuracy(desc, batch.classes, in), in, said, batch);
  const float accuracy = op->Output()[0];
  op->BackwardInput();
  return accuracy;
}
float AccuracyInSlices(const SlicedBatch& batch, const AccuracyDesc& desc) {
  return AccuracyInSlices(batch, desc, Scores(batch, desc));
}

/// Fails where |got - want| > tolerance * max(floor, |want|), or one alone is NaN.
void ExpectAgree(const Values& got, const Values& want, float tolerance, float floor, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const float allowed = tolerance * std::max(floor, std::fabs(want[i]));
    ASSERT_TRUE(std::fabs(got[i] - want[i]) <= allowed) << what << " [" << i << "]: " << got[i] << ", not " << want[i];
  }
}

/// Gradients are differences, so they agree relatively to the largest.
void ExpectAgree(const LossResult& got, const LossResult& want, float tolerance = 1e-6f) {
  float largest = FLT_MIN;
  for (float value : want.gradient) largest = std::max(largest, std::fabs(value));  // in this order without NaN
  ExpectAgree({got.loss}, {want.loss}, 1e-6f, 1, "loss");
  ExpectAgree(got.gradient, want.gradient, tolerance, largest, "gradient");
}

constexpr int64_t kIgnored = 2;

/// 12 rows; two labels are the one that some tests ignore, two are out of range.
Values TwelveLabels(int64_t classes) {
  Values labels = {0, kIgnored, 4, kIgnored, -1, 6, 1};
  labels.push_back(static_cast<float>(classes));
  while (labels.size() < 12) labels.push_back(static_cast<float>(labels.size() * 11 % classes));
  return labels;
}

/// Uniform logits.
SlicedBatch RandomBatch(int64_t classes, int64_t shards, float high = 4) {
  const Values labels = TwelveLabels(classes);
  const auto count = static_cast<int64_t>(labels.size()) * classes;
  return {classes, shards, RandomValues(count, static_cast<uint32_t>(classes + shards), -high, high), labels};
}

/// Every kind of division: one shard, uneven ones, a class each, and more shards than a kernel takes at once.
std::vector<SlicedBatch> Divisions(float high = 4) {
  std::vector<SlicedBatch> batches;
  for (int64_t classes : {7, 10, 37}) {
    for (int64_t shards : {1, 2, 3, 7}) batches.push_back(RandomBatch(classes, shards, high));
  }
  batches.push_back(RandomBatch(37, 16, high));
  batches.push_back(RandomBatch(37, 37, high));
  return batches;
}

/// In some rows a shard has no finite logit, in row 0 none has.
void PutMinusInfinities(SlicedBatch* batch) {
  std::fill_n(batch->x.begin(), batch->classes, -kInfinity);
  for (int64_t row = 1; row < batch->rows(); row += 2) {
    const Range range = batch->slice(row % batch->shards).here;
    std::fill(batch->x.begin() + row * batch->classes + range.begin,
              batch->x.begin() + row * batch->classes + range.end, -kInfinity);
  }
}

/// Row 0 begins with a NaN, 1 ends with one (its label is kIgnored), 2 has one at its label, 4 has nothing else, 6 has
/// one beside minus infinities.
void PutNaNs(SlicedBatch* batch) {
  const auto at = [&](int64_t row, int64_t c) -> float& { return batch->x[row * batch->classes + c]; };
  at(0, 0) = at(1, batch->classes - 1) = at(2, static_cast<int64_t>(batch->labels[2])) = kNaN;
  for (int64_t c = 0; c < batch->classes; ++c) at(4, c) = kNaN, at(6, c) = -kInfinity;
  at(6, batch->classes - 1) = kNaN;
}

/// Row 0 ends with infinity, 2 has it at its label, 8 everywhere.
void PutInfinities(SlicedBatch* batch) {
  const auto at = [&](int64_t row, int64_t c) -> float& { return batch->x[row * batch->classes + c]; };
  at(0, batch->classes - 1) = at(2, static_cast<int64_t>(batch->labels[2])) = kInfinity;
  for (int64_t c = 0; c < batch->classes; ++c) at(8, c) = kInfinity;
}

using Change = void (*)(SlicedBatch*);
constexpr Change kChanges[] = {PutMinusInfinities, PutNaNs, PutInfinities};

TEST(ClassStatistics, SaysLargestSumAndLabel) {
  for (SlicedBatch& batch : Divisions()) {
    SCOPED_TRACE(batch.name());
    PutMinusInfinities(&batch);
    const ShardValues said = Statistics(batch, true), without_labels = Statistics(batch, false);
    for (int64_t shard = 0; shard < batch.shards; ++shard) {
      const Range range = batch.slice(shard).here;
      for (int64_t row = 0; row < batch.rows(); ++row) {
        const float* x = batch.x.data() + row * batch.classes;
        const float largest = *std::max_element(x + range.begin, x + range.end);
        double sum = 0;
        for (int64_t c = range.begin; c < range.end && largest > -kInfinity; ++c) {
          sum += std::exp(static_cast<double>(x[c]) - largest);
        }
        const float* numbers = said[shard].data() + 3 * row;
        EXPECT_EQ(numbers[0], largest);
        EXPECT_NEAR(numbers[1], sum, 1e-6 * sum);
        EXPECT_EQ(numbers[0], without_labels[shard][2 * row]);
        EXPECT_EQ(numbers[1], without_labels[shard][2 * row + 1]);
        const int64_t label = static_cast<int64_t>(batch.labels[row]);
        if (label < range.begin || label >= range.end) continue;
        EXPECT_EQ(numbers[2], x[label]);
      }
    }
  }
}

TEST(ClassStatistics, NaNOrInfinityIsNaN) {
  for (float bad : {kNaN, kInfinity}) {
    for (int64_t shards : {1, 3, 7}) {
      SlicedBatch batch = RandomBatch(7, shards);
      for (int64_t row = 0; row < batch.rows(); ++row) batch.x[row * 7 + row % 7] = bad;
      std::fill_n(batch.x.begin(), 7, -kInfinity);
      batch.x[6] = bad;  // beside minus infinities alone
      const ShardValues said = Statistics(batch, false);
      for (int64_t row = 0; row < batch.rows(); ++row) {
        const int64_t holder = PartHolding(7, row == 0 ? 6 : row % 7, shards);
        for (int64_t shard = 0; shard < shards; ++shard) {
          EXPECT_EQ(std::isnan(said[shard][2 * row + 1]), shard == holder) << row << " of " << shard;
        }
      }
    }
  }
}

TEST(SlicedSoftmax, IsTheWholeOnes) {
  for (float high : {4.0f, 1e4f}) {
    for (const SlicedBatch& batch : Divisions(high)) {
      SCOPED_TRACE(batch.name());
      ExpectAgree(SoftmaxInSlices(batch), WholeSoftmax(batch), 1e-6f, FLT_MIN, "softmax");
    }
  }
}

TEST(SlicedSoftmax, NumbersThatAreNotFinite) {
  for (Change change : kChanges) {
    for (SlicedBatch& batch : Divisions()) {
      SCOPED_TRACE(batch.name());
      change(&batch);
      const Values want = WholeSoftmax(batch);
      EXPECT_GE(std::count_if(want.begin(), want.end(), [](float p) { return std::isnan(p); }), batch.classes);
      ExpectAgree(SoftmaxInSlices(batch), want, 1e-6f, FLT_MIN, "softmax");
    }
  }
}

TEST(SlicedSoftmaxLoss, IsTheWholeOnesForEveryNormalization) {
  for (float high : {4.0f, 1e4f}) {
    for (SlicedBatch& batch : Divisions(high)) {
      batch.other_labels = {1, kIgnored, 5};
      for (auto normalization :
           {SoftmaxLossDesc::kFull, SoftmaxLossDesc::kValid, SoftmaxLossDesc::kBatchSize, SoftmaxLossDesc::kNone}) {
        for (bool ignore : {false, true}) {
          SCOPED_TRACE(batch.name() + ", normalization " + std::to_string(normalization));
          const SoftmaxLossDesc desc = {normalization, ignore, kIgnored};
          const LossResult want = WholeLoss(batch, desc);
          EXPECT_GT(want.loss, 0.1f);
          ExpectAgree(LossInSlices(batch, desc), want);
        }
      }
    }
  }
}

TEST(SlicedSoftmaxLoss, WeightAndScale) {
  for (SlicedBatch& batch : Divisions()) {
    SCOPED_TRACE(batch.name());
    SoftmaxLossDesc desc = {.has_ignore_label = true, .ignore_label = kIgnored};
    const LossResult plain = LossInSlices(batch, desc);
    desc.loss_weight = 0.3f;
    batch.loss_scale = 512;
    const LossResult scaled = LossInSlices(batch, desc);
    ExpectAgree(scaled, WholeLoss(batch, desc));
    EXPECT_EQ(scaled.loss, plain.loss);
    EXPECT_NEAR(scaled.gradient[0], plain.gradient[0] * 0.3f * 512, 1e-4);
  }
}

TEST(SlicedSoftmaxLoss, NumbersThatAreNotFinite) {
  for (Change change : kChanges) {
    for (SlicedBatch& batch : Divisions()) {
      for (bool ignore : {false, true}) {
        SCOPED_TRACE(batch.name());
        change(&batch);
        const SoftmaxLossDesc desc = {.has_ignore_label = ignore, .ignore_label = kIgnored};
        const LossResult want = WholeLoss(batch, desc);
        EXPECT_TRUE(std::isnan(want.loss));
        ExpectAgree(LossInSlices(batch, desc), want);
      }
    }
  }
}

/// Caffe takes the logarithm of no less than FLT_MIN, also if the label's whole shard is at minus infinity.
TEST(SlicedSoftmaxLoss, LargestLossIsCaffes) {
  SlicedBatch batch = RandomBatch(10, 3);
  batch.labels = {0, 9};
  batch.x.resize(20);
  std::fill_n(batch.x.begin(), 3, -kInfinity);
  batch.x[19] = -500;
  const LossResult got = LossInSlices(batch, {});
  EXPECT_NEAR(got.loss, -std::log(FLT_MIN), 1e-4);
  ExpectAgree(got, WholeLoss(batch, {}));
}

/// What a shard says of a label that is not its own, and of one that does not count, is any number.
TEST(SlicedSoftmaxLoss, ReadsTheLabelOfItsShardAlone) {
  const SoftmaxLossDesc desc = {.has_ignore_label = true, .ignore_label = kIgnored};
  for (const SlicedBatch& batch : Divisions()) {
    SCOPED_TRACE(batch.name());
    for (float other : {1e30f, kNaN}) {
      ShardValues said = Statistics(batch, true);
      for (int64_t shard = 0; shard < batch.shards; ++shard) {
        const Range range = batch.slice(shard).here;
        for (int64_t row = 0; row < batch.rows(); ++row) {
          const int64_t label = static_cast<int64_t>(batch.labels[row]);
          if (label < range.begin || label >= range.end || label == kIgnored) said[shard][3 * row + 2] = other;
        }
      }
      ExpectAgree(LossInSlices(batch, desc, said), WholeLoss(batch, desc));
    }
  }
}

TEST(SlicedSoftmaxLoss, AllLabelsIgnoredIsZeroNotNaN) {
  SlicedBatch batch = RandomBatch(10, 3);
  std::fill(batch.labels.begin(), batch.labels.end(), kIgnored);
  const LossResult got = LossInSlices(batch, {.has_ignore_label = true, .ignore_label = kIgnored});
  EXPECT_EQ(got.loss, 0);
  EXPECT_EQ(got.gradient, Values(batch.x.size(), 0.0f));
}

TEST(SlicedSoftmaxLoss, GradientNobodyWantsIsNotWritten) {
  const SlicedBatch batch = RandomBatch(10, 3);
  const ShardValues said = Statistics(batch, true);
  const Backend::Descs in = DescsOf(batch, said, 1);
  DoneOp op(Ops().SlicedSoftmaxLoss({}, batch.slice(1), in), in, InputsOf(batch, said, 1), batch);
  op->SkipInputGradient(0);
  op->BackwardInput();
  for (float value : op->InputGradient()) EXPECT_TRUE(std::isnan(value));  // the runner's poison
}

/// With margins the exponentials' arguments are larger.
constexpr float kMarginTolerance = 1e-5f;

const MarginDesc kMargins[] = {{.scale = 64, .angle = 0.5f},                     // ArcFace
                               {.scale = 30, .cosine = 0.35f},                   // CosFace
                               {.scale = 8, .angle = 0.3f, .cosine = 0.2f},      // both
                               {.scale = 8, .angle = 3.1f, .cosine = -0.5f},     // an angle that passes pi
                               {.scale = 2000, .angle = 1.0f, .cosine = 0.5f}};  // exponentials that underflow

TEST(SlicedMarginLoss, IsTheWholeOne) {
  for (SlicedBatch& batch : Divisions(1.1f)) {  // some are beyond 1
    batch.other_labels = {1, kIgnored, 5};
    for (const MarginDesc& margin : kMargins) {
      for (bool ignore : {false, true}) {
        SCOPED_TRACE(batch.name() + ", scale " + std::to_string(margin.scale));
        const SoftmaxLossDesc desc = {
            .has_ignore_label = ignore, .ignore_label = kIgnored, .loss_weight = 0.3f, .margin = margin};
        const LossResult want = WholeLoss(batch, desc);
        EXPECT_GT(want.loss, 0.1f);
        ExpectAgree(LossInSlices(batch, desc), want, kMarginTolerance);
      }
    }
  }
}

/// Infinities are clamped; a NaN stays.
TEST(SlicedMarginLoss, NumbersThatAreNotFinite) {
  for (Change change : kChanges) {
    for (SlicedBatch& batch : Divisions(1)) {
      for (const MarginDesc& margin : kMargins) {
        SCOPED_TRACE(batch.name());
        change(&batch);
        const LossResult want = WholeLoss(batch, {.margin = margin});
        EXPECT_EQ(std::isnan(want.loss), change == PutNaNs);
        ExpectAgree(LossInSlices(batch, {.margin = margin}), want, kMarginTolerance);
        batch = RandomBatch(batch.classes, batch.shards, 1);
      }
    }
  }
}

/// Independent of the op's way: all scores sorted.
TEST(TopScores, SaysTheLabelsScoreAndTheLargestOthers) {
  for (bool ties : {false, true}) {
    for (int top_k : {1, 2, 5, 50}) {
      for (SlicedBatch& batch : Divisions()) {
        SCOPED_TRACE(batch.name() + ", top_k " + std::to_string(top_k));
        for (float& score : batch.x) score = ties ? std::floor(score) : score;
        PutMinusInfinities(&batch), PutNaNs(&batch), PutInfinities(&batch);
        const ShardValues said = Scores(batch, {.top_k = top_k});
        for (int64_t shard = 0; shard < batch.shards; ++shard) {
          const Range range = batch.slice(shard).here;
          for (int64_t row = 0; row < batch.rows(); ++row) {
            const float* x = batch.x.data() + row * batch.classes;
            const int64_t label = static_cast<int64_t>(batch.labels[row]);
            Values got(said[shard].begin() + row * (1 + top_k), said[shard].begin() + (row + 1) * (1 + top_k)), want;
            if (label >= range.begin && label < range.end) ExpectAgree({got[0]}, {x[label]}, 0, 0, "label");
            got.erase(got.begin());
            for (int64_t c = range.begin; c < range.end; ++c) {
              if (c != label && !std::isnan(x[c])) want.push_back(x[c]);
            }
            std::sort(want.rbegin(), want.rend());
            want.resize(std::min<size_t>(want.size(), top_k));
            EXPECT_EQ(std::count_if(got.begin(), got.end(), [](float score) { return std::isnan(score); }),
                      top_k - static_cast<int64_t>(want.size()));
            std::erase_if(got, [](float score) { return std::isnan(score); });
            std::sort(got.rbegin(), got.rend());  // the order is the op's own
            EXPECT_EQ(got, want);
          }
        }
      }
    }
  }
}

void ExpectSameAccuracy(const SlicedBatch& batch) {
  for (int top_k : {1, 2, 5, 12, 50}) {
    for (bool ignore : {false, true}) {
      SCOPED_TRACE(batch.name() + ", top_k " + std::to_string(top_k) + (ignore ? ", one ignored" : ""));
      const AccuracyDesc desc = {.top_k = top_k, .has_ignore_label = ignore, .ignore_label = kIgnored};
      EXPECT_EQ(AccuracyInSlices(batch, desc), WholeAccuracy(batch, desc));
    }
  }
}

TEST(SlicedAccuracy, IsTheWholeOne) {
  for (SlicedBatch& batch : Divisions()) {
    batch.other_labels = {1, kIgnored, 5};
    ExpectSameAccuracy(batch);
    EXPECT_GT(AccuracyInSlices(batch, {.top_k = 50}), 0.5f);
  }
}

/// A score that equals the label's counts as better, whichever shard has it.
TEST(SlicedAccuracy, Ties) {
  for (SlicedBatch& batch : Divisions()) {
    for (float& score : batch.x) score = std::floor(score / 3);
    ExpectSameAccuracy(batch);
  }
  SlicedBatch one = {.classes = 7, .shards = 3, .x = {0, 3, 1, 1, 2, 3, 0}, .labels = {1}};
  EXPECT_EQ(AccuracyInSlices(one, {.top_k = 1}), 0);
  EXPECT_EQ(AccuracyInSlices(one, {.top_k = 2}), 1);
}

TEST(SlicedAccuracy, NumbersThatAreNotFinite) {
  for (Change change : kChanges) {
    for (SlicedBatch& batch : Divisions()) {
      change(&batch);
      ExpectSameAccuracy(batch);
    }
  }
}

/// What a shard says of a label that is not its own is any number, and so is all that is said of a row that does not
/// count.
TEST(SlicedAccuracy, ReadsTheLabelOfItsShardAlone) {
  const AccuracyDesc desc = {.top_k = 2, .has_ignore_label = true, .ignore_label = kIgnored};
  for (const SlicedBatch& batch : Divisions()) {
    SCOPED_TRACE(batch.name());
    for (float other : {-1e30f, 1e30f, kNaN}) {
      ShardValues said = Scores(batch, desc);
      for (int64_t shard = 0; shard < batch.shards; ++shard) {
        const Range range = batch.slice(shard).here;
        for (int64_t row = 0; row < batch.rows(); ++row) {
          const int64_t label = static_cast<int64_t>(batch.labels[row]);
          const auto numbers = said[shard].begin() + 3 * row;
          if (label < range.begin || label >= range.end) numbers[0] = other;
          if (label < 0 || label >= batch.classes || label == kIgnored) std::fill_n(numbers, 3, other);
        }
      }
      EXPECT_EQ(AccuracyInSlices(batch, desc, said), WholeAccuracy(batch, desc));
    }
  }
}

TEST(SlicedAccuracy, AllLabelsIgnoredIsZero) {
  SlicedBatch batch = RandomBatch(10, 3);
  std::fill(batch.labels.begin(), batch.labels.end(), kIgnored);
  EXPECT_EQ(AccuracyInSlices(batch, {.has_ignore_label = true, .ignore_label = kIgnored}), 0);
}

/// Labels that CheckBatchLabels refuses do no harm, in no shard.
TEST(SlicedClasses, LabelsThatAreNoNumbers) {
  SlicedBatch batch = RandomBatch(10, 3);
  batch.labels[0] = kNaN, batch.labels[2] = 1e30f, batch.labels[5] = -1e30f, batch.labels[6] = kInfinity;
  ExpectAgree(LossInSlices(batch, {}), WholeLoss(batch, {}));
  ExpectSameAccuracy(batch);
}

TEST(SlicedClasses, OnePixelInNhwc) {
  SlicedBatch batch = RandomBatch(10, 3);
  batch.nhwc = true;
  ExpectAgree(SoftmaxInSlices(batch), WholeSoftmax(batch), 1e-6f, FLT_MIN, "softmax");
  ExpectAgree(LossInSlices(batch, {}), WholeLoss(batch, {}));
  ExpectSameAccuracy(batch);
}

TEST(SlicedClasses, InputsOf16Bits) {
  if (UnderTest().device->is_host()) GTEST_SKIP() << "a CPU's tensors are float32";
  for (ElementType element : {ElementType::kBFloat16, ElementType::kFloat16}) {
    SlicedBatch batch = RandomBatch(10, 3);
    batch.element = element;
    ExpectAgree(SoftmaxInSlices(batch), WholeSoftmax(batch), 1e-6f, FLT_MIN, "softmax");
    ExpectAgree(LossInSlices(batch, {}), WholeLoss(batch, {}), 2 * RoundingError(element));
    ExpectSameAccuracy(batch);
  }
}

}  // namespace
}  // namespace hp::test
