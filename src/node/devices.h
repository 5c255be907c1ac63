#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "proto/routing.pb.h"
#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/rendezvous.h"
#include "tensor/device.h"
#include "transport/copy/device_copier.h"
#include "transport/transport.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace hp {

/// What a node computes on.
struct NodeDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<Backend> backend;  ///< its ops
  /// What a transport needs to reach memory of the device; null: it can't.
  std::function<DeviceMemory(std::span<std::byte> memory)> describe;
  /// Joins replicas that all compute on such devices. Null: they exchange through the host.
  std::function<StatusOr<std::unique_ptr<Collectives>>(int rank, int size, Rendezvous* rendezvous)> connect;
  /// The device as it copies into the memory of others of its host; null: it is none of those that can.
  std::unique_ptr<DeviceCopier> copier;
};

using Precision = RoutingTableConfig::Precision;

/// The device of a routing table's node: "cpu" or "cuda:N". A CPU always computes in float32.
/// @return kNotFound: no such GPU here; kFailedPrecondition: no driver, or a build without CUDA.
StatusOr<NodeDevice> OpenNodeDevice(const std::string& name, Precision precision);

/// What this host has to compute on, a line each, or why a GPU can't be used.
std::string DescribeDevices();

}  // namespace hp
