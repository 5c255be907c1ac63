#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "layers/traits/layer_traits.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// What a factory needs beyond the layer's parameters to make its op for one node.
struct OpContext {
  Backend* backend = nullptr;  ///< must outlive the op
  uint64_t seed = 0;           ///< the job's; of dropout's masks
  bool input_gradient = true;  ///< false: no layer below learns, so BackwardInput is never called
  /// This shard's range of the layer's output channels, and their number in all shards; {0, n, n} where nothing is
  /// split. All 0: not known, taken as not split.
  int64_t channel_begin = 0, channel_end = 0, channel_count = 0;
  /// Which part of the layer the op computes, where shards have divided more than its outputs, or where two layers
  /// divide their work in another way.
  enum Part {
    kAll,      ///< all of what is said above
    kAddends,  ///< an addend of its outputs, from some of the inputs: the bias comes later
    kClasses,  ///< the numbers that a shard says of its classes (ClassSplit); the channels above are its classes
    kJoined,   ///< the same from the numbers of blocks of sample_room of its classes each, which are the inputs
    kMerged,   ///< what follows from the numbers of all shards: they are the inputs, behind this shard's own classes
               ///< unless it follows from the numbers alone. Of the channels above, which are classes
    kMoments,  ///< of a BatchNorm: Backend::Moments
    kScaled,   ///< of the Scale that reads it: Backend::ScaledNorm
  } part = kAll;

  /// Above 0: the classes that the layer yields or reads are a sample (LayerTraits::sample_rate), in so many columns:
  /// drawn at random, or, in a test, a block of neighbours.
  int64_t sample_room = 0;

  /// ParamSpec's of its blobs, where they are averages of statistics that layers share; nothing: the layer's own.
  std::optional<float> average_keeps = {};
  float average_share = 1;

  ClassSlice classes() const { return {{channel_begin, channel_end}, channel_count, sample_room}; }
};

/// Makes the op of a layer: reads its Caffe parameter into the backend's desc and calls the backend. A plain function
/// without state; any thread.
/// @param in shape, layout and element type of each input, without labels. For kSplitOutput and kElementwise they are
/// this shard's, and `context` says which slice it is. LayerTraits::OutputShapes has accepted the shapes.
/// @return errors of the backend (backend/backend.h).
using OpFactory = StatusOr<std::unique_ptr<Op>> (*)(const LayerTraits& layer, const OpContext& context,
                                                    const std::vector<TensorDesc>& in);

/// The op factories of the layer types that a job may use, by name of the type: the counterpart of LayerTypes, whose
/// rows hold what is true of a layer without an op. Immutable; any thread.
class OpFactories {
 public:
  /// Factories for all types of LayerTypes::BuiltIn() except sources (Data, Input), which have no op. Lives as long as
  /// the process.
  static const OpFactories& BuiltIn();
  /// A copy with one more type; a factory of the same name is replaced.
  OpFactories With(const std::string& type, OpFactory factory) const;

  /// Makes the op of `layer`. @return kInternal: there is no factory for its type; else as OpFactory.
  StatusOr<std::unique_ptr<Op>> Create(const LayerTraits& layer, const OpContext& context,
                                       const std::vector<TensorDesc>& in) const;
  bool Has(const std::string& type) const { return Find(type) != nullptr; }

 private:
  struct Entry {
    std::string type;
    OpFactory factory = nullptr;
  };
  explicit OpFactories(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  OpFactory Find(const std::string& type) const;

  std::vector<Entry> entries_;
};

}  // namespace hp
