#pragma once

#include "base/sample_shape.h"
#include "hp/status.h"
#include "layers/traits/label_paths.h"
#include "layers/traits/layer_types.h"
#include "layers/traits/source_tops.h"
#include "net/plan/shared_params.h"
#include "proto/caffe.pb.h"
#include "proto/phase.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hp {

class HeldParameters;

/// One tensor of the whole net. A name that layers overwrite in place stands for several blobs, one for each writer.
struct GraphBlob {
  std::string name;            ///< as in the prototxt
  int producer = -1;           ///< index of the layer that writes it
  int top_index = 0;           ///< which top of the producer
  std::vector<int> consumers;  ///< indices of the layers that read it, in their order
  bool label = false;          ///< labels of a source: sent ahead of the micro-batches (LabelFeed), on no edge
  /// Of a source, but its labels: 0 is SampleShape::data, from 1 on SampleShape::others. -1: layers compute it.
  int of_sample = -1;
  bool silenced = false;        ///< a Silence reads it, which is no consumer: it is no output of the net
  bool automatic = false;       ///< top 0 of a loss for which the prototxt names none: nobody can read it
  bool needs_gradient = false;  ///< some parameter below it learns by it; false for all blobs in a test
  /// Whether parameters have made it, frozen ones too. If not, it is data, or made of data alone: images, numbers that
  /// name rows (ArgMax, Embed), targets.
  bool activation = false;
};

/// How a graph deviates from the prototxt because of how a table splits it. What it computes stays the same. All lists
/// are by index among the layers of the unfiltered prototxt; empty: nothing deviates.
struct GraphCuts {
  /// Layers whose product and sum are two entries: those that are split by inputs.
  std::vector<bool> by_inputs;
  /// The group (stage) of a layer; -1: none. What a layer of a group reads from outside it goes through an entry
  /// "NAME.scatter" in the group, so that each shard receives its slice and the shards gather the whole.
  std::vector<int> scattered;
  /// Over how many shards the classes of a layer lie, so that what each says of them and what follows from it are two
  /// entries (ClassSplit); 0: it is one.
  std::vector<int> class_shards;
};

/// One layer of the whole net, or a piece of one.
struct GraphLayer {
  explicit GraphLayer(const LayerTraits& traits) : traits(traits), param(&traits.param()) {}

  /// Of a layer that is split by inputs there are two entries, one behind the other: kProduct, which has its weights,
  /// and kSum, which has its bias; likewise of one over classes that shards have in slices: kClasses, whose top is what
  /// the shards say of their classes, side by side, and kMerged, which has it as its last bottom. It has the layer's
  /// other bottoms as well, or (ClassSplit::on_one_shard) the labels alone. Of no layer are
  /// kScatter (GraphCuts::scattered), kLabels, which makes an ordinary blob of the labels for layers that do not take
  /// them as such, and kWeighted, a statistic: the sum of a blob that has a loss_weight though no loss makes it.
  enum Piece { kAll, kProduct, kSum, kScatter, kClasses, kMerged, kLabels, kWeighted };

  LayerTraits traits;
  const caffe::LayerParameter* param;  ///< in the graph's net(), or the graph's own
  Piece piece = kAll;
  std::vector<int> bottoms, tops;  ///< blob indices, in the order of the prototxt; labels included
  bool in_place = false;           ///< the prototxt has top 0 overwrite bottom 0, whose name nobody else reads
  bool label_targets = false;      ///< its label_bottom, which may be a tensor, is labels (may_read_labels)
  bool tensor_labels = false;      ///< its labels are an ordinary blob: computed, or not those that go ahead
  int label_path = -1;             ///< index in NetGraph::label_paths; -1: it reads no classes, or computed ones
  int label_number = 0;            ///< index in NetGraph::counted_labels of what it counts (needs_batch_labels)
  bool source = false;             ///< its tops come from outside the net (Data, Input)
  bool learns = false;             ///< has a parameter with lr_mult != 0
  bool leads_to_loss = false;      ///< it, or a layer above it that gradients reach, has a top with a loss weight
  int order = 0;                   ///< index among the layers of the unfiltered prototxt
  int class_shards = 0;            ///< kClasses, kMerged: over how many shards the classes lie
  /// Index of the layer whose classes are a sample (LayerTraits::sample_rate), which this entry is or whose top it
  /// reads; -1: all classes are computed, as in every test.
  int sampled_by = -1;
  const SharedParams* shared = nullptr;  ///< NetGraph::shared of its graph
  /// The Parameter whose blob it holds, under that name (HeldParameters); null: none.
  const caffe::LayerParameter* parameter = nullptr;

  /// Name of the entry: the layer's, of a kSum "NAME.sum", of a kClasses "NAME.classes", of a kLabels "BLOB.values",
  /// of a kWeighted "BLOB.weighted".
  std::string name() const;
  /// As those of its traits, of what this entry computes.
  bool is_statistic() const { return piece != kClasses && traits.is_statistic(); }
  bool needs_batch_labels() const { return sampled_by >= 0 || (piece != kClasses && traits.needs_batch_labels()); }
  /// Whether bottom `i` is labels that go ahead of the micro-batches (BatchContext::labels).
  bool is_label(size_t i) const { return reads_labels() && i == label_bottom(); }
  bool reads_labels() const { return label_targets || (traits.reads_labels() && !tensor_labels); }
  /// Which bottom is the labels, of those entries that have some.
  size_t label_bottom() const { return piece == kLabels ? 0 : traits.label_bottom(); }
  /// Whether bottom `i` is sent its gradient, if it needs one: false by propagate_down, or by its type. What lies
  /// between the pieces of a layer always is.
  bool propagates(size_t i) const;
  ChannelUse channel_use() const;
  bool of_no_layer() const { return piece == kScatter || piece == kLabels || piece == kWeighted; }
  /// The learnable blobs of this entry, with the factors of the parameters that they share. @param in as for
  /// LayerTraits::Params.
  std::vector<ParamSpec> Params(const std::vector<Shape>& in) const;
  /// Index of the first of them among the layer's blobs, and how many there are.
  int first_blob() const { return piece == kSum ? 1 : 0; }
  int blobs() const { return piece == kProduct ? 1 : traits.blobs() - first_blob(); }
};

/// Labels of a batch that layers count.
struct CountedLabels {
  int path = -1;  ///< index in NetGraph::label_paths; -1: the blob of labels
  std::optional<int> ignore_label;
};

/// The whole net of one phase: its layers in the order of the prototxt, the blobs between them, and which of them need
/// gradients. Needs no backend and makes no ops. Shapes are computed on request, since they depend on the rows of a
/// micro-batch. Immutable; any thread.
class NetGraph {
 public:
  /// Takes the layers of `phase` (Caffe's include and exclude rules) and connects them.
  /// @param net the whole prototxt; the graph keeps it alive.
  /// @param types must outlive the graph.
  /// @param cuts of layers that the table splits.
  /// @return kInvalidArgument, naming the layer: an unknown bottom, a top that is made twice, an unsupported type or
  /// field, sources that do not fit together (CheckSources), parameters that can't be shared (SharedParams::Create),
  /// targets or labels that learn, labels that do not go ahead and of which not all count, a sample of classes read by
  /// another layer than one loss; or the phase has no layers.
  static StatusOr<std::unique_ptr<NetGraph>> Create(std::shared_ptr<const caffe::NetParameter> net, Phase phase,
                                                    const LayerTypes& types = LayerTypes::BuiltIn(),
                                                    const GraphCuts& cuts = {});

  const std::vector<GraphLayer>& layers() const { return layers_; }
  const std::vector<GraphBlob>& blobs() const { return blobs_; }
  Phase phase() const { return phase_; }
  /// Which blobs are one parameter; of a job's test net those of its training net.
  const SharedParams& shared() const { return *shared_; }
  /// Takes those of the training net, whose parameters a test uses by the names of its layers, whatever names this net
  /// gives them. Before any use of the graph.
  void ShareAs(const NetGraph& train);
  const caffe::NetParameter& net() const { return *net_; }
  const std::vector<SourceTop>& source_tops() const { return source_tops_; }
  /// The shape of a row of a source's top.
  const Shape& RowOf(const SourceTop& top, const SampleShape& sample) const;
  const std::vector<LabelPath>& label_paths() const { return label_paths_; }
  /// First those of the blob of labels, counted or not; then what layers count besides.
  const std::vector<CountedLabels>& counted_labels() const { return counted_labels_; }
  /// Whether a layer reads records.
  bool reads_records() const;
  /// The batch_size of its sources; 0: they state none.
  int64_t batch_size() const;
  /// The shapes of all blobs, by blob, for `rows` samples.
  /// @param sample of all sources: labels are [rows], or [rows, ...] where a row has several.
  /// @return kInvalidArgument: a shape that a layer can't take (named), or `sample` has another number of `others` than
  /// the sources.
  StatusOr<std::vector<Shape>> Shapes(const SampleShape& sample, int64_t rows) const;
  /// The blob whose classes a kClasses entry says something of; of a kMerged one, the same blob.
  int ClassesOf(int layer) const {
    return layers_[layers_[layer].piece == GraphLayer::kMerged ? layer - 1 : layer].bottoms[0];
  }
  /// Whether a layer that reads a blob sends it a gradient, if it needs one (GraphLayer::propagates).
  bool SendsGradient(int layer, int blob) const;
  /// The blob of a name at the end of the net: what Caffe's blob of that name holds after a forward pass. -1: none.
  int FindBlob(const std::string& name) const;
  /// The net's outputs, in the order of the layers: blobs that no layer reads and that are losses or accuracies.
  std::vector<int> outputs() const;

 private:
  /// Create before the places of its errors are known.
  static StatusOr<std::unique_ptr<NetGraph>> Make(const std::shared_ptr<const caffe::NetParameter>& net, Phase phase,
                                                  const LayerTypes& types, const GraphCuts& cuts);
  Status Silence(const LayerTraits& traits);
  Status AddParameter(const caffe::LayerParameter& layer, HeldParameters* parameters);
  Status AddLayer(int order, const LayerTraits& traits, const GraphCuts& cuts);
  Status CheckHeld(const GraphLayer& layer, const std::vector<Shape>& in) const;
  int* Latest(const std::string& name);
  StatusOr<int> Bottom(const LayerTraits& traits, const std::string& name);
  Status FindBottoms(int group, const GraphCuts& cuts, GraphLayer* entry);
  Status AddTops(GraphLayer* entry);
  void MarkSource(int order);
  void AddAutomaticTop(GraphLayer* entry);
  Status FindLabels(GraphLayer* entry);
  int NumberOf(CountedLabels counted);
  int AddBlob(const std::string& name, int top, GraphLayer* producer);
  /// An entry that is of no layer and reads `blob`. @param param its type and fields. @return its top.
  int AddOwnEntry(GraphLayer::Piece piece, const char* suffix, int order, int blob, caffe::LayerParameter param);
  void AddWeightedSums(int order, const LayerTraits& traits);
  int ScatteredInto(int group, int order, int blob);
  /// Behind the latest layer, a source: an ordinary blob of its labels if some layer does not take them as labels.
  void AddLabelValues();
  void CutProduct();
  void CutClasses(int shards);
  Status FindShared();
  void HideSumsOfReadBlobs();
  void MarkGradients();
  Status CheckTargets() const;
  Status MarkSamples();

  std::shared_ptr<const caffe::NetParameter> net_;
  Phase phase_ = caffe::TRAIN;
  std::vector<GraphLayer> layers_;
  std::vector<GraphBlob> blobs_;
  std::vector<std::pair<std::string, int>> current_;  // latest blob of each name
  std::shared_ptr<const SharedParams> shared_;
  std::map<std::pair<int, int>, int> scattered_;                    // (blob, group) -> the blob that its scatter makes
  std::vector<std::unique_ptr<caffe::LayerParameter>> own_params_;  // of entries that are of no layer
  std::map<int, int> label_values_;                                 // by blob of labels: the ordinary one
  std::vector<SourceTop> source_tops_;
  std::vector<LabelPath> label_paths_;
  std::vector<CountedLabels> counted_labels_ = std::vector<CountedLabels>(1);
};

}  // namespace hp
