#pragma once

#include "hp/status.h"

#include <cstdint>
#include <string>

namespace hp {

/// How the adapter reaches GPU memory (GpuPath).
enum class GpuDirect {
  kAuto,    ///< dma-buf, else nvidia-peermem, else staged
  kDmaBuf,  ///< dma-buf or an error; likewise the others
  kPeermem,
  kStaged,
};
/// Whether memory is registered with IBV_ACCESS_RELAXED_ORDERING; kAuto is kOn, as devices that lack it ignore it.
enum class RelaxedOrdering { kAuto, kOff, kOn };
/// Who connects two nodes' queue pairs once the nodes have met over TCP.
enum class QpSetup {
  kTcp,     ///< the nodes: each tells the other its GID and queue pair numbers
  kRdmaCm,  ///< librdmacm: by IP address, with the routes and service levels that the subnet manager gives
};

/// Settings of the verbs transport; VerbsConfig of src/proto/routing.proto has them under NCCL's names. Defaults suit a
/// first run.
struct VerbsSettings {
  /// Devices to use, as NCCL_IB_HCA: "mlx5_0:1,mlx5_1" by prefix and port, "=mlx5_0" exactly, "^mlx5_2" all others;
  /// empty: all.
  std::string hca = {};
  int gid_index = -1;     ///< in the port's GID table, to 255; -1: chosen by ChooseGid
  int roce_version = 0;   ///< 1 or 2: only GIDs of that version; 0: 2 before 1
  int traffic_class = 0;  ///< 0 to 255, of the GRH
  int service_level = 0;  ///< 0 to 15
  int pkey_index = 0;     ///< in the port's partition key table
  /// A lost packet is sent again after 4.096 µs * 2^timeout, retry_count times, and then the connection fails: 0.5 s
  /// with software RDMA, up to four times that with adapters. Some devices take a retry count of 7 for "for ever".
  int timeout = 14;
  int retry_count = 6;
  /// How often to retry a SEND to a peer that has no receive buffers; 7: for ever. Its adapter answers, so whether the
  /// peer makes progress is for heartbeats to find out.
  int rnr_retry = 7;
  int qps_per_connection = 1;     ///< data queue pairs for each peer, 1 to 16
  QpSetup setup = QpSetup::kTcp;  ///< the same at both ends
  RelaxedOrdering relaxed_ordering = RelaxedOrdering::kAuto;
  GpuDirect gpudirect = GpuDirect::kAuto;
  /// Farthest an adapter may be from a GPU to reach its memory, as NCCL_NET_GDR_LEVEL: LOC (never), PIX (one PCIe
  /// switch), PXB (several), PHB (one host bridge), SYS (anywhere).
  std::string gpudirect_level = "SYS";

  // Not in the table; tests change them.

  /// How long a failure without a cause (Cause::kSymptom) waits for one with a cause: the peer's or the adapter's
  /// reason is often on its way.
  int cause_wait_ms = 100;
  uint32_t send_depth = 128;           ///< work requests in a queue pair's send queue
  uint32_t control_bytes = 8 << 10;    ///< of each control receive buffer: the most bytes of a SEND
  uint32_t control_receives = 512;     ///< receive requests for control, shared by all peers
  uint32_t data_receives = 2048;       ///< likewise for immediates, the ends of writes
  uint32_t inline_bytes = 256;         ///< asked for; a device may give less
  uint64_t split_bytes = 256 << 10;    ///< a write uses one data queue pair for each so many bytes
  uint64_t max_write_bytes = 1 << 30;  ///< of one work request; the port's limit holds as well
};

/// Checks the ranges of the settings that the table has. @return kInvalidArgument: the first that is out of range, by
/// its name in the table.
Status CheckVerbsSettings(const VerbsSettings& settings);

}  // namespace hp
