// A solver's part of the memory holds its staged ports one behind the other, in the order of the net's ports, each
// aligned (StagedBytes). A port has a place if the tensor of any replica passes through it, so the places of a net
// do not depend on the micro-batch; all nets share the part, which has the size of the largest.
// The transport writes into and reads from these places while the copies between them and the solver's arena are
// ordered by the device: in before the task's work, out behind it.
#include "engine/port_staging.h"

#include "engine/staged_bytes.h"

#include <algorithm>

namespace hp {

StatusOr<std::unique_ptr<PortStaging>> PortStaging::Create(const NodeModel& model, int pool_size, Device* device,
                                                           const std::function<bool(Rank peer)>& reaches) {
  std::unique_ptr<PortStaging> staging(new PortStaging(model, device));
  for (Rank rank = 0; rank < model.table().size(); ++rank) staging->staged_.push_back(!reaches(rank));
  for (const Phase phase : model.phases()) {
    for (const NodeNet* net : model.AllNets(phase)) {
      size_t bytes = 0;
      for (size_t port = 0; port < net->plan().ports().size(); ++port) {
        for (Rank peer : net->plan().ports()[port].peers) staging->any_direct_ |= !staging->staged_[peer];
        bytes += staging->Bytes(*net, static_cast<int>(port));
      }
      staging->solver_bytes_ = std::max(staging->solver_bytes_, bytes);
    }
  }
  HP_ASSIGN_OR_RETURN(staging->memory_, device->AllocateHost(pool_size * staging->solver_bytes_));
  return staging;
}

/// Of a port that is staged for some micro-batch.
size_t PortStaging::Bytes(const NodeNet& net, int port) const {
  const std::vector<Rank>& peers = net.plan().ports()[port].peers;
  const bool ever = std::any_of(peers.begin(), peers.end(), [this](Rank peer) { return staged_[peer]; });
  return ever ? StagedBytes(net.buffer_bytes(net.port_buffer(port))) : 0;
}

std::span<std::byte> PortStaging::Place(int solver, const NodeNet& net, int port) const {
  size_t offset = solver * solver_bytes_;
  for (int before = 0; before < port; ++before) offset += Bytes(net, before);
  return memory_.span().subspan(offset, net.buffer_bytes(net.port_buffer(port)));
}

std::vector<int> PortStaging::PortsOf(const Task& task, const NodeNet& net, bool gradients, bool landing) const {
  std::vector<int> ports;
  for (int i = 0; i < static_cast<int>(net.plan().ports().size()); ++i) {
    const PortPlan& port = net.plan().ports()[i];
    const bool of_task = port.landing == landing && port.gradient == gradients && port.segment == task.segment;
    if (of_task && staged(task.id, i)) ports.push_back(i);
  }
  return ports;
}

void PortStaging::Bring(const Task& task, const NodeNet& net, const NetRun& run, bool gradients) {
  for (int port : PortsOf(task, net, gradients, true)) {
    const std::span<std::byte> from = Place(task.solver, net, port);
    device_->Upload(Device::kCopyIn, net.BufferSpan(net.port_buffer(port), run).data(), from.data(), from.size());
  }
}

void PortStaging::Send(const Task& task, const NodeNet& net, const NetRun& run, bool gradients) {
  for (int port : PortsOf(task, net, gradients, false)) {
    const std::span<std::byte> to = Place(task.solver, net, port);
    device_->Download(Device::kCopyOut, to.data(), net.BufferSpan(net.port_buffer(port), run).data(), to.size());
  }
}

}  // namespace hp
