#pragma once

#include "backend/backend.h"
#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace caffe {
class LayerParameter;
class FillerParameter;
}  // namespace caffe

namespace hp {

/// One learnable blob of a layer.
struct ParamSpec {
  std::string name;  ///< "conv1.0" (weights), "conv1.1" (bias)
  Shape shape;       ///< of the whole blob, all shards together
  float lr_mult = 1, decay_mult = 1;
  const caffe::FillerParameter* filler = nullptr;  ///< lives as long as the LayerParameter; null: zeros
};

/// What a layer must know beyond its parameters when its op is made for one node.
struct OpContext {
  Backend* backend = nullptr;
  uint64_t seed = 0;
  bool input_gradient = true;  ///< false: nothing below the layer learns
  /// This shard's range of the layer's output channels, and their whole number; {0, n, n} where nothing is split.
  int64_t channel_begin = 0, channel_end = 0, channel_count = 0;
};

/// How the channels of a layer's output depend on those of its input: what the partition of an FC stage goes by.
enum class ChannelUse {
  kElementwise,  ///< channel by channel: works on a slice as it is (ReLU, Dropout, Eltwise, ...)
  kWhole,        ///< needs all channels of its inputs (Softmax, Concat, Pooling, ...)
  kSplitOutput,  ///< needs all channels of its input, yields any slice of its output (InnerProduct)
};

/// A layer of the prototxt: validates its parameters, knows its shapes and parameters, and makes its op. It has no
/// tensors. Immutable after Create; any thread.
class Layer {
 public:
  virtual ~Layer() = default;

  /// Makes the layer that `param.type()` names. `param` must outlive it.
  /// @return kInvalidArgument: unknown type, a known Caffe type or field that is not supported (named), or a bad value.
  static StatusOr<std::unique_ptr<Layer>> Create(const caffe::LayerParameter& param);

  const std::string& name() const;
  const std::string& type() const;
  const caffe::LayerParameter& param() const { return param_; }

  /// Shapes of the tops for bottoms of the given shapes (axis 0 = rows). The message says which layer and what fits.
  virtual StatusOr<std::vector<Shape>> OutputShapes(const std::vector<Shape>& in) const = 0;
  /// Learnable blobs, in Caffe's order; empty for most layers.
  virtual std::vector<ParamSpec> Params(const std::vector<Shape>&) const { return {}; }
  /// The op for inputs of shapes and layouts `in`. For kSplitOutput and kElementwise, `context` says which slice.
  virtual StatusOr<std::unique_ptr<Op>> CreateOp(const OpContext& context, const std::vector<TensorDesc>& in) const = 0;

  virtual ChannelUse channel_use() const { return ChannelUse::kWhole; }
  virtual bool allows_in_place() const { return false; }
  /// Layers that read labels by BatchContext: bottom 1 is the label blob and is not passed to the op.
  virtual bool reads_labels() const { return false; }
  /// Whether the op reads BatchContext::batch_labels (a count of labels that are not ignored).
  virtual bool needs_batch_labels() const { return false; }
  /// Tops are [1]-shaped contributions, summed over the micro-batches of a batch in the order of ids.
  virtual bool is_statistic() const { return false; }
  /// The default loss weight of top `i` (Caffe: 1 for the first top of a loss layer, else 0).
  virtual float loss_weight(int top) const;

 protected:
  explicit Layer(const caffe::LayerParameter& param) : param_(param) {}
  /// lr_mult and decay_mult of blob `index` from the layer's `param` entries, defaults 1.
  void SetMultipliers(int index, ParamSpec* spec) const;

  const caffe::LayerParameter& param_;
};

}  // namespace hp
