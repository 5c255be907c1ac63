// Classes are drawn by all threads in pieces, whose results are put together in their order. Labels that were not drawn
// are few: they are sorted, and those that no earlier batch of the update has get the next rows of the gradient.
#include "engine/class_sampler.h"

#include "backend/label.h"
#include "backend/sampling_rule.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

/// The classes of a range that the rule draws, counted from its begin.
std::vector<int64_t> DrawnOf(const SamplingRule& rule, int64_t clock, const Range& classes) {
  constexpr int64_t kPiece = 16384;
  const int64_t pieces = (classes.size() + kPiece - 1) / kPiece;
  std::vector<std::vector<int64_t>> of_piece(pieces);
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t begin = classes.begin + piece * kPiece, end = std::min(classes.end, begin + kPiece);
    rule.Draw(static_cast<uint64_t>(clock), begin, end,
              [&](int64_t c) { of_piece[piece].push_back(c - classes.begin); });
  }
  std::vector<int64_t> drawn;
  for (const std::vector<int64_t>& some : of_piece) drawn.insert(drawn.end(), some.begin(), some.end());
  return drawn;
}

}  // namespace

ClassSampler::ClassSampler(const NodeModel& model, const LabelStore* labels) : model_(model), labels_(labels) {
  const NodePlan& plan = model.part(caffe::TRAIN);
  for (const LayerPlan& layer : plan.layers()) {
    const auto& layers = plan.graph().layers();
    const GraphLayer& product = layers[layer.layer];
    if (product.sampled_by != layer.layer) continue;
    const int loss = plan.graph().blobs()[product.tops[0]].consumers[0];
    layers_.push_back({layer.layer, layer.channels, layer.sample_room, product.traits.sample_rate(),
                       StreamKey(model.seed(), product.traits.name(), "sample"), layers[loss].traits.ignore_label()});
  }
}

void ClassSampler::Begin(int64_t clock) {
  clock_ = clock;
  batches_ = 0;
  samples_.clear();
  for (const Layer& layer : layers_) {
    UpdateSample& sample = samples_[layer.index];
    sample.classes = DrawnOf(SamplingRule::Make(layer.stream_key, layer.rate), clock, layer.classes);
    sample.drawn = sample.rows();
    sample.count = model_.schedule().shape().iter_size;
  }
}

void ClassSampler::Draw(MsgId id) {
  if (layers_.empty()) return;
  if (id.clock() != clock_) Begin(id.clock());
  const JobShape& shape = model_.schedule().shape();
  const int64_t batch = model_.schedule().SamplesOfId(id).batch;
  for (; batches_ <= batch; ++batches_) {
    const MsgId of_batch = MsgId::Make(clock_, true, batches_ * shape.micro_batches, 0);
    CHECK(labels_->Ready(of_batch, true)) << "labels of clock " << clock_ << ", batch " << batches_;
    const std::span<const float> labels = labels_->BatchOf(of_batch).first(shape.train_batch);
    for (const Layer& layer : layers_) AddBatch(layer, labels, &samples_.at(layer.index));
  }
}

void ClassSampler::AddBatch(const Layer& layer, std::span<const float> labels, UpdateSample* sample) const {
  BatchSample batch;
  batch.drawn = sample->drawn;
  batch.classes.assign(sample->classes.begin(), sample->classes.begin() + sample->drawn);
  std::vector<int64_t> others;
  for (const float number : labels) {
    const int64_t label = LabelOf(number);
    if (label < layer.classes.begin || label >= layer.classes.end || label == layer.ignore_label) continue;
    const int64_t here = label - layer.classes.begin;
    if (!std::binary_search(batch.classes.begin(), batch.classes.end(), here)) others.push_back(here);
  }
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  for (int64_t row = 0; row < batch.drawn; ++row) batch.gradient_rows.push_back(row);
  for (const int64_t label : others) {
    const auto known = std::find(sample->classes.begin() + sample->drawn, sample->classes.end(), label);
    batch.gradient_rows.push_back(known - sample->classes.begin());
    if (known == sample->classes.end()) sample->classes.push_back(label);
    batch.classes.push_back(label);
  }
  CHECK_LE(sample->rows(), layer.room) << "classes of a sample";
  sample->batches.push_back(std::move(batch));
}

}  // namespace hp
