#pragma once

#include "base/shared_blob.h"
#include "hp/status.h"
#include "layers/traits/layer_traits.h"
#include "proto/phase.h"

#include <string>
#include <vector>

namespace hp {

/// Which blobs of a net's layers are one parameter, because the prototxt gives them one name: param { name: "w" }. The
/// first layer of that name owns it, and its filler and file position are the parameter's; lr_mult and decay_mult are
/// those of the first layer that states them. A name that stands once shares nothing. Needs no shapes: NodePlan::Create
/// compares these, and the places of the layers. Immutable; any thread.
/// Source: Caffe, src/caffe/net.cpp, Net::AppendParam.
class SharedParams {
 public:
  /// One of the blobs that share a parameter.
  struct Use {
    std::string layer;        ///< name in the prototxt
    int blob = 0;             ///< among the layer's blobs, in Caffe's order
    bool permissive = false;  ///< its share_mode: equally many elements as the owner's will do
    float keeps = 1;          ///< of an average of statistics: the share that remains when the layer has added its own
  };
  /// A parameter that several blobs share.
  struct Param {
    std::string name;
    std::vector<Use> uses;  ///< at least two, in the order of the layers: the owner's first
    float lr_mult = 1, decay_mult = 1;
    bool averages = false;  ///< of statistics, which have neither

    /// The share of an average that remains when all layers have added theirs, one behind the other, as in Caffe.
    float keeps() const;
    /// The share of what `layer` adds that remains then.
    float ShareOf(const std::string& layer) const;
  };

  /// @param layers of one phase, in the order of the prototxt. Only training gathers statistics.
  /// @return kInvalidArgument, naming the layer: a name for two of its blobs; two layers
  /// that state different lr_mult or decay_mult; a layer whose classes are a sample (LayerTraits::sample_rate); an
  /// average of statistics and a parameter that is learned; layers of which one gathers statistics and the other does
  /// not, or that gather them and share some of their averages.
  static StatusOr<SharedParams> Create(const std::vector<LayerTraits>& layers, Phase phase);

  const std::vector<Param>& params() const { return params_; }
  /// The parameter that blob `blob` of `layer` shares; null: it shares none, or there is no such layer.
  const Param* Find(const std::string& layer, int blob) const;

 private:
  std::vector<Param> params_;
};

class NetGraph;
class Placement;

/// The blobs of a graph, by layer, that share `param` with its owner, the owner's left out: what files name beside it.
/// @param shapes of the graph's blobs (NetGraph::Shapes).
std::vector<SharedBlob> UsersOf(const NetGraph& graph, const std::vector<Shape>& shapes,
                                const SharedParams::Param& param);

/// Whether all blobs that share a parameter can: their shapes agree, by their share_mode; and they lie in one stage,
/// whose nodes have the same part of each.
/// @param shapes as above.
/// @return kInvalidArgument, naming both layers, what they have and what was expected.
Status CheckShared(const NetGraph& graph, const Placement& placement, const std::vector<Shape>& shapes);

}  // namespace hp
