#pragma once

#include "hp/status.h"

#include <cstdint>
#include <string>

namespace hp {

enum class GpuDirect {
  kAuto,    ///< dma-buf, else nvidia-peermem, else staged
  kDmaBuf,  ///< only that, likewise the others
  kPeermem,
  kStaged,
};
enum class RelaxedOrdering { kAuto, kOff, kOn };
/// Who brings two nodes' queue pairs together once the nodes have met over TCP.
enum class QpSetup {
  kTcp,     ///< the nodes: each tells the other its GID and numbers
  kRdmaCm,  ///< librdmacm: by IP address, with the routes and service levels that the fabric's manager gives
};

/// What can be set about verbs; VerbsConfig of src/proto/routing.proto has it under NCCL's names.
struct VerbsSettings {
  /// Devices to use, as NCCL_IB_HCA: "mlx5_0:1,mlx5_1" by prefix and port, "=mlx5_0" exactly, "^mlx5_2" all others;
  /// empty: all.
  std::string hca = {};
  int gid_index = -1;    ///< -1: chosen
  int roce_version = 0;  ///< 1 or 2 only; 0: 2 before 1
  int traffic_class = 0;
  int service_level = 0;
  int pkey_index = 0;
  /// A lost packet is sent again after 4.096 µs * 2^timeout, retry_count times, and then the connection fails: 0.5 s
  /// with software RDMA, up to four times that with adapters. Some devices take a retry count of 7 for "for ever".
  int timeout = 14;
  int retry_count = 6;
  /// How often to retry a SEND to a peer that has no receive buffers; 7: for ever. Its adapter answers, so whether it
  /// works is for heartbeats to say.
  int rnr_retry = 7;
  int qps_per_connection = 1;     ///< data queue pairs for each peer
  QpSetup setup = QpSetup::kTcp;  ///< the same at both ends
  RelaxedOrdering relaxed_ordering = RelaxedOrdering::kAuto;
  GpuDirect gpudirect = GpuDirect::kAuto;
  /// Farthest an adapter may be from a GPU to reach its memory, as NCCL_NET_GDR_LEVEL: LOC (never), PIX (one PCIe
  /// switch), PXB (several), PHB (one host bridge), SYS (anywhere).
  std::string gpudirect_level = "SYS";

  /// How long a failure that tells nothing of its cause waits for one that does: the peer's or the adapter's reason
  /// is often on its way.
  int cause_wait_ms = 100;
  uint32_t send_depth = 128;           ///< work requests that a queue pair holds
  uint32_t control_bytes = 8 << 10;    ///< of a control message on the wire
  uint32_t control_receives = 512;     ///< shared by all peers
  uint32_t data_receives = 2048;       ///< likewise: ends of writes that wait to be looked at
  uint32_t inline_bytes = 256;         ///< asked for; a device may give less
  uint64_t split_bytes = 256 << 10;    ///< a further queue pair for each so many bytes of a write
  uint64_t max_write_bytes = 1 << 30;  ///< of one work request; the port's limit holds as well
};

/// @return what is out of range, in the words of the routing table.
Status CheckVerbsSettings(const VerbsSettings& settings);

}  // namespace hp
