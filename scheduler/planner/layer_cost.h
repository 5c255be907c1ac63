#pragma once

#include "base/shape.h"
#include "hp/status.h"
#include "net/plan/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// What one layer of a net costs, counted from its shapes: of the whole layer, all shards together. A multiply-add is
/// one product and counts as two operations.
struct LayerCost {
  std::string layer;            ///< name in the prototxt
  int64_t products = 0;         ///< multiply-adds of the forward pass of one sample; as many of each gradient
  int64_t in_bytes = 0;         ///< float32 that the forward pass of one sample reads, without parameters
  int64_t out_bytes = 0;        ///< and writes
  int64_t parameter_bytes = 0;  ///< of its parameters' values, frozen ones too
  int64_t shared_bytes = 0;     ///< of these, of parameters that a layer in front of it owns
  int64_t learned_bytes = 0;    ///< of those that are updated, and that are its own
  bool looks_up = false;        ///< whether it reads a few rows of its parameters, and multiplies nothing
  bool input_gradient = false;  ///< whether it computes the gradient of an input in training
  bool learns = false;          ///< whether it computes gradients of parameters
};

/// The costs of all layers of a graph, by their index in graph.layers(). Sources and views cost nothing. A layer with
/// parameters multiplies each weight once for each position of its output, which holds for convolutions, with groups
/// and without, and for inner products, or of its input where its traits say so (deconvolutions); the others, and
/// tables that are looked up, are counted by the bytes that they touch.
/// @param shapes of the graph's blobs for one sample (NetGraph::Shapes).
std::vector<LayerCost> CostsOf(const NetGraph& graph, const std::vector<Shape>& shapes);

/// Sums over layers, to print and to compare.
struct NetCost {
  int64_t products = 0;         ///< of the forward pass of one sample
  int64_t parameter_bytes = 0;  ///< of all values, shared ones once
};
NetCost SumOf(const std::vector<LayerCost>& costs);

}  // namespace hp
