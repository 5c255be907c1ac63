#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "layers/traits/layer_traits.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// What a layer must know beyond its parameters when its op is made for one node.
struct OpContext {
  Backend* backend = nullptr;
  uint64_t seed = 0;
  bool input_gradient = true;  ///< false: nothing below the layer learns
  /// This shard's range of the layer's output channels, and their whole number; {0, n, n} where nothing is split.
  int64_t channel_begin = 0, channel_end = 0, channel_count = 0;
};

/// Makes the op of a layer: reads its parameters into the desc that the backend wants.
/// @param in shapes and layouts of its inputs; labels are not among them. For kSplitOutput and kElementwise, `context`
/// says which slice. OutputShapes accepted the shapes.
using OpFactory = StatusOr<std::unique_ptr<Op>> (*)(const LayerTraits& layer, const OpContext& context,
                                                    const std::vector<TensorDesc>& in);

/// What makes the ops of the layer types that a job may use: the other half of LayerTypes, which says what is true of
/// them. Immutable; any thread.
class OpFactories {
 public:
  /// Those of LayerTypes::BuiltIn(), but for sources: these have no op.
  static const OpFactories& BuiltIn();
  /// These and that of one more type, which replaces the one of its name.
  OpFactories With(const std::string& type, OpFactory factory) const;

  /// The op of one layer. @return kInternal: there is no factory for its type; else as OpFactory.
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
