#pragma once

#include "layers/traits/layer_traits.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hp {

constexpr int kAnyNumber = 1 << 20;

/// How many bottoms, or tops, a layer may have.
struct CountRange {
  int least = 1, most = 1;
};

/// Facts of one layer type, and functions of one layer of it: the row that adds a type to the table. Most rows leave
/// most entries as they are. Functions hold no state; any thread. But for `check`, `batch_size` and
/// `split_outputs`, they are called with parameters that LayerTraits::Create accepted.
struct LayerType {
  using Parameter = const caffe::LayerParameter&;

  const char* name = "";                  ///< as the prototxt's `type`
  std::vector<const char*> fields = {};   ///< typed parameters that belong to it, e.g. "relu_param"
  CountRange bottoms = {}, tops = {};     ///< one each, unless said otherwise
  SourceKind source = SourceKind::kNone;  ///< see SourceKind; sources have no bottoms
  ChannelUse channel_use = ChannelUse::kWhole;
  bool in_place = false;      ///< LayerTraits::allows_in_place
  bool view = false;          ///< LayerTraits::is_view
  bool reads_labels = false;  ///< bottom 1 is labels
  bool statistic = false;     ///< LayerTraits::is_statistic
  bool loss = false;          ///< its first top has a loss weight, 1 by default; no other top may have one

  /// What is wrong with the values of its own fields; null: nothing can be. LayerError names the layer.
  Status (*check)(Parameter) = nullptr;
  /// LayerTraits::OutputShapes. Never null.
  StatusOr<std::vector<Shape>> (*output_shapes)(Parameter, const std::vector<Shape>& in) = nullptr;

  int most_blobs = 0;  ///< learnable blobs, and `param` entries, that a layer of the type can have
  /// How many this layer has; null: most_blobs.
  int (*blobs)(Parameter) = nullptr;
  /// Shape and filler of each. Names and multipliers are filled in by LayerTraits::Params. Null: there are none.
  std::vector<ParamSpec> (*params)(Parameter, const std::vector<Shape>& in) = nullptr;

  /// Channels of the output, which shards divide; set exactly where channel_use is kSplitOutput.
  int64_t (*split_outputs)(Parameter) = nullptr;
  /// LayerTraits::batch_size; null but for sources.
  int64_t (*batch_size)(Parameter) = nullptr;
  /// LayerTraits::needs_batch_labels; null: false.
  bool (*needs_batch_labels)(Parameter) = nullptr;
  /// LayerTraits::ignore_label; null: none.
  std::optional<int> (*ignore_label)(Parameter) = nullptr;
};

/// The layer types that a job may use. Immutable; any thread.
class LayerTypes {
 public:
  /// Those of this library, in the order of their names.
  static const LayerTypes& BuiltIn();
  /// @param types no two of one name.
  explicit LayerTypes(std::vector<LayerType> types);
  /// These and one more, which replaces the one of its name: how a program, or a test, adds a type of its own.
  LayerTypes With(LayerType type) const;

  const std::vector<LayerType>& all() const { return types_; }
  /// The type of that name, or null. LayerTraits are pointers into this table.
  const LayerType* Find(const std::string& name) const;

  // Of any parameter, one of an unsupported type included: what a table is checked by before anything else looks at the
  // net. A type of Caffe's that is not supported is known by Caffe's list.

  /// Whether it yields tensors from outside the net.
  bool IsSource(const caffe::LayerParameter& param) const;
  /// Whether these are the records of a database.
  bool IsDataset(const caffe::LayerParameter& param) const;
  /// LayerTraits::batch_size.
  int64_t BatchSize(const caffe::LayerParameter& param) const;
  /// Whether layers of its type have parameters that are learned or kept.
  bool HasParameters(const caffe::LayerParameter& param) const;
  /// The channels of its output if the shards of a stage can divide them; nothing: they can't.
  std::optional<int64_t> SplitOutputs(const caffe::LayerParameter& param) const;
  /// Whether bottom `bottom` is read as labels.
  bool ReadsLabels(const caffe::LayerParameter& param, int bottom) const;
  /// Whether top `top` is the labels of a dataset.
  bool YieldsLabels(const caffe::LayerParameter& param, int top) const;

  /// What to say of a type that is not in the table: a Caffe type by name, else near matches or the whole list.
  std::string DescribeUnsupported(const std::string& name) const;

 private:
  std::vector<LayerType> types_;
};

}  // namespace hp
