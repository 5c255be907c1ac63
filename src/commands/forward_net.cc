// The TEST phase as a job of one node and one micro-batch: the same plan, net and bridge as in training, without
// pipeline and transport.
#include "commands/forward_net.h"

#include "checkpoint/matched_weights.h"
#include "engine/host_bridge.h"
#include "engine/initial_params.h"
#include "engine/memory_fit.h"
#include "layers/traits/layer_types.h"
#include "layers/traits/net_warnings.h"
#include "net/node_net.h"
#include "net/plan/placement.h"
#include "proto/net_filter.h"
#include "solvers/param_store.h"

#include "glog/logging.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>

namespace hp {
namespace {

std::vector<SharedBlob> NamesOf(const ParamPlan& param) {
  std::vector<SharedBlob> names = {{param.layer, param.blob, param.spec.shape}};
  names.insert(names.end(), param.users.begin(), param.users.end());
  return names;
}

/// Of layers that no file has weights of.
constexpr uint64_t kFillerSeed = 1;

/// What `model` lacks may stand in the net's own file. What both lack is what its filler says, as in Caffe: blobs below
/// a new layer can be had without its weights.
StatusOr<std::unique_ptr<ParamStore>> LoadParams(Device* device, const NodeNet& net, const CaffeModel& model) {
  const NetGraph& graph = net.plan().graph();
  HP_ASSIGN_OR_RETURN(const CaffeModel in_net, ModelInNet(FilterNet(graph.net(), graph.phase())));
  std::vector<StoredParam> stored;
  std::vector<std::vector<SharedBlob>> names;
  for (const ParamPlan& param : net.plan().params()) {
    StoredParam entry{param.layer, param.blob, param.spec.shape, Block::Whole(param.spec.shape), 0, 0, false};
    stored.push_back(entry);
    names.push_back(NamesOf(param));
  }
  std::set<BlobKey> given;
  for (const std::vector<SharedBlob>& of_param : names) {
    if (in_net.LastOf(of_param) == nullptr) continue;
    for (const SharedBlob& name : of_param) given.emplace(name.layer, name.blob);
  }
  const MatchedWeights matched = LogMatches(model, names, true, &given);
  if (matched.loaded.empty() && !matched.missing.empty()) {
    return NotFound("%s: no layer of the net has all its weights there; layers are matched by name",
                    model.path.c_str());
  }
  HP_ASSIGN_OR_RETURN(std::unique_ptr<ParamStore> params, ParamStore::Create(device, stored));
  if (!matched.missing.empty()) HP_RETURN_IF_ERROR(FillParams(net, kFillerSeed, params.get()));
  for (int i = 0; i < params->size(); ++i) {
    const ParamPlan& param = net.plan().params()[static_cast<size_t>(i)];
    std::vector<float> values(params->count(i));
    const CaffeModel& from = model.LastOf(names[i]) != nullptr ? model : in_net;
    if (from.LastOf(names[i]) == nullptr) continue;
    HP_RETURN_IF_ERROR(from.CopyBlock(names[i], param.block, values));
    HP_RETURN_IF_ERROR(params->WriteValues(i, values));
  }
  return params;
}

/// A caller brings samples.
Status CheckHasSource(const NetGraph& graph) {
  const auto& layers = graph.layers();
  const bool some = std::any_of(layers.begin(), layers.end(), [](const GraphLayer& layer) { return layer.source; });
  return some ? OkStatus() : InvalidArgument("net \"%s\" has no input", graph.net().name().c_str());
}

}  // namespace

class ForwardNet::Impl {
 public:
  explicit Impl(Device* device) : device_(device) {}

  Status Build(const NetGraph& graph, const ForwardNetOptions& options, Backend* backend) {
    HP_RETURN_IF_ERROR(CheckHasSource(graph));
    for (const GraphLayer& layer : graph.layers()) layers_.insert(layer.traits.name());
    for (const std::string& line : NetWarnings(graph.net(), LayerTypes::BuiltIn(), /*trains=*/false)) {
      LOG(WARNING) << line;
    }
    const StageLayout layout{{{true, {0}}}, std::vector<int>(graph.net().layer_size(), 0), {}};
    HP_ASSIGN_OR_RETURN(Placement placement, Placement::Create(graph, options.sample, layout));
    placement_ = std::make_unique<const Placement>(std::move(placement));
    HP_ASSIGN_OR_RETURN(const NodePlan plan, NodePlan::Create(graph, *placement_, {.sample = options.sample}));
    HP_RETURN_IF_ERROR(CheckPlannedTest(plan, options.rows, Room()));
    HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, graph.Shapes(options.sample, options.rows));
    std::vector<std::string> computed;
    for (const std::string& name : options.blobs) {
      const int blob = graph.FindBlob(name);
      const bool labels = blob >= 0 && graph.blobs()[blob].label;
      kept_.push_back(labels ? -1 : static_cast<int>(computed.size()));
      if (labels) label_shape_ = shapes[blob];
      if (!labels) computed.push_back(name);
    }
    HP_ASSIGN_OR_RETURN(net_, NodeNet::Create(plan, {.backend = backend, .kept = computed}, options.rows));
    order_.resize(net_->outputs().size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [this](size_t a, size_t b) { return net_->outputs()[a].blob < net_->outputs()[b].blob; });
    return OkStatus();
  }

  Status Allocate(const CaffeModel& model, int batches_ahead) {
    size_t parameters = 0;
    std::vector<std::vector<SharedBlob>> names;
    for (const ParamPlan& param : net_->plan().params()) {
      parameters += param.block.count() * sizeof(float);
      names.push_back(NamesOf(param));
    }
    HP_RETURN_IF_ERROR(CheckBlobCounts(model, layers_, names));
    HP_RETURN_IF_ERROR(CheckTestMemory(*net_, parameters, batches_ahead, Room()));
    HP_ASSIGN_OR_RETURN(params_, LoadParams(device_, *net_, model));
    for (int i = 0; i < params_->size(); ++i) views_.push_back(params_->View(i));
    HP_ASSIGN_OR_RETURN(arena_, device_->Allocate(net_->arena_bytes()));
    HP_ASSIGN_OR_RETURN(scratch_, device_->Allocate(net_->scratch_bytes() + 64));
    if (device_->is_host()) return OkStatus();
    BridgeNeeds needs;
    needs.nets = {net_.get()};
    needs.batch_rows = net_->rows();
    needs.label_numbers = net_->plan().label_numbers();
    HP_ASSIGN_OR_RETURN(bridge_, HostBridge::Create(needs, device_));
    size_t largest = 0;
    for (int kept : net_->kept()) largest = std::max(largest, net_->tensors()[kept].desc.bytes());
    HP_ASSIGN_OR_RETURN(staging_, device_->AllocateHost(largest));
    return OkStatus();
  }

  std::vector<Output> outputs() const {
    std::vector<Output> outputs;
    for (size_t i : order_) {
      const NetOutput& output = net_->outputs()[i];
      outputs.push_back({output.blob, output.loss_weight, output.top_of_net});
    }
    return outputs;
  }

  StatusOr<std::vector<float>> Run(uint64_t first_sample, float* images, std::span<const float> labels) {
    run_ = NetRun();
    run_.arena = arena_.data();
    run_.scratch = scratch_.data();
    run_.params = views_;
    run_.batch.train = false;
    run_.batch.first_sample = first_sample;
    run_.batch.global_rows = net_->rows();
    const std::span<const float> several = net_->LabelsBehind(images);
    const size_t rows = std::min(labels.size(), static_cast<size_t>(net_->rows()));
    const std::span<const float> all = several.empty() ? labels.first(rows) : several;
    if (std::count(kept_.begin(), kept_.end(), -1) > 0) labels_.assign(all.begin(), all.end());
    if (bridge_) {
      RunOnDevice(images, labels);
    } else {
      run_.images = images;
      run_.batch.labels = all;
      run_.batch.SetBatchLabels(labels);
      for (int segment = 0; segment < net_->segments(); ++segment) net_->Forward(segment, run_);
    }
    HP_RETURN_IF_ERROR(device_->Synchronize());
    std::vector<float> values;
    for (size_t i : order_) {
      values.push_back(bridge_ ? bridge_->statistics(fetched_)[i]
                               : net_->ValueOf(net_->outputs()[i].tensor, run_).floats()[0]);
    }
    return values;
  }

  int64_t rows() const { return net_->rows(); }
  const Shape& blob_shape(size_t index) const {
    return kept_[index] < 0 ? label_shape_ : net_->tensors()[net_->kept()[kept_[index]]].desc.shape;
  }

  StatusOr<std::vector<float>> ReadBlob(size_t index) const {
    if (kept_[index] < 0) return labels_;
    const Tensor tensor = net_->ValueOf(net_->kept()[kept_[index]], run_);
    const float* values = tensor.floats();
    if (bridge_) {
      device_->Download(Device::kCopyOut, staging_.data(), tensor.data, tensor.desc.bytes());
      HP_RETURN_IF_ERROR(device_->Synchronize());
      values = staging_.floats();
    }
    return std::vector<float>(values, values + tensor.count());
  }

 private:
  /// Of the host, where that is the device.
  MemoryRoom Room() const { return device_->is_host() ? HostMemoryRoom() : AddressSpaceRoom(); }

  void RunOnDevice(const float* images, std::span<const float> labels) {
    for (int segment = 0; segment < net_->segments(); ++segment) {
      bridge_->BringInputs(0, *net_, segment, {segment == 0 ? images : nullptr}, labels, 0, &run_);
      bridge_->BeginWork();
      device_->RunCaptured({number_, static_cast<uint64_t>(segment)}, [&] { net_->Forward(segment, run_); });
      bridge_->EndWork();
    }
    fetched_ = bridge_->FetchStatistics(*net_, run_);
  }

  /// What a device has recorded of others stays recorded.
  static uint64_t NextNumber() {
    static std::atomic<uint64_t> next = 0;
    return next++;
  }

  const uint64_t number_ = NextNumber();
  Device* const device_;
  std::set<std::string> layers_;  // of the net
  std::vector<int> kept_;         // by blob to read: index into the net's kept ones; -1: it is the labels
  Shape label_shape_;             // [rows, ...]
  std::vector<float> labels_;     // of the latest run, if they are to be read
  std::unique_ptr<const Placement> placement_;
  std::unique_ptr<NodeNet> net_;  // points to the placement
  std::vector<size_t> order_;     // of the net's outputs
  std::unique_ptr<ParamStore> params_;
  std::vector<ParamView> views_;
  Buffer arena_, scratch_, staging_;
  std::unique_ptr<HostBridge> bridge_;  // null on the host's device
  int64_t fetched_ = 0;                 // by the bridge, of the latest run
  NetRun run_;                          // the latest
};

ForwardNet::ForwardNet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ForwardNet::~ForwardNet() = default;

StatusOr<std::unique_ptr<ForwardNet>> ForwardNet::Create(const NetGraph& graph, const ForwardNetOptions& options,
                                                         Device* device, Backend* backend, const CaffeModel& model) {
  auto impl = std::make_unique<Impl>(device);
  HP_RETURN_IF_ERROR(impl->Build(graph, options, backend));
  HP_RETURN_IF_ERROR(impl->Allocate(model, options.batches_ahead));
  return std::unique_ptr<ForwardNet>(new ForwardNet(std::move(impl)));
}

std::vector<ForwardNet::Output> ForwardNet::outputs() const { return impl_->outputs(); }

StatusOr<std::vector<float>> ForwardNet::Run(uint64_t first_sample, float* images, std::span<const float> labels) {
  return impl_->Run(first_sample, images, labels);
}

int64_t ForwardNet::rows() const { return impl_->rows(); }

const Shape& ForwardNet::blob_shape(size_t index) const { return impl_->blob_shape(index); }

StatusOr<std::vector<float>> ForwardNet::ReadBlob(size_t index) const { return impl_->ReadBlob(index); }

std::vector<std::string> UnreadBlobs(const NetGraph& graph) {
  std::vector<std::string> names;
  for (const GraphBlob& blob : graph.blobs()) {
    const GraphLayer& producer = graph.layers()[blob.producer];
    if (!blob.consumers.empty() || blob.silenced || blob.label || producer.source || producer.is_statistic()) continue;
    names.push_back(blob.name);
  }
  return names;
}

}  // namespace hp
