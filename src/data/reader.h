#pragma once

#include "base/batch_labels.h"
#include "data/sample_reader.h"
#include "hp/status.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// The samples of one micro-batch of this node: `rows` consecutive samples of global batch `batch`. Consecutive pieces
/// with the same `batch` are this node's part of the batch; the rows of each continue those of the one before.
struct Piece {
  int64_t batch = 0;               ///< counts global batches (sub-batches with iter_size) in the order of training
  int64_t first_sample = 0;        ///< of row 0, counted from the start of training (or of the test)
  int64_t rows = 0;                ///< > 0
  int64_t first_row_in_batch = 0;  ///< of row 0, within the whole global batch
};

/// How far a BatchReader reads ahead, and whom it calls. Numbers are >= 1 unless said otherwise (CHECK). Callbacks may
/// be null, except `piece`.
struct BatchReaderOptions {
  int64_t max_rows = 0;  ///< the largest Piece::rows that occurs; each image buffer has room for it
  int ring = 4;          ///< image buffers: the most pieces that are decoded and not yet released
  int threads = 1;       ///< reader threads, which decode as well; named "read0", "read1", ...
  /// How many records may be unreadable. Instead of such a one the next good one of the dataset is taken, so that what
  /// is read depends on the dataset alone; of several sources the next one of each, so that those that belong together
  /// stay together. With it, encoded images are decoded twice: labels go ahead of images, so what is bad must be known
  /// before. Counts each record once, for as long as the reader lives.
  int64_t max_bad_records = 0;
  bool raw = false;      ///< pieces of which each record has bytes stay raw; the layout may be (SampleReader::MayBeRaw)
  bool encoded = false;  ///< with raw: records that Transformer::TakeEncoded takes stay encoded in such a piece
  int batches_ahead = 1;  ///< parts whose records are read, undecoded, beyond the one with the oldest unreleased piece

  /// Makes an image buffer of `bytes` bytes, in the constructor; null: ordinary host memory.
  std::function<StatusOr<Buffer>(size_t bytes)> allocate;
  /// The piece of a number in [first_piece, end_piece) of Start. A pure function that must not call the reader: it runs
  /// under the reader's lock.
  std::function<Piece(int64_t piece)> piece;
  /// The labels of this node's whole part of a batch, as many for each of its rows as UndecodedSamples::ahead has; once
  /// for each batch, in order, before on_ready of any of its pieces.
  std::function<void(const BatchLabels& labels)> on_labels;
  /// images(piece) may be read from now on, until Release(piece). In the order of pieces.
  std::function<void(int64_t piece)> on_ready;
  /// A record could not be read or decoded; no other callback follows until the next Start. At most once for each
  /// Start.
  /// @param status as Dataset::Read or Transformer::Transform; the message names record, key and file.
  std::function<void(const Status& status)> on_error;
};

/// Reads, decodes and transforms the pieces of one phase (training or test) of one node, ahead of the computation.
/// Callbacks come from reader threads, one at a time, with no lock of the reader held; they may call Release and
/// images, but not Start or Stop. All other calls come from any thread, Start and Stop from one at a time.
///
/// Pieces may be released in any order. It never deadlocks, with any ring >= 1, if every piece that is ready is
/// released at some time without waiting for a later one.
///
/// With several sources sample s is a record of each, which it is in that source's order.
///
///   dataset records --(threads)--> undecoded part of a batch --on_labels--> decode + transform --> ring --on_ready-->
class BatchReader {
 public:
  /// Allocates the image buffers, which `allocated` tells about; starts no thread.
  /// @param sources at least one.
  BatchReader(std::vector<RecordSource> sources, SampleLayout layout, BatchReaderOptions options);
  ~BatchReader();  ///< Stops.
  /// @return ok, or kResourceExhausted: there is no memory for the image buffers, and it must not be started.
  Status allocated() const;

  /// Starts the threads, which read pieces first_piece, ..., end_piece - 1. Ends a previous run first (as Stop).
  /// Training calls it once, with the piece to resume at; each test calls it again, with pieces from 0.
  void Start(int64_t first_piece, int64_t end_piece);
  /// Joins the threads and forgets all pieces, so that images() of them become invalid; no callback follows. Blocks
  /// until each thread has finished the piece that it reads or decodes, and the callback that is running has returned.
  /// Not from a callback.
  void Stop();

  /// The samples of a piece, float32, as SampleShape places them for its rows: data, labels where a row has several,
  /// and others, at the start of an image buffer (of page-aligned host memory, or as `allocate` aligns). Valid from
  /// on_ready(piece) to Release(piece) (CHECK).
  const float* images(int64_t piece) const;
  /// Whether they are raw instead (BatchReaderOptions::raw): RawImagesBytes of the piece's rows. Likewise.
  bool raw(int64_t piece) const;
  /// Which record a row of a piece is, as SampleReader::Describe says. Likewise.
  std::string Describe(int64_t piece, int64_t row) const;
  /// Gives the piece's buffer back, for another piece. Once, after on_ready(piece) (CHECK).
  void Release(int64_t piece);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hp
