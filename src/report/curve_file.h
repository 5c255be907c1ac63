#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace hp {

/// A row of the table that people plot: what a display of the training tells, or a test.
struct CurveRow {
  int64_t iteration = 0;                     ///< the one displayed, or the one that the test was in front of
  double seconds = 0;                        ///< since the display before, or since the start
  std::optional<double> test_accuracy = {};  ///< of a test (MainAccuracy); nothing: a display, which has all below
  int64_t samples = 0;                       ///< trained in that time
  double loss = 0;                           ///< as displayed, smoothed by average_loss
  double rate = 0;                           ///< learning rate of the iteration
  std::optional<double> accuracy = {};       ///< the training net's, if it has one (MainAccuracy)
};

/// A CSV file of the training's curves, with the columns of Caffe2's: time_spent, cumulative_time_spent (s),
/// input_count, cumulative_input_count (samples), cumulative_batch_count (iterations), inputs_per_sec, accuracy, epoch,
/// learning_rate, loss, test_accuracy. A field that a row does not have is empty. Each display has a row, and so has
/// each test of the first test net, of which only the cumulative columns, epoch and test_accuracy are set: they count
/// the iterations in front of it, that of a display its own iteration as well. Rows are written by a thread of its own,
/// "curve file": a slow disk delays nobody.
class CurveFile {
 public:
  struct Options {
    std::string path;
    int64_t start = 0;    ///< first iteration; above 0 rows of earlier ones stay, and times go on from the last of them
    int64_t batch = 1;    ///< samples of an iteration
    int64_t records = 0;  ///< of the training data: an epoch; 0: it has no end
  };
  /// Makes the file, and writes the names of the columns into an empty one.
  /// @return kInvalidArgument: it can't be written, or is another table that would be gone on with.
  static StatusOr<std::unique_ptr<CurveFile>> Create(const Options& options);
  /// Writes what is left, and joins the thread.
  ~CurveFile();

  /// Adds a row, in the order of iterations, tests in front of displays. Any thread; does not block. A file that can't
  /// be written is one warning.
  void Add(const CurveRow& row) HP_EXCLUDES(mutex_);

 private:
  CurveFile(Options options, int file);
  Status KeepRows();
  void Run();
  void Write(const std::string& text);
  std::string TextOf(const CurveRow& row);

  const Options options_;
  const int file_;
  // The thread's alone.
  double seconds_ = 0;  // of all rows
  bool warned_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::deque<CurveRow> rows_ HP_GUARDED_BY(mutex_);
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
