#pragma once

#include "engine/input/input.h"
#include "hp/status.h"
#include "model/node_model.h"
#include "tensor/device.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hp {

/// The images of the training micro-batch after the last one that began, copied to the device while it still computes
/// what is before: a place of their own, since the solver that will take them is not free yet. Nobody must wait for
/// it: what is not here when its task begins comes from the host. Executor thread. Owned by DeviceCompute.
class ImagesAhead {
 public:
  /// @param input of training; must outlive it, and keeps images until their task is done.
  /// @return null if the node reads no images; kResourceExhausted: the device has not so much memory.
  static StatusOr<std::unique_ptr<ImagesAhead>> Create(const NodeModel& model, Device* device, const Input* input);
  /// Waits for a copy that is under way: it reads the input's memory.
  ~ImagesAhead();
  /// Bytes that Create takes of the device's memory.
  static size_t DeviceBytes(const NodeModel& model);

  /// The task of `id` begins: brings its images to `to`, in Device::kCopyIn, if they are here.
  /// @return whether they are.
  bool Take(MsgId id, void* to, size_t bytes);
  /// After something was put into the device's queues: begins the next copy, if there is a place for it and the host
  /// has the images.
  void Advance();

 private:
  ImagesAhead(const NodeModel& model, Device* device, const Input* input)
      : model_(model), device_(device), input_(input) {}

  const NodeModel& model_;
  Device* const device_;
  const Input* const input_;
  Buffer place_;
  MsgId next_;           ///< the micro-batch to copy next, or whose copy is here; 0: none began yet
  bool copied_ = false;  ///< it is here, or on its way
};

}  // namespace hp
