#pragma once

#include "data/dataset.h"
#include "data/reader.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"
#include "scheduler/plan/schedule.h"
#include "tensor/device.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace hp {

/// A conv node's input for one phase: opens the database, knows the shape of a sample, and then reads the node's own
/// part of each global batch ahead of the computation.
class Input {
 public:
  struct Callbacks {
    /// Labels of this node's part of batch `batch` of the update or test at `clock`. Reader threads.
    std::function<void(int64_t clock, bool train, int64_t batch, int64_t first_row, std::span<const float>)> on_labels;
    std::function<void()> on_ready;
    std::function<void(const Status&)> on_error;
  };

  /// Opens the database of the Data layer `layer`.
  static StatusOr<std::unique_ptr<Input>> Open(const caffe::LayerParameter& layer, bool train,
                                               const std::string& cache_dir);
  ~Input();

  const Shape& sample_shape() const { return shape_; }
  uint64_t fingerprint() const { return fingerprint_; }
  int64_t records() const { return dataset_->size(); }

  /// Makes the reader, once the seed is known. @param device what copies the images; must outlive the input.
  Status Prepare(const Schedule& schedule, int replica, uint64_t seed, int ring, int threads, Device* device,
                 Callbacks callbacks);
  /// Begins with the micro-batches of `clock`: training once, tests at each clock that has one.
  void Start(int64_t clock);
  void Stop();

  /// Whether the images of `id` are decoded. Any thread.
  bool Ready(MsgId id) const;
  float* images(MsgId id) const;
  void Release(MsgId id);

 private:
  Input() = default;
  StatusOr<std::unique_ptr<Transformer>> MakeTransformer(uint64_t seed) const;
  /// Number of the id's piece: counts the node's micro-batches from the start of training (of the test).
  int64_t PieceOf(MsgId id) const;

  caffe::LayerParameter layer_;
  bool train_ = true;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<BatchReader> reader_;
  Shape shape_;
  uint64_t fingerprint_ = 0;
  const Schedule* schedule_ = nullptr;
  int replica_ = 0;
  std::vector<MsgId> ids_;             ///< of one clock
  std::atomic<int64_t> ready_end_{0};  ///< pieces below it are decoded
  std::atomic<int64_t> test_clock_{0};
  Callbacks callbacks_;
};

}  // namespace hp
