#pragma once

#include "hp/status.h"
#include "input/input.h"
#include "model/node_model.h"
#include "tensor/device.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hp {

/// Copies the images of the next training micro-batch to the device while it still computes the one before, into a
/// buffer of its own, since the solver that will take them is not free yet. One micro-batch ahead. Never waits: images
/// that were not copied ahead are copied by their task. Executor thread. Owned by DeviceCompute.
class InputPrefetcher {
 public:
  /// @param model,device must outlive it. @param input of training; must outlive it, and must keep images until their
  /// task is done. May be null where the node reads no images.
  /// @return null if the node reads no images; kResourceExhausted: the device is out of memory.
  static StatusOr<std::unique_ptr<InputPrefetcher>> Create(const NodeModel& model, Device* device, const Input* input);
  /// Waits for a copy that is under way: it reads the input's memory.
  ~InputPrefetcher();
  /// Bytes that Create takes of the device's memory: the images of the largest training micro-batch.
  static size_t DeviceBytes(const NodeModel& model);

  /// At the begin of the forward task of `id`: if its images were copied ahead, copies them, raw if they are, to `to`
  /// on the device, in Device::kCopyIn. The micro-batch after `id` is copied ahead next. Ids of tests are ignored.
  /// @return false: the caller must copy them from the host.
  bool Take(MsgId id, void* to);
  /// After each task was put into the device's queues: begins the next copy ahead, if the buffer is free and the host
  /// has the images.
  void Advance();

 private:
  InputPrefetcher(const NodeModel& model, Device* device, const Input* input)
      : model_(model), device_(device), input_(input) {}

  const NodeModel& model_;
  Device* const device_;
  const Input* const input_;
  Buffer place_;
  MsgId next_;           ///< the micro-batch to copy next, or that is in place_; 0: none, before the first Take
  size_t bytes_ = 0;     ///< of it, in place_
  bool copied_ = false;  ///< it is in place_, or on its way there
};

}  // namespace hp
