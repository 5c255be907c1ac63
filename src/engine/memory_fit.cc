// All parts but the solvers are fixed by the plan, so the pool is what can give way: it is made smaller by one solver
// until the sum fits. Fewer solvers hide less of the network's latency and change no bit. A pool that the table fixes
// is not changed, since its author asked for it: what does not fit is an error before anything is allocated.
#include "engine/memory_fit.h"

#include "base/format.h"
#include "engine/host_bridge.h"
#include "engine/input_prefetcher.h"
#include "engine/updater.h"

#include <algorithm>

namespace hp {
namespace {

size_t DeviceOnlyBytes(const NodeModel& model, int pool_size) {
  if (model.on_host()) return 0;
  // What an allocation takes beyond its bytes, at the least: the device keeps enough free for larger roundings.
  constexpr size_t kBlock = 256;
  size_t bytes = HostBridge::DeviceBytes(BridgeNeedsOf(model, pool_size)) + InputPrefetcher::DeviceBytes(model) +
                 Updater::DeviceBytes(model) + 8 * kBlock;
  for (const StoredParam& param : model.stored_params()) {
    if (param.frozen()) bytes += param.local().count() * sizeof(float) + kBlock;
  }
  for (const NetStep& step : model.any_net(true).steps()) {
    if (step.op != nullptr && step.op->packed_bytes() > 0) bytes += step.op->packed_bytes() + kBlock;
  }
  return bytes;
}

size_t MatrixBytes(const NodeModel& model) {
  size_t bytes = 0;
  for (size_t row : model.any_net(true).update_row_bytes()) bytes += row * model.schedule().update_rows();
  return bytes;
}

/// What bounds the node's memory: the table's limit, or what its device has free; 0: nothing.
size_t MemoryLimit(const NodeModel& model) {
  const size_t table = model.node().memory_bytes;
  const size_t device = model.on_host() ? 0 : model.device()->free_bytes();
  return table == 0 || device == 0 ? std::max(table, device) : std::min(table, device);
}

Status DoesNotFit(const NodeModel& model, const NodeMemory& memory, size_t limit) {
  const bool by_table = static_cast<size_t>(model.node().memory_bytes) == limit;
  const std::string allows = by_table ? "its memory_mb allows" : model.device()->name() + " has free";
  return InvalidArgument("%s: node %s needs %s, %s %s; %s", model.table().path().c_str(), model.node().name.c_str(),
                         MegaBytes(memory.bytes()).c_str(), allows.c_str(), MegaBytes(limit).c_str(),
                         memory.Describe().c_str());
}

NodeMemory MemoryOf(const NodeModel& model, int pool_size) {
  NodeMemory memory;
  memory.pool_size = pool_size;
  memory.parameters = ParamStore::BytesFor(model.stored_params());
  memory.solver = model.arena_bytes();
  memory.matrices = MatrixBytes(model);
  memory.scratch = model.scratch_bytes();
  memory.device_only = DeviceOnlyBytes(model, pool_size);
  return memory;
}

}  // namespace

size_t NodeMemory::bytes() const {
  constexpr size_t kPage = 4096;
  return parameters + pool_size * ((solver + kPage - 1) / kPage * kPage) + scratch + matrices + device_only;
}

std::string NodeMemory::Describe() const {
  std::string text = Format("memory: parameters %s, %d solvers of %s each, rows of deferred gradients %s, scratch %s",
                            MegaBytes(parameters).c_str(), pool_size, MegaBytes(solver).c_str(),
                            MegaBytes(matrices).c_str(), MegaBytes(scratch).c_str());
  if (device_only > 0) text += ", input and copies " + MegaBytes(device_only);
  return text;
}

StatusOr<NodeMemory> FitMemory(const NodeModel& model) {
  const size_t limit = MemoryLimit(model);
  NodeMemory memory = MemoryOf(model, model.plan().pool_size);
  if (limit == 0) return memory;
  if (model.node().pool_size == 0) {
    while (memory.pool_size > 1 && memory.bytes() > limit) memory = MemoryOf(model, memory.pool_size - 1);
  }
  if (memory.bytes() > limit) return DoesNotFit(model, memory, limit);
  return memory;
}

}  // namespace hp
