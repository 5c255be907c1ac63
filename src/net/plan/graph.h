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
  std::string name;
  int producer = -1;            ///< layer index
  int top_index = 0;            ///< which top of the producer
  std::vector<int> consumers;   ///< layer indices, in their order
  bool label = false;           ///< comes from a Data layer's second top: goes ahead of the pipelines, not through them
  bool needs_gradient = false;  ///< something that learns lies below it
};

struct GraphLayer {
  explicit GraphLayer(const LayerTraits& traits) : traits(traits), param(&traits.param()) {}

  LayerTraits traits;
  const caffe::LayerParameter* param;
  std::vector<int> bottoms, tops;  ///< blob indices; label bottoms and ignored tops included
  bool in_place = false;           ///< top 0 overwrites bottom 0
  bool source = false;             ///< yields tensors from outside
  bool learns = false;             ///< has a parameter with lr_mult != 0
  bool leads_to_loss = false;      ///< a top with loss weight lies at or above it
  int order = 0;                   ///< index among the layers of the unfiltered prototxt
};

/// The whole net of one phase: layers in the order of the prototxt, blobs, and what learns. Shapes depend on the rows
/// of a micro-batch: Shapes. It knows no backend and makes no ops. Immutable; any thread.
class NetGraph {
 public:
  /// @param net the unfiltered prototxt; kept by the graph.
  /// @param types must outlive the graph.
  /// @return kInvalidArgument naming the layer: unknown bottom, a top made twice, an unsupported layer, ...
  static StatusOr<std::unique_ptr<NetGraph>> Create(std::shared_ptr<const caffe::NetParameter> net, caffe::Phase phase,
                                                    const LayerTypes& types = LayerTypes::BuiltIn());

  const std::vector<GraphLayer>& layers() const { return layers_; }
  const std::vector<GraphBlob>& blobs() const { return blobs_; }
  caffe::Phase phase() const { return phase_; }
  const caffe::NetParameter& net() const { return *net_; }
  /// The data layer, or -1.
  int data_layer() const { return data_layer_; }
  /// batch_size of the data layer (of the first Input's shape, if there is none).
  int64_t batch_size() const;
  /// The shapes of all blobs for `rows` samples of shape `sample` ([C, H, W] after the transformation).
  StatusOr<std::vector<Shape>> Shapes(const Shape& sample, int64_t rows) const;
  /// Blobs that nobody consumes and that are statistics (losses, accuracies): the net's outputs, in layer order.
  std::vector<int> outputs() const;

 private:
  Status AddLayer(int order, const LayerTraits& traits);
  void MarkGradients();

  std::shared_ptr<const caffe::NetParameter> net_;
  caffe::Phase phase_ = caffe::TRAIN;
  std::vector<GraphLayer> layers_;
  std::vector<GraphBlob> blobs_;
  std::vector<std::pair<std::string, int>> current_;  ///< latest blob of each name
  int data_layer_ = -1;
};

}  // namespace hp
