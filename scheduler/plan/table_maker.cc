// Three choices make a table: where the net is cut into stages, how many micro-batches a replica's share of a batch
// has, and which host, port and device each node gets. The cuts lie in front of InnerProducts behind the last layer
// with other parameters: from there on parameters are many and activations few, which is where model parallelism pays.
// Where branches with InnerProducts of their own come together behind their convolutions (siamese nets), no cut of the
// file's order has them all, and the FC stage names its layers.
// The result then passes the same checks as a table that a user wrote.
#include "scheduler/plan/table_maker.h"

#include "base/format.h"
#include "base/host.h"
#include "base/range.h"
#include "proto/names.h"
#include "scheduler/plan/net_facts.h"
#include "scheduler/plan/net_tail.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_places.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>

namespace hp {
namespace {

// Fewer samples than this make thin products that are bound by reading the weights; more micro-batches than this hide
// nothing more and hold more activations.
constexpr int64_t kMinSamplesOfMicroBatch = 8;
constexpr int64_t kMaxMicroBatches = 4;

std::vector<std::string> LayerNames(const caffe::NetParameter& net) {
  std::vector<std::string> names;
  for (const caffe::LayerParameter& layer : net.layer()) names.push_back(layer.name());
  return names;
}

/// The layer at which each FC stage begins, behind one conv stage.
StatusOr<std::vector<int>> ChooseCuts(const TableRequest& request, const caffe::NetParameter& net) {
  if (request.conv.size() > 1) {
    return InvalidArgument(
        "--conv asks for %zu conv stages; expected --cut=LAYER,... with the first layer of each stage "
        "behind the first",
        request.conv.size());
  }
  const std::vector<int> tail = TailProducts(net);
  std::vector<int> products;
  std::copy_if(tail.begin(), tail.end(), std::back_inserter(products),
               [&net](int product) { return !DividesSharedNames(net, [product](int i) { return i >= product; }); });
  const int stages = static_cast<int>(request.fc.size());
  if (static_cast<int>(products.size()) < stages) {
    const size_t shared = tail.size() - products.size();
    return InvalidArgument(
        "--fc asks for %d FC stage(s); the net has %zu InnerProduct layer(s) %s%s (--cut=LAYER,... sets the boundaries "
        "by hand, and stages of a table of your own may name any layers)",
        stages, tail.size(), WhereTailBegins(net).c_str(),
        shared > 0 ? Format(", of which %zu can't begin a stage: layers share parameters across it", shared).c_str()
                   : "");
  }
  std::vector<int> cuts;
  for (int stage = 0; stage < stages; ++stage) {
    cuts.push_back(products[PartOf(static_cast<int64_t>(products.size()), stage, stages).begin]);
  }
  return cuts;
}

StatusOr<std::vector<int>> GivenCuts(const TableRequest& request, const caffe::NetParameter& net) {
  const size_t stages = request.conv.size() - 1 + request.fc.size();
  if (request.cut.size() != stages) {
    return InvalidArgument(
        "--cut names %zu layer(s) for %zu stage(s) behind the first; expected the first layer of each",
        request.cut.size(), stages);
  }
  const std::vector<std::string> names = LayerNames(net);
  std::vector<int> cuts;
  for (const std::string& name : request.cut) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      const std::string nearest = NearestName(name, names);
      return InvalidArgument("--cut: the net has no layer \"%s\"%s", name.c_str(),
                             nearest.empty() ? "" : (" (did you mean \"" + nearest + "\"?)").c_str());
    }
    const int cut = static_cast<int>(found - names.begin());
    if (cut == 0 || (!cuts.empty() && cut <= cuts.back())) {
      return InvalidArgument(
          "--cut: layer \"%s\" leaves the stage before it empty; expected layers in the order of the net",
          name.c_str());
    }
    cuts.push_back(cut);
  }
  return cuts;
}

void AddStage(const std::string& name, bool conv, const caffe::NetParameter& net, int begin, int end,
              RoutingTableConfig* config) {
  StageConfig* stage = config->add_stage();
  stage->set_name(name);
  stage->set_kind(conv ? StageConfig::CONV : StageConfig::FC);
  stage->set_from_layer(net.layer(begin).name());
  stage->set_to_layer(net.layer(end - 1).name());
}

/// Adds names of layers; those of all phases that have one name come together.
void AddLayers(const caffe::NetParameter& net, const std::set<int>& layers, StageConfig* stage) {
  std::set<std::string> added(stage->layer().begin(), stage->layer().end());
  for (const int i : layers) {
    if (added.insert(net.layer(i).name()).second) stage->add_layer(net.layer(i).name());
  }
}

/// An FC stage of layers that need not lie together.
void AddNamedStage(const std::string& name, const caffe::NetParameter& net, const std::set<int>& layers,
                   RoutingTableConfig* config) {
  StageConfig* const stage = config->add_stage();
  stage->set_name(name);
  stage->set_kind(StageConfig::FC);
  AddLayers(net, layers, stage);
}

/// The last layer of the net that is not one of `layers`.
int LastOutside(const caffe::NetParameter& net, const std::set<int>& layers) {
  int last = net.layer_size() - 1;
  while (last > 0 && layers.contains(last)) --last;
  return last;
}

/// "fc", or of several "fc_a", "fc_b" and on to "fc_z", "fc_a1".
std::string StageNameOf(const char* kind, size_t i, size_t count) {
  if (count == 1) return kind;
  const std::string round = i < 26 ? "" : std::to_string(i / 26);
  return Format("%s_%c%s", kind, static_cast<char>('a' + i % 26), round.c_str());
}

int ChooseMicroBatches(const TableRequest& request, const caffe::NetParameter& net) {
  if (UsesBatchStatistics(net)) return 1;
  if (request.fc.empty() && request.conv.size() == 1) return 1;  // nothing to overlap
  const int64_t batch = std::max<int64_t>(1, BatchSizeOf(net, caffe::TRAIN).samples);
  const int64_t share = request.per_replica ? batch : batch / request.conv[0];
  return static_cast<int>(std::clamp(share / kMinSamplesOfMicroBatch, int64_t{1}, kMaxMicroBatches));
}

/// Gives nodes their hosts and devices, and ports that differ on each host.
class Addresses {
 public:
  Addresses(std::vector<NodePlace> places, int port) : places_(std::move(places)), port_(port) {}

  void Assign(NodeConfig* node) {
    const NodePlace& place = places_[given_++ % places_.size()];
    node->set_host(place.host);
    node->set_port(port_ + used_ports_[place.host]++);
    if (place.device != "cpu") node->set_device(place.device);
  }

 private:
  const std::vector<NodePlace> places_;
  const int port_;
  size_t given_ = 0;
  std::map<std::string, int> used_ports_;
};

/// Nodes of the parts [begin, end) of a stage.
void AddNodes(const std::string& prefix, int stage, int begin, int end, Addresses* addresses,
              RoutingTableConfig* config) {
  for (int index = begin; index < end; ++index) {
    NodeConfig* node = config->add_node();
    node->set_name(prefix + std::to_string(index));
    node->set_stage(stage);
    node->set_index(index);
    addresses->Assign(node);
  }
}

/// A shard of stage `stage` on each of the first conv nodes.
void AddShardsBeside(int stage, int count, RoutingTableConfig* config) {
  for (int index = 0; index < count; ++index) {
    PartConfig* const part = config->mutable_node(index)->add_part();
    part->set_stage(stage);
    part->set_index(index);
  }
}

/// @param begin where the stage's layers begin, unless they are `branches`.
Status AddSideClassifiers(const caffe::NetParameter& net, int begin, const std::set<int>& branches,
                          StageConfig* stage) {
  std::set<int> layers;
  for (const int layer : SideClassifiers(net, branches.empty() ? begin : net.layer_size())) {
    if (!branches.contains(layer)) layers.insert(layer);
  }
  if (layers.empty()) {
    return InvalidArgument(
        "--side_classifiers: the net has none in front of layer \"%s\"; expected InnerProducts there that lead to a "
        "loss of their own",
        net.layer(branches.empty() ? begin : *branches.begin()).name().c_str());
  }
  AddLayers(net, layers, stage);
  return OkStatus();
}

Status CheckRequest(const TableRequest& request) {
  if (request.conv.empty()) return InvalidArgument("--conv is empty; expected N, or N1,N2 for two conv stages");
  for (const int replicas : request.conv) {
    if (replicas < 1) return InvalidArgument("--conv is %d; expected at least 1", replicas);
  }
  if (!request.shares.empty() && std::ssize(request.shares) != request.conv[0]) {
    return InvalidArgument("--shares names %zu share(s) for %d conv node(s)", request.shares.size(), request.conv[0]);
  }
  for (const auto& [asked, flag] : {std::pair(request.beside, "beside"), std::pair(request.ps > 0, "ps")}) {
    if (asked && request.conv.size() > 1) {
      return InvalidArgument("--%s goes with one conv stage, and --conv asks for %zu", flag, request.conv.size());
    }
  }
  if (request.ps < 0) return InvalidArgument("--ps is %d; expected a number of parameter servers", request.ps);
  for (int shards : request.fc) {
    if (shards < 1)
      return InvalidArgument("--fc has a stage of %d nodes; expected at least 1 (or --fc=0 alone)", shards);
  }
  for (const auto& [asked, flag] : {std::pair(request.side_classifiers, "side_classifiers"),
                                    std::pair(request.beside, "beside"), std::pair(request.scattered, "scattered")}) {
    if (asked && request.fc.empty()) return InvalidArgument("--%s goes with an FC stage, and --fc asks for none", flag);
  }
  if (request.micro_batches < 0) {
    return InvalidArgument("--micro_batches is %d; expected at least 1, or 0 to choose it automatically",
                           request.micro_batches);
  }
  return OkStatus();
}

std::string Fields(const google::protobuf::Message& message, int indent = 0) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetInitialIndentLevel(indent);
  std::string lines;
  printer.PrintToString(message, &lines);
  return lines;
}

/// One field of the table, a line for each of its own.
std::string EntryText(const char* field, const google::protobuf::Message& message) {
  return std::string(field) + " {\n" + Fields(message, 1) + "}\n";
}

const char* Role(const StageConfig& stage) {
  return stage.kind() == StageConfig::CONV ? "conv" : stage.kind() == StageConfig::PS ? "ps" : "fc";
}

void AddServers(int servers, Addresses* addresses, RoutingTableConfig* config) {
  if (servers == 0) return;
  StageConfig* const served = config->mutable_stage(0);
  served->set_exchange(StageConfig::PARAMETER_SERVER);
  StageConfig* const stage = config->add_stage();
  stage->set_name("ps");
  stage->set_kind(StageConfig::PS);
  stage->set_serves(config->stage(0).name());
  AddNodes("ps", config->stage_size() - 1, 0, servers, addresses, config);
}

Status AddSplits(const TableRequest& request, RoutingTableConfig* config) {
  for (const std::string& item : request.split) {
    const size_t colon = item.rfind(':');
    SplitConfig::By by = SplitConfig::OUTPUTS;
    if (colon == std::string::npos || !SplitConfig::By_Parse(item.substr(colon + 1), &by)) {
      return InvalidArgument("--split has \"%s\"; expected LAYER:OUTPUTS, LAYER:INPUTS or LAYER:NONE", item.c_str());
    }
    SplitConfig* const split = config->add_split();
    split->set_layer(item.substr(0, colon));
    split->set_by(by);
  }
  for (StageConfig& stage : *config->mutable_stage()) {
    const bool sharded = request.scattered && stage.kind() == StageConfig::FC;
    if (sharded) stage.set_boundary(StageConfig::SCATTERED);
  }
  return OkStatus();
}

/// "a" to "b", "c": what lies together in the net.
std::string LayersOfStage(const std::vector<int>& stage_of_layer, int stage, const caffe::NetParameter& net) {
  std::string text;
  for (int begin = 0; begin < net.layer_size(); ++begin) {
    if (stage_of_layer[begin] != stage) continue;
    int end = begin;
    while (end + 1 < net.layer_size() && stage_of_layer[end + 1] == stage) ++end;
    text += (text.empty() ? "\"" : ", \"") + net.layer(begin).name() + "\"";
    if (end > begin) text += " to \"" + net.layer(end).name() + "\"";
    begin = end;
  }
  return text;
}

/// What the nodes of a stage are, and of which layers.
std::string StageText(const RoutingTableConfig& config, int stage, const std::vector<int>& stage_of_layer,
                      const caffe::NetParameter& net) {
  const StageConfig& entry = config.stage(stage);
  const std::string name = StageName(config, stage);
  if (entry.kind() == StageConfig::PS) {
    return Format("stage \"%s\": the parameters of stage \"%s\", a server on each of\n", name.c_str(),
                  entry.serves().c_str());
  }
  const long count = std::count(stage_of_layer.begin(), stage_of_layer.end(), stage);
  if (count == 0) return "";
  return Format("stage \"%s\": layers %s (%ld), %s\n", name.c_str(), LayersOfStage(stage_of_layer, stage, net).c_str(),
                count, entry.kind() == StageConfig::CONV ? "a replica on each of" : "a shard on each of");
}

}  // namespace

StatusOr<RoutingTableConfig> MakeTable(const TableRequest& request, const caffe::NetParameter& net) {
  HP_RETURN_IF_ERROR(CheckRequest(request));
  const bool one_cut = request.conv.size() == 1 && request.fc.size() == 1 && request.cut.empty();
  const std::set<int> branches = one_cut ? BranchesOfTail(net) : std::set<int>();
  std::vector<int> bounds;
  if (!branches.empty()) {
    bounds = {LastOutside(net, branches) + 1};
  } else {
    HP_ASSIGN_OR_RETURN(bounds, request.cut.empty() ? ChooseCuts(request, net) : GivenCuts(request, net));
  }
  bounds.push_back(net.layer_size());
  RoutingTableConfig config;
  config.set_solver(request.solver);
  if (!request.job.empty()) config.set_job(request.job);
  if (request.tls) config.mutable_transport()->set_tls(true);
  config.set_micro_batches(request.micro_batches > 0 ? request.micro_batches : ChooseMicroBatches(request, net));
  if (request.staleness != 0) config.set_staleness(request.staleness);
  if (request.precision != RoutingTableConfig::FP32) config.set_precision(request.precision);
  if (request.wire_precision != RoutingTableConfig::FP32) config.set_wire_precision(request.wire_precision);
  if (request.convolution_engines != RoutingTableConfig::HEURISTIC) {
    config.set_convolution_engines(request.convolution_engines);
  }
  if (request.jpeg_decoder != RoutingTableConfig::HOST) config.set_jpeg_decoder(request.jpeg_decoder);
  if (request.per_replica) config.set_batch(RoutingTableConfig::PER_REPLICA);
  HP_ASSIGN_OR_RETURN(std::vector<NodePlace> places, PlacesOf(request.hosts));
  Addresses addresses(std::move(places), request.port);
  int begin = 0;
  for (size_t i = 0; i < request.conv.size(); ++i) {
    const int stage = config.stage_size();
    const std::string name = StageNameOf("conv", i, request.conv.size());
    AddStage(name, true, net, begin, bounds[stage], &config);
    AddNodes(name, stage, 0, request.conv[i], &addresses, &config);
    begin = bounds[stage];
  }
  for (size_t i = 0; i < request.shares.size(); ++i)
    config.mutable_node(static_cast<int>(i))->set_share(request.shares[i]);
  for (size_t i = 0; i < request.fc.size(); ++i) {
    const int stage = config.stage_size();
    const std::string name = StageNameOf("fc", i, request.fc.size());
    if (branches.empty()) {
      AddStage(name, false, net, begin, bounds[stage], &config);
    } else {
      AddNamedStage(name, net, branches, &config);
    }
    if (request.side_classifiers && i == 0) {
      HP_RETURN_IF_ERROR(AddSideClassifiers(net, begin, branches, config.mutable_stage(stage)));
    }
    begin = bounds[stage];
    const int beside = request.beside ? std::min(request.fc[i], request.conv[0]) : 0;
    AddShardsBeside(stage, beside, &config);
    AddNodes(name, stage, beside, request.fc[i], &addresses, &config);
  }
  AddServers(request.ps, &addresses, &config);
  HP_RETURN_IF_ERROR(AddSplits(request, &config));
  std::vector<std::string> faults = CheckStructure(config);
  if (faults.empty()) faults = CheckNetFit(config, net);
  if (faults.empty()) return config;
  std::string text = "cannot make a valid table:";
  for (const std::string& fault : faults) text += (faults.size() > 1 ? "\n  " : " ") + fault;
  return Status(StatusCode::kInvalidArgument, text);
}

std::string TableText(const RoutingTableConfig& config, const std::string& comment) {
  std::string text;
  for (size_t begin = 0; begin < comment.size();) {
    const size_t end = std::min(comment.find('\n', begin), comment.size());
    text += "# " + comment.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  RoutingTableConfig job = config;
  job.clear_stage();
  job.clear_node();
  text += "\n# micro_batches: micro-batches per replica and batch.\n" + Fields(job);
  text +=
      "\n# Stages: layers that are placed together. CONV: every node is a replica; FC: every node is a shard.\n"
      "# PS: no layers; every node is a parameter server.\n";
  for (const StageConfig& stage : config.stage()) text += EntryText("stage", stage);
  text += "\n# Nodes, in rank order. Optional fields: pool_size, threads, memory_mb, device.\n";
  for (const NodeConfig& node : config.node()) text += EntryText("node", node);
  return text;
}

std::string DescribeTable(const RoutingTableConfig& config, const caffe::NetParameter& net) {
  std::string text;
  std::vector<std::string> faults;
  const std::vector<int> stage_of_layer = AssignLayers(config, net, &faults);
  for (int stage = 0; stage < config.stage_size(); ++stage) {
    const std::string line = StageText(config, stage, stage_of_layer, net);
    if (line.empty()) continue;
    text += line;
    for (const NodeConfig& node : config.node()) {
      const std::vector<StagePart> parts = PartsOf(node);
      if (std::none_of(parts.begin(), parts.end(), [stage](const StagePart& p) { return p.stage == stage; })) continue;
      text += Format("  %s  --role=%s  %s%s\n", node.name().c_str(), Role(config.stage(node.stage())),
                     HostPort(node.host(), node.port()).c_str(),
                     node.device() == "cpu" ? "" : ("  " + node.device()).c_str());
    }
  }
  const BatchSize batch = BatchSizeOf(net, caffe::TRAIN);
  if (batch.samples <= 0) return text;
  const bool global = config.batch() == RoutingTableConfig::GLOBAL;
  int64_t replicas = 0, shares = 0, least = std::numeric_limits<int64_t>::max();
  for (const NodeConfig& node : config.node()) {
    for (const StagePart& part : PartsOf(node)) {
      if (part.stage != 0) continue;
      ++replicas;
      shares += node.share();
      least = std::min<int64_t>(least, node.share());
    }
  }
  const int64_t samples = global ? batch.samples : batch.samples * replicas;
  const char* const statistics = UsesBatchStatistics(net) ? ", by whose statistics layers normalise" : "";
  return text + Format("batch: %lld samples, %lld replica(s) x %d micro-batch(es) of %lld or more%s\n",
                       static_cast<long long>(samples), static_cast<long long>(replicas), config.micro_batches(),
                       static_cast<long long>(samples * least / (shares * config.micro_batches())), statistics);
}

}  // namespace hp
