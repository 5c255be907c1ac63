#pragma once

#include "hp/status.h"
#include "layers/traits/layer_types.h"
#include "proto/caffe.pb.h"

#include <memory>
#include <string>
#include <vector>

namespace hp {

/// One tensor of the whole net. A name that layers overwrite in place stands for several blobs, one for each writer.
struct GraphBlob {
  std::string name;             ///< as in the prototxt
  int producer = -1;            ///< index of the layer that writes it
  int top_index = 0;            ///< which top of the producer
  std::vector<int> consumers;   ///< indices of the layers that read it, in their order
  bool label = false;           ///< labels of a dataset: sent ahead of the micro-batches (LabelFeed), on no edge
  bool needs_gradient = false;  ///< some parameter below it learns; false for all blobs in a test
};

/// One layer of the whole net.
struct GraphLayer {
  explicit GraphLayer(const LayerTraits& traits) : traits(traits), param(&traits.param()) {}

  LayerTraits traits;
  const caffe::LayerParameter* param;  ///< in the graph's net()
  std::vector<int> bottoms, tops;      ///< blob indices, in the order of the prototxt; labels included
  bool in_place = false;               ///< top 0 may be written into the memory of bottom 0, which nobody else reads
  bool source = false;                 ///< its tops come from outside the net (Data, Input)
  bool learns = false;                 ///< has a parameter with lr_mult != 0
  bool leads_to_loss = false;          ///< it, or a layer above it, has a top with a loss weight
  int order = 0;                       ///< index among the layers of the unfiltered prototxt
};

/// The whole net of one phase: its layers in the order of the prototxt, the blobs between them, and which of them need
/// gradients. Needs no backend and makes no ops. Shapes are computed on request, since they depend on the rows of a
/// micro-batch. Immutable; any thread.
class NetGraph {
 public:
  /// Takes the layers of `phase` (Caffe's include and exclude rules) and connects them.
  /// @param net the whole prototxt; the graph keeps it alive.
  /// @param types must outlive the graph.
  /// @return kInvalidArgument, naming the layer: an unknown bottom, a top that is made twice, an unsupported type or
  /// field, a second Data layer, labels read by a layer that is no loss or accuracy; or the phase has no layers.
  static StatusOr<std::unique_ptr<NetGraph>> Create(std::shared_ptr<const caffe::NetParameter> net, caffe::Phase phase,
                                                    const LayerTypes& types = LayerTypes::BuiltIn());

  const std::vector<GraphLayer>& layers() const { return layers_; }
  const std::vector<GraphBlob>& blobs() const { return blobs_; }
  caffe::Phase phase() const { return phase_; }
  const caffe::NetParameter& net() const { return *net_; }
  /// Index of the Data layer; -1: the phase has none.
  int data_layer() const { return data_layer_; }
  /// The batch_size of the Data layer, or the rows of the first Input if there is none; 0: no source states one.
  int64_t batch_size() const;
  /// The shapes of all blobs, by blob, for `rows` samples.
  /// @param sample [C, H, W] of one sample after its transformation: top 0 of every source is [rows, C, H, W], its
  /// other tops are [rows].
  /// @return kInvalidArgument, naming the layer: a shape that it can't take.
  StatusOr<std::vector<Shape>> Shapes(const Shape& sample, int64_t rows) const;
  /// The net's outputs, in the order of the layers: blobs that no layer reads and that are losses or accuracies.
  std::vector<int> outputs() const;

 private:
  Status AddLayer(int order, const LayerTraits& traits);
  void MarkGradients();

  std::shared_ptr<const caffe::NetParameter> net_;
  caffe::Phase phase_ = caffe::TRAIN;
  std::vector<GraphLayer> layers_;
  std::vector<GraphBlob> blobs_;
  std::vector<std::pair<std::string, int>> current_;  // latest blob of each name
  int data_layer_ = -1;
};

}  // namespace hp
