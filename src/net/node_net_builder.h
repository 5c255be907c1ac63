#pragma once

#include "net/node_net.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// Builds a NodeNet from its plan: NodeNet::Create uses it. node_net_builder.cc begins with the order of its work. One
/// use for each net.
class NodeNetBuilder {
 public:
  /// Parameters as NodeNet::Create's.
  NodeNetBuilder(const NodePlan& plan, const NetContext& context, int64_t rows);
  /// Once. Errors as NodeNet::Create's.
  StatusOr<std::unique_ptr<NodeNet>> Build();

 private:
  /// A tensor that another node writes: what comes by an edge from one of its writers.
  struct Landing {
    int edge = 0, writer = 0, tensor = 0;
  };
  /// What the builder must remember of a step beyond NetStep.
  struct StepInfo {
    enum Kind { kLayer, kDense, kConcat, kSplit, kRound, kExport, kScatter, kPieces, kImport } kind = kLayer;
    bool in_place = false;            // output 0 shares its value with input 0
    bool gradient_in_place = false;   // and its gradient
    std::vector<bool> wants = {};     // by input: whether its gradient is to be computed
    const LayerPlan* plan = nullptr;  // kLayer
    int edge = -1;                    // kExport, kScatter
    // kExport: that have a gradient; kScatter: all, one for each output. Those of kPieces are behind exports.
    std::vector<EdgePiece> pieces = {};
    int reader = -1;  // kExport: of a scattered tensor's piece its reader; -1: all read the same
  };

  Status AddLayer(const LayerPlan& plan);
  bool MayOverwrite(const LayerPlan& plan, const NetStep& step) const;
  /// Whether a BatchNorm takes moments alone, and leaves the rest to the Scale that reads it; whether a Scale is such.
  bool TakesMoments(int layer) const;
  bool IsScaledNorm(int layer) const;
  void AddSource(const LayerPlan& plan);
  Status AddBlocks(const LayerPlan& plan);
  void AddOutput(const GraphLayer& entry, int tensor, int segment);
  /// A tensor that a layer reads, the blob that it is, or is a part of, and which of the layer's bottoms that is.
  struct Input {
    int tensor = 0, blob = 0;
    size_t bottom = 0;
  };
  StatusOr<std::vector<Input>> Inputs(int layer);
  /// Whether it compares elements of two tensors of different shapes (LayerTraits::pairs_elements).
  bool ComparesShapes(const GraphLayer& layer) const;
  StatusOr<std::vector<int>> Gather(int edge);
  StatusOr<int> GatherWhole(int edge);
  StatusOr<int> Dense(int tensor);
  StatusOr<int> Plain(int tensor);
  Status FindKept();
  Status AddKept();
  bool IsKept(int blob) const { return std::find(kept_.begin(), kept_.end(), blob) != kept_.end(); }
  Status AddExports(int blob);
  Status AddRound(int blob);
  StatusOr<int> Import(int tensor);
  Status AddExport(int edge, int source, const std::vector<EdgePiece>& pieces);
  Status AddScatter(int edge, int source, const std::vector<EdgePiece>& pieces);
  bool IsSum(const NetStep& step) const;
  bool PassesGradient(int step) const;
  NetStep* OnlyReader(int tensor);
  int GradientOf(const EdgePiece& piece, int edge, int tensor);
  StatusOr<std::unique_ptr<Op>> MakeOp(const LayerPlan& plan, const std::vector<TensorDesc>& in);

  void MarkBackward();
  Status AddSplits();
  void SortBySegment();
  void AssignGradients();
  void LeaveRelus();
  void JoinGroups();
  void LeaveRawImages();
  void Defer();
  void FindClears();
  void FindPortBuffers();
  int PortBuffer(const PortPlan& port) const;
  Status MakeUpdateOps();

  int AddTensor(const std::string& name, const TensorDesc& desc, int value, int available);
  int AddBuffer(size_t bytes, NetBuffer::Kind kind = NetBuffer::kArena);
  void AddStep(NetStep step, StepInfo info);
  OpContext ContextOf(const LayerPlan& layer) const;

  const NetContext context_;
  std::unique_ptr<NodeNet> net_;
  const NodePlan& plan_;  // the net's
  const NetGraph& graph_;
  const Placement& placement_;
  std::vector<int> kept_;                               // blobs, in the order of NetContext::kept
  std::vector<Shape> shapes_;                           // by blob, whole
  std::vector<StepInfo> info_;                          // by step
  std::vector<int> available_;                          // by tensor: first segment that may read it
  std::vector<std::vector<std::pair<int, int>>> uses_;  // by tensor: (step, input) that send a gradient
  std::map<int, int> local_;                            // blob -> tensor made on this node
  std::map<int, std::vector<int>> gathered_;            // edge -> tensors of its pieces
  std::map<int, int> whole_;                            // edge -> one tensor
  std::map<int, int> moments_;                          // blob of a BatchNorm that TakesMoments -> tensor
  std::map<int, int> dense_;                            // tensor -> the same in NCHW order
  std::map<int, int> exported_;  // edge -> tensor that leaves; of a scatter the piece that stays here
  std::map<int, int> own_;       // edge -> the tensor that this node reads of its own
  std::vector<Landing> landings_;
};

}  // namespace hp
