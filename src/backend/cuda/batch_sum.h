#pragma once

#include "backend/cuda/launch.h"
#include "backend/label.h"

#include <cstdint>
#include <span>

// The sum over a micro-batch's rows, divided by a number of samples: the last step of a loss and an accuracy. Only for
// .cu files.
namespace hp::cuda {

/// The number of samples that a sum over rows is divided by: a fixed one, or how many of the global batch's labels are
/// not the ignored one, which the kernel counts, or adds up where each row has a count.
struct SampleCount {
  int64_t fixed = 0;
  const float* labels = nullptr;  ///< [labels_count] in the device's memory; null: `fixed` is the count
  int64_t labels_count = 0;
  int ignore_label = 0;
  bool are_counts = false;  ///< of valid labels, instead of labels

  static SampleCount Fixed(int64_t count) { return {.fixed = count}; }
  static SampleCount Valid(std::span<const float> labels, int ignore_label) {
    return {0, labels.data(), static_cast<int64_t>(labels.size()), ignore_label};
  }
  static SampleCount Sum(std::span<const float> counts) {
    return {0, counts.data(), static_cast<int64_t>(counts.size()), 0, true};
  }
  HP_HOST_DEVICE int64_t Valid(int64_t i) const {
    if (i >= labels_count) return 0;
    if (are_counts) return static_cast<int64_t>(labels[i]);
    return LabelOf(labels[i]) != ignore_label ? 1 : 0;
  }
};

/// The reduction (launch.h) that computes the sum of values[0, rows) in double and the count, in a fixed order, in one
/// block of threads; a batch has few rows.
template <typename Result>
struct BatchSum {
  struct Value {
    double sum;
    int64_t valid;
  };
  const float* values;
  int64_t rows;
  SampleCount count;
  Result result;

  HP_HOST_DEVICE Value Identity() const { return {0, 0}; }
  HP_HOST_DEVICE Value Map(int64_t, int64_t i) const { return {i < rows ? values[i] : 0.0, count.Valid(i)}; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return {a.sum + b.sum, a.valid + b.valid}; }
  HP_HOST_DEVICE void Finish(int64_t, const Value& value) const {
    result(value.sum, count.labels == nullptr ? count.fixed : value.valid);
  }
};

/// Puts into `stream`: result(double sum of values[0, rows), int64_t count), called once on the device.
template <typename Result>
void SumOverBatch(const GpuStream& stream, const float* values, int64_t rows, const SampleCount& count,
                  const Result& result) {
  const int64_t width = rows > count.labels_count ? rows : count.labels_count;
  ReduceRows(stream, 1, width, BatchSum<Result>{values, rows, count, result});
}

}  // namespace hp::cuda
