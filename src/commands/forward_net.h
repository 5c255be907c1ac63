#pragma once

#include "backend/backend.h"
#include "base/sample_shape.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "net/plan/graph.h"
#include "tensor/device.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hp {

struct ForwardNetOptions {
  SampleShape sample;
  int64_t rows = 1;                ///< samples of each Run
  std::vector<std::string> blobs;  ///< that ReadBlob returns, by name
  int batches_ahead = 0;  ///< batches of images that the caller holds in host memory, for the check of its size
};

/// The TEST phase of a whole net on one device, with trained weights and memory for one batch, whose images the caller
/// brings: what evaluation, extraction and classification share. One thread at a time.
///
/// Use: Create, then for each batch Run and, for what its options name, ReadBlob.
class ForwardNet {
 public:
  /// @param graph of the TEST phase, with a source. It must outlive the net, as must device and backend.
  /// @param model has the weights of the net, but those that stand in its own file (blobs). A layer that neither has is
  /// as its fillers say, which the log tells.
  /// @return kInvalidArgument: shapes do not fit, no source, an unknown blob, or more memory than there is;
  /// kNotFound: no layer has weights there; kFailedPrecondition: a layer has others; kResourceExhausted: the device is
  /// out of memory.
  static StatusOr<std::unique_ptr<ForwardNet>> Create(const NetGraph& graph, const ForwardNetOptions& options,
                                                      Device* device, Backend* backend, const CaffeModel& model);
  ~ForwardNet();

  /// An output of the net: a loss or an accuracy.
  struct Output {
    std::string name;       ///< of its blob
    float loss_weight = 0;  ///< 0: not part of the net's loss
    bool printed = true;    ///< one of the net's outputs: no layer reads it, not even a Silence, and it has a name
  };
  /// In the order of their names, which is Caffe's.
  std::vector<Output> outputs() const;

  /// Runs the forward pass of one batch, and blocks until it is done. @param first_sample of the batch, counted from
  /// the first one. @param images samples as SampleShape places them for rows(), float32 in the host's memory.
  /// @param labels as BatchContext::SetBatchLabels takes them; may be empty where no layer reads any.
  /// @return the values of all outputs; kInternal: the device failed.
  StatusOr<std::vector<float>> Run(uint64_t first_sample, float* images, std::span<const float> labels);

  int64_t rows() const;  ///< ForwardNetOptions::rows
  /// [rows, ...] of ForwardNetOptions::blobs[index].
  const Shape& blob_shape(size_t index) const;
  /// Its values by the latest Run, row-major. @return kInternal: the device failed.
  StatusOr<std::vector<float>> ReadBlob(size_t index) const;

 private:
  class Impl;
  explicit ForwardNet(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

/// Names of the blobs that no layer reads and that are neither labels, losses nor accuracies: what a deploy net is run
/// for. In the order of the layers.
std::vector<std::string> UnreadBlobs(const NetGraph& graph);

}  // namespace hp
