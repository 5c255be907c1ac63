#pragma once

#include "hp/status.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/port.h"
#include "transport/verbs/settings.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// Registers host memory with an adapter; it must stay allocated as long as the handle. @param access IBV_ACCESS_...
/// flags.
/// @return kResourceExhausted: "can't register 1024 KiB ...", with advice if the memory lock limit is the cause.
StatusOr<MrHandle> RegisterHostMemory(Verbs* verbs, ibv_pd* pd, const void* address, size_t bytes, int access);

/// A shared receive queue with its buffers: the receive requests for all peers of a device. A completion hands a
/// request out; Recycle gives it back. When all are out, peers' adapters retry (RNR). Progress thread.
class ReceivePool {
 public:
  /// Makes `count` requests and posts them all. @param bytes of each buffer; 0: for completions without payload (ends
  /// of writes). @return kFailedPrecondition, kResourceExhausted: the device or the memory lock limit does not allow
  /// it.
  static StatusOr<std::unique_ptr<ReceivePool>> Create(Verbs* verbs, ibv_pd* pd, uint32_t count, size_t bytes);

  ibv_srq* srq() const { return srq_.get(); }
  uint32_t count() const { return count_; }  ///< requests in all
  /// The first `bytes` bytes of the buffer of request `id` (ibv_wc::wr_id, byte_len); valid until Recycle(id).
  std::span<const std::byte> Buffer(uint64_t id, size_t bytes) const {
    return {buffers_.get() + (id & kIndexMask) * bytes_, bytes};
  }
  /// Request `id` is no longer needed. It is posted again together with others when a quarter of all wait for that.
  /// @return kUnavailable: the receive queue failed.
  Status Recycle(uint64_t id);
  /// Posts all recycled requests at once. Errors as Recycle's.
  Status Flush();

  /// The bit that is set in the work request ids of receives; ids of a QueuePair's sends do not have it.
  static constexpr uint64_t kMark = uint64_t{1} << 63;

 private:
  static constexpr uint64_t kIndexMask = 0xffffffff;
  ReceivePool(Verbs* verbs, uint32_t count, size_t bytes) : verbs_(verbs), count_(count), bytes_(bytes) {}

  Verbs* const verbs_;
  const uint32_t count_;
  const size_t bytes_;
  std::unique_ptr<std::byte[]> buffers_;
  MrHandle region_;
  SrqHandle srq_;
  std::vector<uint64_t> recycled_;
};

/// An open RDMA device and port, with what all endpoints on it share: protection domain, completion channel, receive
/// queues. Held by shared_ptr by all that was made of it. Constant after Open, except the receive pools (progress
/// thread).
class VerbsDevice {
 public:
  /// Opens the best port (OpenBestPort) and creates what is shared. @param verbs must outlive it.
  /// @param address our IP address as the peers know it: decides which device and which GID; may be empty.
  /// @return kFailedPrecondition: no usable device, or a step failed; kResourceExhausted: memory cannot be registered.
  /// Says what to do.
  static StatusOr<std::shared_ptr<VerbsDevice>> Open(Verbs* verbs, const VerbsSettings& settings,
                                                     const std::string& address);

  Verbs* verbs() const { return verbs_; }
  const VerbsSettings& settings() const { return settings_; }  ///< depths reduced to the device's limits
  ibv_context* context() const { return open_.context.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  ibv_comp_channel* channel() const { return channel_.get(); }
  ReceivePool* control_receives() const { return control_receives_.get(); }
  ReceivePool* data_receives() const { return data_receives_.get(); }
  const std::string& name() const { return open_.device; }    ///< "mlx5_0"
  const std::string& ip_address() const { return address_; }  ///< of this host, as the peers know it
  uint8_t port() const { return open_.port; }                 ///< from 1
  ibv_mtu mtu() const { return open_.attributes.active_mtu; }
  uint32_t max_message() const { return open_.attributes.max_msg_sz; }  ///< bytes of one work request
  /// The port's address with `gid`, as the peers need it.
  PortAddress address(const GidEntry& gid) const;
  /// The GID to use (ChooseGid), read from the device at each call: addresses, and with them indices, change while a
  /// node runs.
  StatusOr<GidEntry> CurrentGid() const;
  /// The access flag IBV_ACCESS_RELAXED_ORDERING, or 0 if the settings turn it off.
  int ordering() const;

 private:
  VerbsDevice(Verbs* verbs, VerbsSettings settings, std::string address, OpenPort open);
  Status CheckLimits();
  Status Prepare();

  Verbs* const verbs_;
  VerbsSettings settings_;
  const std::string address_;
  OpenPort open_;
  PdHandle pd_;
  ChannelHandle channel_;
  std::unique_ptr<ReceivePool> control_receives_, data_receives_;
};

}  // namespace hp
