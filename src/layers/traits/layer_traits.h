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
  std::string name;                   ///< "conv1.0" (weights), "conv1.1" (bias)
  Shape shape;                        ///< of the whole blob, all shards together; axis 0: outputs (`transposed`)
  float lr_mult = 1, decay_mult = 1;  ///< Caffe's ParamSpec; lr_mult 0: never updated
  /// Set: it is a moving average of statistics that the net gathers, of which each sub-batch keeps this share. It has
  /// no learning rate, decay, norm or history; lr_mult is 1 where they are gathered, else 0.
  std::optional<float> average_keeps = {};
  /// Of an average that several layers share: what is kept of this layer's statistics by those behind it.
  float average_share = 1;
  const caffe::FillerParameter* filler = nullptr;  ///< lives as long as the LayerParameter; null: zeros
  bool transposed = false;                         ///< of rank 2: axis 1 is the outputs, axis 0 the inputs

  /// Whether the solver keeps histories of it (JobPlan::HistoriesOf).
  bool has_histories() const { return lr_mult != 0 && !average_keeps; }
};

/// How the channels (axis 1) of a layer's output depend on those of its input. Decides which tensors the nodes of a
/// model-parallel (FC) stage exchange.
enum class ChannelUse {
  kElementwise,  ///< channel by channel: a shard works on its slice (ReLU, Dropout, Eltwise, ...)
  kWhole,        ///< needs all channels of its inputs (Softmax, Concat, Pooling, ...)
  kSplitOutput,  ///< needs all channels of its input, computes any slice of its output (InnerProduct)
  kSplitInput,   ///< the same layer split by inputs: needs a slice of them, computes a part of the sum of all outputs
  kSum,          ///< adds up such parts of a slice, and then the bias. Of no type: GraphLayer::Piece
};

/// How a layer over classes (axis 1 of bottom 0) is divided over shards that have a slice of them each: every shard
/// says some numbers of its classes, and the result follows from those of all shards.
struct ClassSplit {
  int64_t numbers = 0;  ///< that a shard says of each row, float32
  /// The result follows from these numbers alone, on one shard; else on every shard, from them and its own classes.
  bool on_one_shard = false;
  bool last_axis = false;  ///< the classes lie along bottom 0's last axis: it is divided only if that is axis 1
};

/// Where a layer's tops come from.
enum class SourceKind {
  kNone,     ///< from its bottoms: an op computes them
  kDataset,  ///< from records (Data, ImageData, HDF5Data, DummyData); SourceTop says which of them are labels
  kInput,    ///< from the program that runs the net (Input)
};

/// The facts about one layer of the prototxt: everything that the graph, the placement of layers, the checks of a
/// routing table and the planner need to know about it, so that none of them knows a type by its name. It computes
/// nothing and knows no backend; layers/op_factories.h makes the layer's op.
///
/// A cheap value of two pointers, to the layer's parameter and to its type's row (layer_types.h), which must outlive
/// it. Immutable; any thread.
///   HP_ASSIGN_OR_RETURN(const LayerTraits traits, LayerTraits::Create(net.layer(i), LayerTypes::BuiltIn()));
///   HP_ASSIGN_OR_RETURN(const std::vector<Shape> tops, traits.OutputShapes(bottoms));
class LayerTraits {
 public:
  /// Checks the layer that `param` describes (type, numbers of bottoms and tops, values of all fields) and makes its
  /// traits. Shapes are checked later, by OutputShapes.
  /// @param param must outlive the result; `types` too.
  /// @return kInvalidArgument, naming the layer: unknown type, a known Caffe type or field that is not supported, or a
  /// bad value.
  static StatusOr<LayerTraits> Create(const caffe::LayerParameter& param, const LayerTypes& types);

  const std::string& name() const;  ///< unique in its phase; never empty
  const std::string& type() const;  ///< as in the prototxt: "InnerProduct"
  const caffe::LayerParameter& param() const { return *param_; }

  /// Shapes of the tops for bottoms of the given shapes (axis 0 = rows); depends on the parameter and these only.
  /// @param in one for each bottom, labels included, of the whole layer (all shards). kDataset: one, [rows, channels,
  /// height, width] of the records. kInput: none.
  /// @return one for each top, in bounds (Shape::InBounds), and so are those of Params. kInvalidArgument: the shapes do
  /// not fit, or are too large; names the layer, what it got and what would fit.
  StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const;

  /// Of a layer that only passes on elements of its bottom: the index in it of each element of top `top`. Empty: it
  /// computes. @param in the bottom's shape.
  std::vector<int64_t> Elements(const Shape& in, int top) const;

  /// Learnable blobs, in Caffe's order; empty for most layers.
  /// @param in as for OutputShapes, which accepted them.
  std::vector<ParamSpec> Params(const std::vector<Shape>& in) const;
  /// The number of learnable blobs; it does not depend on shapes.
  int blobs() const;
  /// Whether one of them has lr_mult != 0, or is gathered: then the backward pass goes down to this layer, and its
  /// parameters are updated.
  bool learns() const;
  /// Whether blob `blob` has lr_mult != 0, or is gathered.
  bool learns(int blob) const;
  /// Whether its output in training depends on which rows are in a micro-batch together; then it gathers their
  /// statistics in its blobs.
  bool uses_batch_statistics() const;
  /// Of a layer whose blobs are averages of such statistics: the share of them that each sub-batch keeps. Nothing: its
  /// blobs, if it has any, are learned.
  std::optional<float> average_keeps() const;
  /// Whether a stage of several shards may have the layer on one of them: its blobs are small, or cost little beside
  /// their memory (Embed).
  bool has_small_blobs() const;

  /// For estimates: whether each weight is multiplied once for each position of the input (Deconvolution) and not, as
  /// elsewhere, of the output.
  bool deconvolves() const;
  /// For estimates: whether each element of the input reads a row of the weights, and multiplies nothing (Embed).
  bool looks_up() const;

  SourceKind source() const;
  bool is_source() const { return source() != SourceKind::kNone; }
  /// A source's batch size as written, in samples: of the global batch, or of one replica where the table says `batch:
  /// PER_REPLICA`. -1: the layer does not give one.
  int64_t batch_size() const;

  ChannelUse channel_use() const;
  /// Only kWhole: how its classes are divided; nothing: one shard needs all of them.
  std::optional<ClassSplit> class_split() const;
  /// Which part of its output channels, which are classes, an update of a training computes at random, beside the
  /// labels of its batch: in (0, 1]; 1: all of them. Below 1 every reader of its top must read a sample.
  float sample_rate() const;
  /// Whether bottom 0 may be scores of a sample of the classes that has those of all labels.
  bool reads_sample() const;
  /// Whether top 0 may have the name, and then the memory, of bottom 0.
  bool allows_in_place() const;
  /// Only where it may work in place: whether the gradient is computed from bottom 0, which a training then keeps, and
  /// top 0 has memory of its own. For estimates; what an op says of itself counts (Op::backward_reads_input).
  bool gradient_reads_input() const;
  /// Whether the gradient of each bottom is that of top 0, as it is. Where all lie in memory alike they share it, and
  /// no op runs.
  bool passes_gradient() const;
  /// Whether gradients go through it. If not (Threshold), what is below it learns nothing from what is above.
  bool has_gradient() const;
  /// Whether gradients go through it to its bottoms. If not (Embed), it may learn, and what is below it learns nothing
  /// from what is above.
  bool propagates() const;
  /// Whether it computes nothing and is no entry of the graph: it says that nobody else reads its bottoms, labels or
  /// not, so that they are no outputs of the net (Silence, HDF5Output), or it is a Parameter.
  bool discards() const;
  /// Whether its top is a blob without rows, which its reader holds (net/plan/held_parameters.h).
  bool is_parameter() const;
  /// Whether top 0 is a dense bottom 0 under another shape (Flatten): then it shares its memory and no op runs.
  bool is_view() const;

  /// Whether bottom label_bottom() is labels: the op gets them by BatchContext::labels, not as an input.
  bool reads_labels() const;
  /// Whether that bottom may be labels, as above, or a tensor: any values for a row's one number (EuclideanLoss).
  bool may_read_labels() const;
  /// Bottom 1, behind what is compared with the labels; 2 where that is two bottoms (ContrastiveLoss).
  size_t label_bottom() const;
  /// Whether that bottom is targets that no gradient goes to, so that nothing below it may learn
  /// (SigmoidCrossEntropyLoss).
  bool has_fixed_targets() const;
  /// Whether its two bottoms are compared element by element in the order of the prototxt, whatever their shapes are:
  /// if these differ, both are read dense.
  bool pairs_elements() const;
  /// Whether the op reads BatchContext::batch_labels as well, to count the global batch's labels that are not ignored.
  bool needs_batch_labels() const;
  /// Of a layer that reads_labels: how many classes bottom 0 has scores of. @param scores as OutputShapes accepts.
  int64_t classes(const Shape& scores) const;
  /// The label whose rows do not count; nothing: all rows count.
  std::optional<int> ignore_label() const;
  /// Whether top 0 is a number [1] that is reported (loss, accuracy, sum over a batch): a micro-batch's contribution,
  /// summed over the micro-batches of a batch in the order of ids.
  bool is_statistic() const;
  /// Whether something learns by it, unless its weight is 0.
  bool is_loss() const;
  /// The weight of top `top` in the objective: Caffe's loss_weight, by default 1 for the first top of a loss and 0 for
  /// all else. Of a layer that is no statistic it is that of the sum of all elements (GraphLayer::kWeighted).
  float loss_weight(int top) const;

 private:
  LayerTraits(const LayerType& type, const caffe::LayerParameter& param) : type_(&type), param_(&param) {}

  const LayerType* type_;
  const caffe::LayerParameter* param_;
};

}  // namespace hp
