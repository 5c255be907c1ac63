#pragma once

#include "data/dataset.h"
#include "data/order.h"
#include "data/transformer.h"
#include "hp/status.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace hp {

/// What one micro-batch of this node reads: `rows` samples of global batch `batch`. Consecutive pieces with the same
/// `batch` are this node's part of it; their rows follow each other.
struct Piece {
  int64_t batch = 0;               ///< counts global batches (sub-batches with iter_size) in the order of training
  int64_t first_sample = 0;        ///< of row 0, counted from the start of training (of the test, in a test)
  int64_t rows = 0;                ///< > 0
  int64_t first_row_in_batch = 0;  ///< of row 0, within the whole global batch
};

struct BatchReaderOptions {
  int64_t max_rows = 0;   ///< the largest Piece::rows there is
  int ring = 4;           ///< image buffers: pieces that are decoded and not yet released, at most
  int threads = 1;        ///< reader threads
  int batches_ahead = 1;  ///< parts whose records are read, undecoded, beyond the one with the oldest unreleased piece

  /// Makes an image buffer; null: in ordinary host memory.
  std::function<Buffer(size_t bytes)> allocate;
  /// The piece with a number in [first_piece, end_piece) of Start: a pure function, called under the reader's lock.
  std::function<Piece(int64_t piece)> piece;
  /// The labels of this node's whole part of `batch`, in the order of batches, before any of its images is ready.
  /// `labels` is valid during the call.
  std::function<void(int64_t batch, int64_t first_row_in_batch, std::span<const float> labels)> on_labels;
  /// images(piece) may be read. In the order of pieces.
  std::function<void(int64_t piece)> on_ready;
  /// Reading has failed and ended. Once for each Start, at most. The message names record, key and file.
  std::function<void(const Status& status)> on_error;
};

/// Reads, decodes and transforms the pieces of one phase of one node ahead of the computation. Callbacks come from
/// reader threads, one at a time, with no lock held; they may call Release, images and labels, but not Start or Stop.
/// Free of deadlock at any ring >= 1 as long as pieces are released in whatever order they are used.
///
///   dataset records --(threads)--> undecoded part of a batch --on_labels--> decode + transform --> ring --on_ready-->
class BatchReader {
 public:
  struct Counters {
    int64_t records = 0;  ///< read from the dataset
    int64_t bytes = 0;    ///< of their values
    int64_t pieces = 0;   ///< decoded
  };

  /// @param dataset, transformer must outlive the reader.
  BatchReader(Dataset* dataset, RecordOrder order, const Transformer* transformer, BatchReaderOptions options);
  ~BatchReader();  ///< Stops.

  /// Begins to read pieces first_piece, first_piece + 1, ..., end_piece - 1. Ends a previous run first (as Stop).
  /// Training calls it once, with the piece to resume at; each test calls it again, with pieces from 0.
  void Start(int64_t first_piece, int64_t end_piece);
  /// Ends the threads and forgets all pieces; no callback follows. Not from a callback.
  void Stop();

  /// [rows, C, H, W] floats, dense, aligned to 64 bytes; from on_ready(piece) to Release(piece).
  const float* images(int64_t piece) const;
  /// [rows] labels, likewise.
  std::span<const float> labels(int64_t piece) const;
  /// The piece's images and labels are no longer used: its buffer is free for another piece.
  void Release(int64_t piece);

  /// Since construction. Any thread.
  Counters counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hp
