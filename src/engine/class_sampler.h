#pragma once

#include "input/label_store.h"
#include "model/node_model.h"
#include "net/node_net.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace hp {

/// Draws the classes that the sampled products of a node compute (GraphLayer::sampled_by): those that SamplingRule
/// draws for the clock, and the labels of each batch, of the node's own slice of the classes. A function of seed, clock
/// and labels, so shards and replicas draw parts of the same sample. Owned by Compute; executor thread.
///
/// Holds the samples of one clock: a node computes nothing of a clock before it has finished the one before.
class ClassSampler {
 public:
  /// Both must outlive it.
  ClassSampler(const NodeModel& model, const LabelStore* labels);

  /// Draws the samples of the batch of `id`, a training id, and of all batches before it in the same clock, unless they
  /// are there. All labels of the id's batch must be there (LabelStore::Ready). Those of the batches before it are then
  /// there, too: every replica sends the labels of its batches in their order.
  void Draw(MsgId id);
  /// Of the clock of the last Draw.
  const ClassSamples& samples() const { return samples_; }

 private:
  /// A layer whose classes are sampled.
  struct Layer {
    int index = 0;  ///< in the graph
    Range classes;  ///< of this node
    int64_t room = 0;
    double rate = 1;
    uint64_t stream_key = 0;
    std::optional<int> ignore_label;  ///< of its loss
  };

  void Begin(int64_t clock);
  void AddBatch(const Layer& layer, std::span<const float> labels, UpdateSample* sample) const;

  const NodeModel& model_;
  const LabelStore* const labels_;
  std::vector<Layer> layers_;
  int64_t clock_ = -1, batches_ = 0;  ///< of samples_: the clock, and how many of its batches are drawn
  ClassSamples samples_;
};

}  // namespace hp
