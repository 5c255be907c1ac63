#pragma once

#include "base/batch_labels.h"
#include "base/sample_shape.h"
#include "data/dataset.h"
#include "data/reader.h"
#include "data/transformer.h"
#include "layers/traits/source_tops.h"
#include "proto/caffe.pb.h"
#include "scheduler/plan/schedule.h"
#include "tensor/device.h"
#include "tensor/raw_images.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// How an Input opens its records, and how it bears with them.
struct InputOptions {
  std::string cache_dir;        ///< DatasetOptions::cache_dir
  int64_t max_bad_records = 0;  ///< how many records may be unreadable (BatchReaderOptions)
};

/// A conv node's input for one phase, of all layers that read records in it: the images and labels of its own part of
/// each global batch, read, decoded and transformed ahead of the computation by threads "read0", "read1", ... Images
/// wait here until they are released; labels go to a callback. Owned by the node (JobFiles).
///
/// Use: Open, Prepare, Start; then for each micro-batch Ready -> images -> Release; Stop or the destructor at the end.
class Input {
 public:
  /// Called by the reader threads, one call at a time for each Input, under no lock. All must be set; none may call
  /// Start or Stop.
  struct Callbacks {
    /// The labels of this node's part of a batch, of each row as many as SampleLayout tells ahead. In the order of
    /// batches, before any image of the part is ready. The batch is one of the update (0 .. iter_size - 1) or of the
    /// phase's test (0 .. test_iter - 1) at `clock`.
    std::function<void(int64_t clock, Phase phase, const BatchLabels& labels)> on_labels;
    /// Ready has turned true for one more micro-batch.
    std::function<void()> on_ready;
    /// Reading has failed and ended: kDataLoss, kFailedPrecondition (the database was changed) or kInvalidArgument (a
    /// record of another shape), with the record named. At most once for each Start.
    std::function<void(const Status&)> on_error;
  };

  /// Whether a net, whatever its records are, is one that training or a test can read: its sources fit together
  /// (CheckSources), as do the fields of their transformations, and one of them reads records. A mean file that is
  /// missing is no fault: it may be where the records are. @param net, phase as Open's. @return kInvalidArgument: it is
  /// not.
  static Status CheckReads(const caffe::NetParameter& net, Phase phase, const LayerTypes& types);
  /// Opens what the layers of a phase read their records from (OpenDatasetOf, or DummyDataset) and finds their numbers;
  /// of a database by a scan if no index is cached.
  /// @param net unfiltered. @param phase decides between random and centre crops, and which ids there are.
  /// @return kNotFound: no database, list, image or mean file there; kDataLoss: a file of it is corrupt;
  /// kInvalidArgument: a layer contradicts itself or the first record, or as CheckReads.
  static StatusOr<std::unique_ptr<Input>> Open(const caffe::NetParameter& net, Phase phase, const LayerTypes& types,
                                               const InputOptions& options);
  ~Input();  ///< Stops.

  // Of the opened database; any thread.

  const SampleShape& sample_shape() const { return layout_.shape; }
  /// A hash of the records and the mean images: nodes compare it at the handshake.
  uint64_t fingerprint() const { return fingerprint_; }
  /// Of the source that has the fewest.
  int64_t records() const;

  /// How much is read before it is asked for; all at least 1.
  struct ReadAhead {
    /// Image buffers: micro-batches that may be decoded and not released. Each takes the images of the largest one.
    int ring = 1;
    /// Batches whose records are read, undecoded, beyond the first one in use: so far ahead labels are told.
    int batches = 1;
    int threads = 1;       ///< that read and decode
    bool raw = false;      ///< images stay raw where they can, for a device that makes floats of them
    bool encoded = false;  ///< with raw: so do JPEGs stay encoded (Transformer::TakeEncoded), for one that decodes them
  };
  /// Makes the reader and its image buffers. Once, after Open and before Start; main thread.
  /// @param schedule must outlive the input.
  /// @param replica whose part of each batch is read.
  /// @param phase whose ids are read, training or a test as it was opened for.
  /// @param seed of the job: decides shuffling, crops and mirroring, the same on all nodes.
  /// @param device allocates the buffers, in pinned host memory where it has any; must outlive the input.
  /// @return kDataLoss, kFailedPrecondition: the database or the mean file has changed since Open.
  Status Prepare(const Schedule& schedule, int replica, Phase phase, uint64_t seed, const ReadAhead& ahead,
                 Device* device, Callbacks callbacks);
  /// Begins to read with the first micro-batch of `clock`. Of training: once, and it reads on to the last iteration. Of
  /// tests: at each clock with a test, which starts again with the phase's first sample; ends the one before.
  /// No image of an earlier Start may be in use. Executor or main thread; waits for reader threads that are still busy.
  void Start(int64_t clock);
  /// Ends the reader threads; no callback follows, and all images are invalid. Not from a callback.
  void Stop();

  /// Whether the images of `id`, an id of this replica and phase of a clock that was started, are decoded. Any thread;
  /// takes no lock.
  bool Ready(MsgId id) const;
  /// Samples as SampleShape places them for the rows of `id`, float32, aligned to 64 bytes, in the host's memory; from
  /// Ready(id) to Release(id), else CHECK fails. Any thread.
  float* images(MsgId id) const;
  /// Whether the images of `id` are raw instead, as rule() reads them. Likewise.
  bool raw(MsgId id) const;
  /// How raw images of this input become floats; nothing if none are. Points into the input. Behind Prepare.
  std::optional<RawImageRule> rule() const;
  /// Whether raw images may be encoded (ReadAhead::encoded). Behind Prepare.
  bool encoded() const { return encoded_; }
  /// Bytes of the largest whole image that could be left encoded, once it is decoded; 0: this input leaves none. Of the
  /// opened database; any thread.
  int64_t whole_bytes() const;
  /// Names a row of `id` for messages: "sample 1234 (FILE:LINE: IMAGE)". While images(id) may be read.
  std::string Describe(MsgId id, int64_t row) const;
  /// The images of `id` are no longer used: their buffer is free for a later micro-batch. Once for each id. Any thread.
  void Release(MsgId id);

 private:
  /// A layer that reads records.
  struct Source {
    caffe::LayerParameter layer;
    std::unique_ptr<Dataset> dataset;
    std::unique_ptr<Transformer> transformer;
  };

  Input() = default;
  Status OpenSource(const caffe::LayerParameter& layer, std::map<int, std::vector<int64_t>> classes,
                    const InputOptions& options);
  Status LayOut(const std::vector<SourceTop>& tops);
  /// Of a row of a top, as it is read.
  Shape RowOf(SampleLayout::Top top) const;
  StatusOr<std::unique_ptr<Transformer>> MakeTransformer(const Source& source, uint64_t seed) const;
  /// The reader's number of the id: counts the node's micro-batches from the start of training (of the test).
  int64_t PieceOf(MsgId id) const;

  StatusOr<std::unique_ptr<Transformer>> MakeTransformerFor(const Source& source, int64_t record, uint64_t seed) const;

  std::vector<Source> sources_;
  SampleLayout layout_;
  int64_t max_bad_records_ = 0;
  bool train_ = true;
  Phase phase_ = caffe::TRAIN;
  bool raw_ = false;      // images stay raw where they can
  bool encoded_ = false;  // and JPEGs encoded
  std::unique_ptr<BatchReader> reader_;
  uint64_t fingerprint_ = 0;
  const Schedule* schedule_ = nullptr;
  int replica_ = 0;
  std::vector<MsgId> ids_;              ///< the replica's ids of one clock, as in clock 0; empty: it reads nothing
  std::atomic<int64_t> ready_end_{0};   ///< pieces below it are decoded
  std::atomic<int64_t> test_clock_{0};  ///< of the latest Start
  Callbacks callbacks_;
};

}  // namespace hp
