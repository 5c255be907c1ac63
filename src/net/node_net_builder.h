#pragma once

#include "net/node_net.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// Builds a NodeNet. First the steps in the order of the layers, with the exchange points that they meet (AddLayer);
/// then, backwards, what has a gradient; then splits where several readers send one; then buffers, ports and memory.
class NodeNetBuilder {
 public:
  NodeNetBuilder(const NetGraph& graph, const Placement& placement, const NodeRole& role, int64_t rows);
  StatusOr<std::unique_ptr<NodeNet>> Build();

 private:
  /// A tensor that another node writes: one part of an edge.
  struct Landing {
    int edge = 0, part = 0, tensor = 0;
  };
  /// Steps of our own and what the builder must remember of any step.
  struct StepInfo {
    enum Kind { kLayer, kSource, kDense, kConcat, kSplit, kExport } kind = kLayer;
    bool in_place = false;                   ///< output 0 shares value and gradient with input 0
    std::vector<bool> wants = {};            ///< inputs whose gradient the layer could compute
    int edge = -1;                           ///< kExport
    std::vector<int> gradient_readers = {};  ///< kExport: readers that send a gradient, in rank order
  };

  Status AddLayer(int layer);
  void AddSource(int layer);
  StatusOr<std::vector<int>> Inputs(int layer);
  StatusOr<std::vector<int>> Gather(int edge);
  StatusOr<int> GatherWhole(int edge);
  StatusOr<int> Dense(int tensor);
  Status AddExports(int blob);
  void AddParams(int layer, NetStep* step);

  void MarkBackward();
  Status AddSplits();
  void SortBySegment();
  void AssignGradients();
  void Defer();
  void AddPorts();
  Status MakeUpdateOps();

  int AddTensor(const std::string& name, const TensorDesc& desc, int value, int available);
  int AddBuffer(size_t bytes, NetBuffer::Kind kind = NetBuffer::kArena);
  void AddStep(NetStep step, StepInfo info);
  OpContext ContextOf(int layer) const;
  int OutputChannels(int layer) const;
  bool IsMine(int layer) const;
  /// Parts that differ from each other are told apart; all replicas look like part 0.
  int distinct_part() const;

  const NetGraph& graph_;
  const Placement& placement_;
  const NodeRole role_;
  std::unique_ptr<NodeNet> net_;
  std::vector<Shape> shapes_;                           // by blob, whole
  std::vector<StepInfo> info_;                          // by step
  std::vector<int> available_;                          // by tensor: first segment that may read it
  std::vector<std::vector<std::pair<int, int>>> uses_;  // by tensor: (step, input) that send a gradient
  std::map<int, int> local_;                            // blob -> tensor made on this node
  std::map<int, std::vector<int>> gathered_;            // edge -> tensors of its parts
  std::map<int, int> whole_;                            // edge -> one tensor
  std::map<int, int> dense_;                            // tensor -> the same in NCHW order
  std::map<int, int> exported_;                         // edge -> tensor that leaves
  std::vector<Landing> landings_;
};

}  // namespace hp
