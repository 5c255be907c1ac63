#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace caffe {
class LayerParameter;
class FillerParameter;
}  // namespace caffe

namespace hp {

struct LayerType;
class LayerTypes;

/// One learnable blob of a layer.
struct ParamSpec {
  std::string name;  ///< "conv1.0" (weights), "conv1.1" (bias)
  Shape shape;       ///< of the whole blob, all shards together
  float lr_mult = 1, decay_mult = 1;
  const caffe::FillerParameter* filler = nullptr;  ///< lives as long as the LayerParameter; null: zeros
};

/// How the channels of a layer's output depend on those of its input: what the partition of an FC stage goes by.
enum class ChannelUse {
  kElementwise,  ///< channel by channel: works on a slice as it is (ReLU, Dropout, Eltwise, ...)
  kWhole,        ///< needs all channels of its inputs (Softmax, Concat, Pooling, ...)
  kSplitOutput,  ///< needs all channels of its input, yields any slice of its output (InnerProduct)
};

/// Where a layer's tops come from.
enum class SourceKind {
  kNone,     ///< from its bottoms: an op computes them
  kDataset,  ///< from a database that a reader reads: top 0 the images, top 1 their labels, which go ahead of the rest
  kInput,    ///< from whoever runs the net
};

/// What is true of one layer of the prototxt: everything that the graph, its placement, the table's checks and the
/// planner ask of a layer, so that none of them knows a type by its name. It computes nothing and knows no backend;
/// what makes the layer's op is in layers/op_factories.h.
///
/// A cheap value: it refers to its parameter and to its type's row (layer_types.h), and both must outlive it.
/// Immutable; any thread.
class LayerTraits {
 public:
  /// The traits of the layer that `param` describes, checked: its type, the numbers of its bottoms and tops, the values
  /// of its fields.
  /// @param param must outlive the result; `types` too.
  /// @return kInvalidArgument, naming the layer: unknown type, a known Caffe type or field that is not supported, or a
  /// bad value.
  static StatusOr<LayerTraits> Create(const caffe::LayerParameter& param, const LayerTypes& types);

  const std::string& name() const;
  const std::string& type() const;
  const caffe::LayerParameter& param() const { return *param_; }

  /// Shapes of the tops for bottoms of the given shapes (axis 0 = rows): a function of the parameter and of these
  /// alone.
  /// @param in one for each bottom, labels included. kDataset: one, [rows, channels, height, width] of the records as
  /// the database holds them. kInput: none.
  /// @return one for each top. kInvalidArgument: which layer, what stood there, what fits.
  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const;

  /// Learnable blobs, in Caffe's order; empty for most layers.
  /// @param in as for OutputShapes, which accepted them.
  std::vector<ParamSpec> Params(const std::vector<Shape>& in) const;
  /// How many these are, whatever the shapes.
  int blobs() const;
  /// Whether one of them has lr_mult != 0: then gradients flow to this layer, and an update follows.
  bool learns() const;

  SourceKind source() const;
  bool is_source() const { return source() != SourceKind::kNone; }
  /// Whether top `top` is the labels of a dataset.
  bool yields_labels(int top) const { return source() == SourceKind::kDataset && top == 1; }
  /// Samples of a batch as a source gives them: the global batch, or a replica's with `batch: PER_REPLICA`. -1: the
  /// layer does not say.
  int64_t batch_size() const;

  ChannelUse channel_use() const;
  /// Whether top 0 may be the memory of bottom 0.
  bool allows_in_place() const;
  /// Whether top 0 is the bytes of a dense bottom 0 under another shape, so that there is nothing to compute.
  bool is_view() const;

  /// Layers that read labels by BatchContext: bottom 1 is the label blob and is not passed to the op.
  bool reads_labels() const;
  /// Whether the op reads BatchContext::batch_labels (a count of labels that are not ignored).
  bool needs_batch_labels() const;
  /// The label that a reader of labels leaves out; nothing: it counts all.
  std::optional<int> ignore_label() const;
  /// Top 0 is a [1]-shaped contribution, summed over the micro-batches of a batch in the order of ids.
  bool is_statistic() const;
  /// The weight of top `top` in the objective: as the parameter says, else 1 for the first top of a loss, else 0.
  float loss_weight(int top) const;

 private:
  LayerTraits(const LayerType& type, const caffe::LayerParameter& param) : type_(&type), param_(&param) {}

  const LayerType* type_;
  const caffe::LayerParameter* param_;
};

}  // namespace hp
