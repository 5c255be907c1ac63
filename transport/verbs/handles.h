#pragma once

#include "transport/verbs/verbs.h"

#include <glog/logging.h>

#include <cstring>
#include <memory>

namespace hp {

// A unique_ptr for each kind of libibverbs and librdmacm object, so that they are destroyed in reverse order of
// creation. The Verbs table must outlive them. Handle(raw, {verbs}) takes ownership; null if the call failed.

/// Destroys an object by the Verbs table that made it; a failure is logged.
template <typename Object, int (Verbs::*kDestroy)(Object*)>
struct VerbsDeleter {
  Verbs* verbs = nullptr;
  void operator()(Object* object) const {
    const int error = (verbs->*kDestroy)(object);
    LOG_IF(ERROR, error != 0) << "verbs: an object could not be destroyed: " << std::strerror(error);
  }
};

template <typename Object, int (Verbs::*kDestroy)(Object*)>
using VerbsHandle = std::unique_ptr<Object, VerbsDeleter<Object, kDestroy>>;

using ContextHandle = VerbsHandle<ibv_context, &Verbs::CloseDevice>;
using PdHandle = VerbsHandle<ibv_pd, &Verbs::DeallocPd>;
using MrHandle = VerbsHandle<ibv_mr, &Verbs::DeregMr>;
using ChannelHandle = VerbsHandle<ibv_comp_channel, &Verbs::DestroyCompChannel>;
using CqHandle = VerbsHandle<ibv_cq, &Verbs::DestroyCq>;
using SrqHandle = VerbsHandle<ibv_srq, &Verbs::DestroySrq>;
using QpHandle = VerbsHandle<ibv_qp, &Verbs::DestroyQp>;
using CmChannelHandle = VerbsHandle<rdma_event_channel, &Verbs::CmDestroyEventChannel>;
using CmIdHandle = VerbsHandle<rdma_cm_id, &Verbs::CmDestroyId>;

/// The list of the host's RDMA devices, freed on destruction; devices that are to be used later must be opened before.
/// Empty if there are none or libibverbs fails.
class DeviceList {
 public:
  explicit DeviceList(Verbs* verbs) : verbs_(verbs), list_(verbs->GetDeviceList(&count_)) {
    if (list_ == nullptr) count_ = 0;
  }
  ~DeviceList() {
    if (list_ != nullptr) verbs_->FreeDeviceList(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ibv_device** begin() const { return list_; }
  ibv_device** end() const { return list_ + count_; }

 private:
  Verbs* const verbs_;
  int count_ = 0;
  ibv_device** const list_;
};

}  // namespace hp
