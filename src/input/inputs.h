#pragma once

#include "input/input.h"
#include "layers/traits/layer_types.h"

#include <memory>
#include <vector>

namespace hp {

/// What a node reads: records to train with, and those of each test of a clock. Opened by JobFiles, owned by it. The
/// functions are those of Input, for the input that an id belongs to.
struct Inputs {
  std::unique_ptr<Input> train;               ///< null: this node reads no images
  std::vector<std::unique_ptr<Input>> tests;  ///< by Phase::test; empty: none, or it reads no images

  /// Prepares all of them. @param ahead of training; a test has the node to itself and needs the labels of one batch.
  Status Prepare(const Schedule& schedule, int replica, uint64_t seed, Input::ReadAhead ahead, Device* device,
                 const Input::Callbacks& callbacks);
  /// All tests of a clock begin to read, though they are used one behind the other.
  void StartTests(int64_t clock);
  void Stop();

  /// The input of a micro-batch. Behind Prepare; the node must read images. Any thread.
  Input& Of(MsgId id) const { return id.train() ? *train : *tests[schedule_->PhaseOf(id).test()]; }

 private:
  const Schedule* schedule_ = nullptr;
};

/// Opens the records to train with. @return errors as Input::Open; kInvalidArgument: the net has no layer that reads
/// any.
StatusOr<std::unique_ptr<Input>> OpenTraining(const caffe::NetParameter& net, const LayerTypes& types,
                                              const InputOptions& options);

/// Opens the records of each of `tests` tests. @return as OpenTraining.
StatusOr<std::vector<std::unique_ptr<Input>>> OpenTests(const caffe::NetParameter& net, int tests,
                                                        const LayerTypes& types, const InputOptions& options);

}  // namespace hp
