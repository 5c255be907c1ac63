#pragma once

#include "layers/traits/layer_traits.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hp {

constexpr int kAnyNumber = 1 << 20;  ///< as CountRange::most: no limit

/// How many bottoms, or tops, a layer may have; both ends included.
struct CountRange {
  int least = 1, most = 1;
};

/// One row of the table of layer types: facts of a type, and functions of one layer of it, given its parameter. To add
/// a type, fill in a row; most rows leave most entries at their defaults, which suit a layer without parameters that
/// has one bottom and one top. Only `name` and `output_shapes` are required. Functions have no state and are called by
/// any thread. All but `check`, `batch_size`, `split_outputs` and `split_inputs` get only parameters that
/// LayerTraits::Create accepted.
///   LayerType PoolingType() {
///     return {.name = "Pooling", .fields = {"pooling_param"}, .check = CheckPooling, .output_shapes = PoolingShapes};
///   }
struct LayerType {
  using Parameter = const caffe::LayerParameter&;

  const char* name = "";                  ///< as the prototxt's `type`
  std::vector<const char*> fields = {};   ///< typed parameters that belong to it, e.g. "relu_param"
  CountRange bottoms = {}, tops = {};     ///< one each, unless said otherwise
  SourceKind source = SourceKind::kNone;  ///< see SourceKind; sources have no bottoms
  bool single_labels = false;             ///< a source whose second top is one number for each row
  ChannelUse channel_use = ChannelUse::kWhole;
  /// Only kSplitOutput: whether its inputs can be divided as well. Blob 0 is [outputs, inputs] (or
  /// ParamSpec::transposed), the output is a sum over the inputs, and blob 1, if there is one, [outputs], is added to
  /// it. Its op obeys OpContext::part (kAddends). Null: no.
  bool (*split_inputs)(Parameter) = nullptr;
  bool in_place = false;       ///< LayerTraits::allows_in_place
  bool view = false;           ///< LayerTraits::is_view
  bool has_gradient = true;    ///< LayerTraits::has_gradient
  bool propagates = true;      ///< LayerTraits::propagates
  bool discards = false;       ///< LayerTraits::discards
  bool parameter = false;      ///< LayerTraits::is_parameter; then `discards`, too
  bool reads_labels = false;   ///< bottom `label_bottom` is labels
  bool label_targets = false;  ///< LayerTraits::may_read_labels
  bool fixed_targets = false;  ///< LayerTraits::has_fixed_targets
  bool pairs = false;          ///< LayerTraits::pairs_elements
  size_t label_bottom = 1;     ///< which bottom these three are about
  bool statistic = false;      ///< LayerTraits::is_statistic
  bool loss = false;           ///< its first top has a loss weight, 1 by default; no other top may have one
  /// Of another type: whether this layer is a statistic, which may have a loss weight. Null: no.
  bool (*sums_batch)(Parameter) = nullptr;
  bool small_blobs = false;  ///< LayerTraits::has_small_blobs
  bool deconvolves = false;  ///< LayerTraits::deconvolves
  bool looks_up = false;     ///< LayerTraits::looks_up

  /// Whether the typed parameter `field` belongs to it.
  bool HasField(const std::string& field) const;

  /// Checks the values of the type's own fields; reports by LayerError (errors.h). Null: nothing to check.
  Status (*check)(Parameter) = nullptr;
  /// LayerTraits::OutputShapes. Not null. `in` has the right number of shapes; anything else about them is checked
  /// here.
  StatusOr<std::vector<Shape>> (*output_shapes)(Parameter, const std::vector<Shape>& in) = nullptr;

  /// LayerTraits::Elements; it has one bottom then. Null: it computes.
  std::vector<int64_t> (*elements)(Parameter, const Shape& in, int top) = nullptr;

  int most_blobs = 0;  ///< the most learnable blobs, and `param` entries, of a layer of the type
  /// LayerTraits::blobs: how many this layer has; null: most_blobs.
  int (*blobs)(Parameter) = nullptr;
  /// Shape and filler of each blob; exactly blobs() of them (CHECK). LayerTraits::Params fills in names and
  /// multipliers. Null: there are none.
  std::vector<ParamSpec> (*params)(Parameter, const std::vector<Shape>& in) = nullptr;
  /// LayerTraits::uses_batch_statistics; set: its blobs are averages. Null: false.
  bool (*batch_statistics)(Parameter) = nullptr;
  /// LayerTraits::average_keeps; set where batch_statistics is.
  float (*average_keeps)(Parameter) = nullptr;

  /// The number of output channels (axis 1 of the top), which shards divide; 0: they can't divide this layer's, which
  /// is kWhole then. Set if and only if channel_use is kSplitOutput.
  int64_t (*split_outputs)(Parameter) = nullptr;
  /// LayerTraits::sample_rate; only where channel_use is kSplitOutput. Its op obeys OpContext::sample_room. Null: 1.
  float (*sample_rate)(Parameter) = nullptr;
  /// LayerTraits::reads_sample. Its op, also of its pieces (class_split), obeys OpContext::sample_room. Null: false.
  bool (*reads_sample)(Parameter) = nullptr;
  /// LayerTraits::class_split; only where channel_use is kWhole. Its op obeys OpContext::part (kClasses, kMerged), that
  /// of a statistic also kJoined, and OpContext::sample_room for both kClasses and kJoined. Null: none.
  std::optional<ClassSplit> (*class_split)(Parameter) = nullptr;
  /// LayerTraits::gradient_reads_input; null: false. Only asked where in_place is true.
  bool (*gradient_reads_input)(Parameter) = nullptr;
  /// LayerTraits::passes_gradient; null: false.
  bool (*passes_gradient)(Parameter) = nullptr;
  /// LayerTraits::batch_size; only for sources. Null: -1.
  int64_t (*batch_size)(Parameter) = nullptr;
  /// LayerTraits::needs_batch_labels; null: false.
  bool (*needs_batch_labels)(Parameter) = nullptr;
  /// LayerTraits::classes; only where reads_labels. Null: axis 1.
  int64_t (*classes)(Parameter, const Shape& scores) = nullptr;
  /// LayerTraits::ignore_label; null: none.
  std::optional<int> (*ignore_label)(Parameter) = nullptr;
};

/// The table of layer types that a job may use, by name. Immutable; any thread.
class LayerTypes {
 public:
  /// The types of this library. Lives as long as the process.
  static const LayerTypes& BuiltIn();
  /// @param types with different names.
  explicit LayerTypes(std::vector<LayerType> types);
  /// A copy with one more type, or with the one of the same name replaced: for programs and tests with types of their
  /// own. OpFactories::With adds its op.
  LayerTypes With(LayerType type) const;

  const std::vector<LayerType>& all() const { return types_; }
  /// The row of type `name` (case counts), or null. It lives as long as this table, and LayerTraits point to it.
  const LayerType* Find(const std::string& name) const;

  // Questions about any layer's parameter, also one of an unknown type or that was never checked: for the checks of a
  // routing table, which come before those of the net. What is known of Caffe's types that are not supported is in
  // proto/caffe_types.h.

  /// Whether the layer is a source: its tops come from outside the net.
  bool IsSource(const caffe::LayerParameter& param) const;
  /// Whether it is a source of kind kDataset.
  bool IsDataset(const caffe::LayerParameter& param) const;
  /// LayerTraits::batch_size; -1 as well for unknown types.
  int64_t BatchSize(const caffe::LayerParameter& param) const;
  /// LayerTraits::has_small_blobs; false for unknown types.
  bool HasSmallBlobs(const caffe::LayerParameter& param) const;
  /// LayerTraits::uses_batch_statistics; false for unknown types.
  bool UsesBatchStatistics(const caffe::LayerParameter& param) const;
  /// Whether layers of its type can have blobs that are learned or saved.
  bool HasParameters(const caffe::LayerParameter& param) const;
  /// The number of its output channels if it is kSplitOutput; nothing: shards cannot divide them.
  std::optional<int64_t> SplitOutputs(const caffe::LayerParameter& param) const;
  /// Whether its inputs can be divided over shards, too.
  bool SplitsInputs(const caffe::LayerParameter& param) const;
  /// Whether bottom `bottom` is read as labels, or may be.
  bool ReadsLabels(const caffe::LayerParameter& param, int bottom) const;
  /// LayerTraits::discards; false for unknown types.
  bool Discards(const caffe::LayerParameter& param) const;

  /// The message for a type that is not in the table: "... is a Caffe layer that hpnode does not support", with the
  /// reason (CaffeType), what is known of a type of a fork (ForkType), or "unknown type", with similar names or the
  /// whole list.
  std::string DescribeUnsupported(const std::string& name) const;

 private:
  std::vector<LayerType> types_;
};

}  // namespace hp
