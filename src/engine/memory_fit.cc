// All parts but the solvers are fixed by the plan, so the pool is what can give way: it is made smaller by one solver
// until the sum fits. Fewer solvers hide less of the network's latency and change no bit. A pool that the table fixes
// is not changed, since its author asked for it: what does not fit is an error before anything is allocated. Sums are
// taken in 128 bits, since a table may ask for anything.
#include "engine/memory_fit.h"

#include "base/format.h"
#include "engine/host_bridge.h"
#include "engine/input_prefetcher.h"
#include "engine/updater.h"
#include "proto/solver_type.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace hp {
namespace {

using Wide = unsigned __int128;

size_t Narrow(Wide bytes) { return static_cast<size_t>(std::min<Wide>(bytes, std::numeric_limits<size_t>::max())); }

// What an allocation takes beyond its bytes, at the least: a device keeps enough free for larger roundings.
constexpr size_t kBlock = 256;

/// What NCCL takes for a communicator, which is made later: up to 1 GB was measured with connections made at its start,
/// as ours are (NVIDIA/nccl, pull request 2366).
constexpr size_t kNcclBytes = size_t{1} << 30;

size_t DeviceOnlyBytes(const NodeModel& model, int pool_size) {
  if (model.on_host()) return 0;
  size_t bytes = HostBridge::DeviceBytes(BridgeNeedsOf(model, pool_size)) + InputPrefetcher::DeviceBytes(model) +
                 Updater::DeviceBytes(model) + 8 * kBlock;
  for (const StoredParam& param : model.stored_params()) {
    if (param.frozen()) bytes += param.local().count() * sizeof(float) + kBlock;
  }
  return bytes;
}

size_t PackedBytes(const NodeModel& model) {
  size_t bytes = 0;
  for (const NetStep& step : model.any_net(caffe::TRAIN).steps()) {
    if (step.op != nullptr && step.op->packed_bytes() > 0) bytes += step.op->packed_bytes() + kBlock;
  }
  return bytes;
}

size_t MatrixBytes(const NodeModel& model) {
  Wide bytes = 0;
  for (size_t row : model.any_net(caffe::TRAIN).update_row_bytes()) bytes += Wide{row} * model.schedule().update_rows();
  return Narrow(bytes);
}

size_t ImageBytes(const NodeModel& model) {
  Wide bytes = 0;
  for (const Phase phase : model.phases()) {
    size_t most = 0;
    for (const NodeNet* net : model.AllNets(phase)) most = std::max(most, net->images_bytes());
    bytes += Wide{most};  // each reads ahead by itself
  }
  return Narrow(bytes);
}

NodeMemory MemoryOf(const NodeModel& model, int pool_size) {
  NodeMemory memory;
  memory.pool_size = pool_size;
  memory.versions = model.table().staleness() + 1;
  memory.parameters = ParamStore::BytesFor(model.stored_params(), memory.versions);
  memory.solver = model.arena_bytes() + model.port_bytes();
  memory.matrices = MatrixBytes(model);
  memory.scratch = model.scratch_bytes();
  memory.packed = PackedBytes(model) * static_cast<size_t>(memory.versions);
  memory.device_only = DeviceOnlyBytes(model, pool_size);
  if (!model.on_host() && !model.table().ReplicasByNccl(model.rank()).empty()) memory.nccl = kNcclBytes;
  memory.images = ImageBytes(model);
  return memory;
}

/// Memory that is more than something allows.
struct Excess {
  size_t needed = 0, allowed = 0;  ///< bytes
  std::string limit;               ///< MemoryRoom::limit
  std::string advice;              ///< MemoryRoom::advice
};

std::optional<Excess> OverTable(const NodeInfo& node, size_t bytes) {
  const size_t allowed = static_cast<size_t>(node.memory_bytes);
  if (allowed == 0 || bytes <= allowed) return std::nullopt;
  return Excess{bytes, allowed, "its memory_mb allows", ""};
}

std::optional<Excess> OverRoom(const MemoryRoom& room, size_t bytes) {
  const size_t allowed = static_cast<size_t>(room.bytes);
  if (bytes <= allowed) return std::nullopt;
  return Excess{bytes, allowed, room.limit, room.advice};
}

std::optional<Excess> OverAny(const NodeModel& model, const NodeMemory& memory, const MemoryRoom& host) {
  if (std::optional<Excess> excess = OverTable(model.node(), memory.bytes())) return excess;
  if (model.on_host()) return OverRoom(host, memory.host_bytes(true));
  const size_t free = model.device()->free_bytes();
  if (free > 0 && memory.bytes() > free) return Excess{memory.bytes(), free, model.device()->name() + " has free", ""};
  return OverRoom(host, memory.host_bytes(false));
}

constexpr char kForNodes[] = "take more nodes or a smaller batch_size", kForTests[] = "take a smaller batch_size";

Status DoesNotFit(const std::string& who, const Excess& excess, const std::string& parts, const char* remedy) {
  return InvalidArgument("%s needs %s, %s %s; %s; %s%s%s", who.c_str(), MegaBytes(excess.needed).c_str(),
                         excess.limit.c_str(), MegaBytes(excess.allowed).c_str(), parts.c_str(), remedy,
                         excess.advice.empty() ? "" : "; or ", excess.advice.c_str());
}

std::string Who(const RoutingTable& table, Rank rank) { return table.path() + ": node " + table.node(rank).name; }

/// The least that a node of `plan` can do with.
struct Least {
  int versions = 1;                 ///< of parameters that learn
  Wide parameters = 0, tensor = 0;  ///< bytes of all parameters, and of the largest tensor of `rows` samples
  std::string layer;                ///< that makes it

  size_t bytes() const { return Narrow(parameters + tensor); }
  std::string Describe() const {
    const std::string kept = versions > 1 ? Format(" (%d versions)", versions) : "";
    return "parameters " + MegaBytes(Narrow(parameters)) + kept + ", top of layer \"" + layer + "\" " +
           MegaBytes(Narrow(tensor)) + ", and more";
  }
};

/// Images are left out: they are not among a node's own tensors.
/// @param shapes of the net's blobs for one sample. @param histories of parameters that learn; 0: none learns.
/// @param element least bytes of an element of a tensor. @param versions of the values that learn.
Least LeastOf(const NodePlan& plan, const std::vector<Shape>& shapes, int64_t rows, int histories, size_t element,
              int versions = 1) {
  Least least;
  least.versions = versions;
  for (const ParamPlan& param : plan.params()) {
    const int values = histories > 0 && param.spec.lr_mult != 0 ? versions : 1;
    const int kept = param.spec.has_histories() ? histories : 0;
    least.parameters += Wide(param.block.count()) * sizeof(float) * (values + kept);
  }
  for (const LayerPlan& layer : plan.layers()) {
    const GraphLayer& entry = plan.graph().layers()[layer.layer];
    if (entry.source || entry.is_statistic()) continue;  // a statistic is one number, whatever the rows
    const Shape& shape = shapes[entry.tops[0]];
    const int64_t each = shape.rank() > 1 ? shape.With(1, layer.columns()).count(1) : 1;
    const Wide bytes = Wide(each) * element * Wide(rows);
    if (bytes <= least.tensor) continue;
    least.tensor = bytes;
    least.layer = entry.traits.name();
  }
  return least;
}

Least LeastOf(const JobPlan& job, Rank rank, Phase phase) {
  // GPUs may have 16 bits, and so may CPUs in BF16, which AUTO may become.
  const RoutingTableConfig::Precision precision = job.table().config().precision();
  const bool halves = job.table().node(rank).device != "cpu" || precision == RoutingTableConfig::BF16 ||
                      precision == RoutingTableConfig::AUTO;
  const size_t element = halves ? 2 : 4;
  const std::vector<int64_t> rows = job.schedule().RowCounts(phase, job.ShareOf(rank));
  return LeastOf(job.node(rank, phase), job.shapes(phase), rows.empty() ? 0 : rows.back(),
                 phase.train() ? HistoriesOf(job.solver()) : 0, element, job.table().staleness() + 1);
}

}  // namespace

size_t NodeMemory::bytes() const {
  constexpr size_t kPage = 4096;
  const Wide solvers = Wide(pool_size) * ((Wide{solver} + kPage - 1) / kPage * kPage);
  return Narrow(Wide{parameters} + solvers + scratch + matrices + packed + device_only + nccl);
}

size_t NodeMemory::image_bytes() const { return Narrow(Wide{images} * ring()); }

size_t NodeMemory::host_bytes(bool on_host) const {
  return Narrow((on_host ? Wide{bytes()} : Wide{0}) + image_bytes() + exchange);
}

std::string NodeMemory::Describe() const {
  const std::string kept = versions > 1 ? Format(" (%d versions)", versions) : "";
  std::string text = Format("memory: parameters %s%s, %d solvers of %s each, rows of deferred gradients %s, scratch %s",
                            MegaBytes(parameters).c_str(), kept.c_str(), pool_size, MegaBytes(solver).c_str(),
                            MegaBytes(matrices).c_str(), MegaBytes(scratch).c_str());
  if (packed > 0) text += ", packed weights " + MegaBytes(packed);
  if (device_only > 0) text += ", input and copies " + MegaBytes(device_only);
  if (nccl > 0) text += ", NCCL " + MegaBytes(nccl);
  if (images > 0) text += ", images " + MegaBytes(image_bytes());
  if (exchange > 0) text += ", exchange " + MegaBytes(exchange);
  return text;
}

Status CheckPlannedMemory(const JobPlan& job, Rank rank, const MemoryRoom& host) {
  for (const Phase phase : job.phases()) {
    const Least least = LeastOf(job, rank, phase);
    std::optional<Excess> excess = OverTable(job.table().node(rank), least.bytes());
    if (!excess) excess = OverRoom(host, least.bytes());
    if (excess) return DoesNotFit(Who(job.table(), rank), *excess, least.Describe(), kForNodes);
  }
  return OkStatus();
}

StatusOr<NodeMemory> FitMemory(const NodeModel& model, size_t exchange, const MemoryRoom& host, size_t decoder) {
  NodeMemory memory = MemoryOf(model, model.plan().pool_size);
  memory.device_only += decoder;
  memory.exchange = exchange;
  std::optional<Excess> excess = OverAny(model, memory, host);
  while (excess && model.node().pool_size == 0 && memory.pool_size > 1) {
    memory.device_only = DeviceOnlyBytes(model, --memory.pool_size) + decoder;
    excess = OverAny(model, memory, host);
  }
  if (excess) return DoesNotFit(Who(model.table(), model.rank()), *excess, memory.Describe(), kForNodes);
  return memory;
}

Status CheckHostMemory(const RoutingTable& table, const std::vector<HostShare>& shares, const MemoryRoom& room) {
  Wide sum = 0;
  std::string parts;
  for (const HostShare& share : shares) {
    sum += share.bytes;
    parts += (parts.empty() ? "" : ", ") + table.node(share.rank).name + " " + MegaBytes(share.bytes);
  }
  const std::optional<Excess> excess = OverRoom(room, Narrow(sum));
  if (!excess) return OkStatus();
  return InvalidArgument(
      "%s: the %zu nodes of host \"%s\" need %s together, %s %s: %s too little; %s; put some on other hosts, or take a "
      "smaller pool_size or batch_size%s%s",
      table.path().c_str(), shares.size(), table.node(shares.front().rank).host.c_str(),
      MegaBytes(excess->needed).c_str(), excess->limit.c_str(), MegaBytes(excess->allowed).c_str(),
      MegaBytes(excess->needed - excess->allowed).c_str(), parts.c_str(), excess->advice.empty() ? "" : "; or ",
      excess->advice.c_str());
}

Status CheckPlannedHostMemory(const JobPlan& job, const std::vector<Rank>& ranks, const MemoryRoom& room) {
  std::vector<HostShare> shares;
  for (const Rank rank : ranks) {
    if (job.table().node(rank).device == "cpu") shares.push_back({rank, LeastOf(job, rank, caffe::TRAIN).bytes()});
  }
  return shares.empty() ? OkStatus() : CheckHostMemory(job.table(), shares, room);
}

Status CheckTestMemory(const NodeNet& net, size_t parameters, int ring, const MemoryRoom& host) {
  const Wide images = Wide{net.images_bytes()} * ring;
  const Wide bytes = Wide{parameters} + net.arena_bytes() + net.scratch_bytes() + images;
  const std::optional<Excess> excess = OverRoom(host, Narrow(bytes));
  if (!excess) return OkStatus();
  return DoesNotFit("the test", *excess,
                    "memory: parameters " + MegaBytes(parameters) + ", activations " + MegaBytes(net.arena_bytes()) +
                        ", images " + MegaBytes(Narrow(images)),
                    kForTests);
}

Status CheckPlannedTest(const NodePlan& plan, int64_t rows, const MemoryRoom& host) {
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, plan.graph().Shapes(plan.sample(), 1));
  const Least least = LeastOf(plan, shapes, rows, 0, 2);
  const std::optional<Excess> excess = OverRoom(host, least.bytes());
  return excess ? DoesNotFit("the test", *excess, least.Describe(), kForTests) : OkStatus();
}

}  // namespace hp
