#pragma once

#include "backend/backend.h"
#include "backend/engine_choices.h"
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

using Precision = RoutingTableConfig::Precision;

/// What a node computes on, and how others reach it. Of the host's processors no transport and no peer needs to know
/// more. Owned by the node; outlives all memory that was allocated on it.
struct NodeDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<Backend> backend;  ///< makes ops for `device`; null after OpenNodeDevice with AUTO
  /// Describes memory of the device for a transport (Transport::RegisterDevice). Null: no transport reaches it.
  std::function<DeviceMemory(std::span<std::byte> memory)> describe;
  /// Connects the `size` replicas of a stage that all compute on such devices; `rank` is ours among them. Blocks until
  /// all have called it. Null: they exchange through the host. @return as ConnectNccl.
  std::function<StatusOr<std::unique_ptr<Collectives>>(int rank, int size, Rendezvous* rendezvous)> connect;
  /// Copies from this device into the memory of others of its host. Null: it can't.
  std::unique_ptr<DeviceCopier> copier;
  /// Why it has no products of bfloat16 ("the processors have neither AVX512_BF16 nor AMX"); empty: it has.
  std::string lacks_bfloat16;
  /// What makes `backend` when AUTO is decided. @param precision not AUTO. @return as OpenNodeDevice.
  std::function<StatusOr<std::unique_ptr<Backend>>(Precision precision)> make_backend;
};

/// Opens the device of a routing table's node, for this process.
/// @param name "cpu"; "cuda:N", GPU N of this host as DescribeDevices lists them; "cuda", the one that this process's
/// scheduler gave to it (OwnGpu).
/// @param precision how products are computed; by a CPU as OpenCpu says. AUTO: there is no backend yet.
/// @param engines where a GPU keeps which engines its convolutions use, and which it times once (MakeTimedGpuLibrary);
/// must outlive the device. Null: none is timed. A CPU has none.
/// @return kInvalidArgument: another name, or nobody says which GPU is ours; kNotFound: no such GPU here;
/// kFailedPrecondition: no driver, or a build without CUDA; kResourceExhausted: the GPU has no memory left for the
/// backend's own.
StatusOr<NodeDevice> OpenNodeDevice(const std::string& name, Precision precision, EngineChoices* engines = nullptr);

/// Ahead of OpenNodeDevice in a node whose gradients NCCL sums, unless the user's environment says otherwise: all
/// kernels are loaded at once, as to load one at its first launch may wait for the sums that run on the GPU, which wait
/// for other nodes, which may wait for that launch; and a queue of the GPU's does not wait for another for want of
/// connections. Before the process has threads that read the environment.
void PrepareSumsOnGpus();

/// OpenNodeDevice for a program that is no node, and decides its precision by itself, as PrecisionAlone says.
/// @return also what PrecisionAlone does.
StatusOr<NodeDevice> OpenDeviceAlone(const std::string& name, Precision precision);

/// The host's processors. With BF16 convolutions take factors of bfloat16 where the processors have instructions for
/// it (lacks_bfloat16); all else, and with any other precision all, is float32.
NodeDevice OpenCpu(Precision precision);

/// Lets other nodes of this host copy into memory of AllocateShared: `cpu` gets a new device and a copier.
/// @param cpu of OpenCpu; nothing was allocated on its device.
void ShareHostMemory(NodeDevice* cpu);

/// What OpenNodeDevice says of a name that is none (IsDeviceName).
inline Status NoSuchDeviceName(const std::string& name) {
  return InvalidArgument("device \"%s\"; expected \"cpu\", \"cuda\" or \"cuda:N\"", name.c_str());
}

/// What products on this host's processors are computed by, so far as it decides their bits: the library's version and
/// the instructions that it uses here ("oneDNN 2.6.3 avx2"). Any thread.
std::string InstructionSet();

/// What this host has to compute on, a line each, or why it has no GPU: the text of `hpnode --list_devices`.
std::string DescribeDevices();

/// The line of the processors in it.
std::string DescribeCpu();

/// Whether GPUs of this host can decode JPEGs (jpeg_decoder: GPU), so far as it can be told without one.
/// @return kFailedPrecondition: the library for it is missing, or another version, or a build without CUDA.
Status CheckJpegDecoder();

/// How many GPUs this host has. @return kFailedPrecondition: no driver, or a build without CUDA.
StatusOr<int> CountGpus();

}  // namespace hp
