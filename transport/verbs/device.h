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

/// Host memory that an adapter may reach: "can't register 1024 MiB ..." with advice when the memory lock limit is the
/// cause.
StatusOr<MrHandle> RegisterHostMemory(Verbs* verbs, ibv_pd* pd, const void* address, size_t bytes, int access);

/// Receive requests shared by all peers of a device. Progress thread.
class ReceivePool {
 public:
  /// @param bytes of each buffer; 0: for completions without a payload. All are posted.
  static StatusOr<std::unique_ptr<ReceivePool>> Create(Verbs* verbs, ibv_pd* pd, uint32_t count, size_t bytes);

  ibv_srq* srq() const { return srq_.get(); }
  uint32_t count() const { return count_; }
  /// What the completion of request `id` brought.
  std::span<const std::byte> Buffer(uint64_t id, size_t bytes) const {
    return {buffers_.get() + (id & kIndexMask) * bytes_, bytes};
  }
  /// Request `id` is done with: it is posted again, with others, before too few are left.
  Status Recycle(uint64_t id);
  /// Posts what was recycled so far.
  Status Flush();

  /// Marks the work request ids of receives; a QueuePair's never have it.
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

/// An open RDMA device with what all endpoints on it share.
class VerbsDevice {
 public:
  /// @param address ours, as the peers know it: tells which device and which GID are meant.
  /// @return kFailedPrecondition: there is no usable one, or a step failed; says what to do.
  static StatusOr<std::shared_ptr<VerbsDevice>> Open(Verbs* verbs, const VerbsSettings& settings,
                                                     const std::string& address);

  Verbs* verbs() const { return verbs_; }
  const VerbsSettings& settings() const { return settings_; }
  ibv_context* context() const { return open_.context.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  ibv_comp_channel* channel() const { return channel_.get(); }
  ReceivePool* control_receives() const { return control_receives_.get(); }
  ReceivePool* data_receives() const { return data_receives_.get(); }
  const std::string& name() const { return open_.device; }
  const std::string& ip_address() const { return address_; }  ///< of this host, as the peers know it
  uint8_t port() const { return open_.port; }
  ibv_mtu mtu() const { return open_.attributes.active_mtu; }
  uint32_t max_message() const { return open_.attributes.max_msg_sz; }
  PortAddress address(const GidEntry& gid) const;
  /// Looked up each time: addresses, and with them indices, change while a node runs.
  StatusOr<GidEntry> CurrentGid() const;
  /// IBV_ACCESS_RELAXED_ORDERING where it is wanted.
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
