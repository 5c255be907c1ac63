#include "backend/cuda/element.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/parts.h"
#include "backend/cuda/value_place.h"
#include "backend/update.h"

#include "glog/logging.h"

#include <algorithm>
#include <vector>

namespace hp::cuda {
namespace {

// --- Updates

/// Of one launch.
constexpr int kMostUpdates = 28;

/// A copy that is written with the values.
class WrittenCopy {
 public:
  WrittenCopy() = default;
  WrittenCopy(const ValueCopy& copy, int64_t count) : data_(copy.data), place_(copy, count), element_(copy.element) {}

  HP_HOST_DEVICE bool there() const { return data_ != nullptr; }
  /// What becomes of values [i, i + W).
  template <int W>
  HP_HOST_DEVICE void Write(int64_t i, const Pack<float, W>& values) const {
    if (element_ == ElementType::kBFloat16) return WriteTo(static_cast<Bfloat16*>(data_), i, values);
    if (element_ == ElementType::kFloat16) return WriteTo(static_cast<Float16*>(data_), i, values);
    WriteTo(static_cast<float*>(data_), i, values);
  }

 private:
  template <int W, typename T>
  HP_HOST_DEVICE void WriteTo(T* to, int64_t i, const Pack<float, W>& values) const {
    if (place_.in_order()) return WritePack(to + i, values);
    for (int w = 0; w < W; ++w) Put(values.of[w], to + place_(i + w));
  }

  void* data_ = nullptr;
  ValuePlace place_;
  ElementType element_ = ElementType::kFloat32;
};

/// A part of UpdateParams, as its kernel sees it.
struct Updated {
  UpdateCoefficients coefficients;
  const float* gradient;
  float *history, *weights, *second;
  WrittenCopy copy;
  double* not_finite;

  /// Any thread may, and all write a NaN.
  HP_HOST_DEVICE void Check(float gradient_times_zero) const {
    if (gradient_times_zero == 0 || not_finite == nullptr) return;
    *not_finite = gradient_times_zero;
  }
};

/// Reads gradient, histories and weights, writes all but the first. An item is a pack, or an element of what is left.
template <UpdateRule kRule, bool kL1>
struct Update {
  PackRuns<kMostUpdates> runs;
  Updated parts[kMostUpdates];

  HP_HOST_DEVICE void operator()(int64_t item) const { runs.RunItem(item, *this); }
  template <int W>
  HP_HOST_DEVICE void Run(int of, int64_t i) const {
    const Updated& part = parts[of];
    const Pack<float, W> g = LoadPack<W>(part.gradient + i);
    Pack<float, W> w = LoadPack<W>(part.weights + i);
    if constexpr (kRule == UpdateRule::kAverage) {
      for (int k = 0; k < W; ++k) UpdateStep<kRule, kL1>(part.coefficients, g.of[k], nullptr, nullptr, &w.of[k]);
    } else {
      Pack<float, W> h = LoadPack<W>(part.history + i), s = {};
      if constexpr (HasSecond(kRule)) s = LoadPack<W>(part.second + i);
      for (int k = 0; k < W; ++k) UpdateStep<kRule, kL1>(part.coefficients, g.of[k], &h.of[k], &s.of[k], &w.of[k]);
      StorePack(part.history + i, h);
      if constexpr (HasSecond(kRule)) StorePack(part.second + i, s);
    }
    StorePack(part.weights + i, w);
    if (part.copy.there()) part.copy.Write(i, w);
    float zero = 0;
    for (int k = 0; k < W; ++k) zero += 0 * g.of[k];
    part.Check(zero);
  }
};
static_assert(sizeof(Update<UpdateRule::kSgd, true>) <= kMostArgumentBytes);

template <UpdateRule kRule, bool kL1>
void UpdateParts(const GpuStream& stream, std::span<const UpdatePart> parts) {
  Update<kRule, kL1> update = {};
  for (size_t i = 0; i < parts.size(); ++i) {
    const UpdatePart& part = parts[i];
    update.parts[i] = {part.coefficients, part.gradient, part.history,
                       part.weights,      part.second,   WrittenCopy(part.copy, part.n),
                       part.not_finite};
    update.runs.Add(part.n, Packable({part.gradient, part.history, part.second, part.weights}));
  }
  ForEach(stream, update.runs.items(), update);
}

// --- Sums of squares

constexpr int kMostParts = 44;       // of one launch
constexpr int64_t kLeastRow = 4096;  // values that a block of threads is worth waking for
constexpr int64_t kMostRows = 1024;  // of a part: enough blocks for any GPU

/// A part is cut into rows of this length; a function of n alone, as are the bits of the sum then.
HP_HOST_DEVICE inline int64_t RowLength(int64_t n) {
  const int64_t length = (n + kMostRows - 1) / kMostRows;
  return length < kLeastRow ? kLeastRow : length;
}

struct DoubleSum {
  using Value = double;
  HP_HOST_DEVICE double Identity() const { return 0; }
  HP_HOST_DEVICE double Combine(double a, double b) const { return a + b; }
};

struct SquaresOfRows : DoubleSum {
  Runs<kMostParts> rows;
  SquaresPart parts[kMostParts];
  double* sums;

  struct Row {
    const float* values;
    int64_t width;
    HP_HOST_DEVICE double operator()(int64_t i) const {
      const double value = values[i];
      return value * value;
    }
  };
  HP_HOST_DEVICE Row RowAt(int64_t row) const {
    int64_t within;
    const SquaresPart& part = parts[rows.PartOf(row, &within)];
    const int64_t length = RowLength(part.n), begin = within * length, left = part.n - begin;
    return {part.values + begin, left < length ? left : length};
  }
  HP_HOST_DEVICE void Finish(int64_t row, double sum) const { sums[row] = sum; }
};

struct SumOfRows : DoubleSum {
  Runs<kMostParts> rows;
  const double* row_sums;
  double* sums[kMostParts];

  struct Row {
    const double* sums;
    int64_t width;
    HP_HOST_DEVICE double operator()(int64_t i) const { return sums[i]; }
  };
  HP_HOST_DEVICE Row RowAt(int64_t part) const {
    const int64_t begin = part == 0 ? 0 : rows.ends[part - 1];
    return {row_sums + begin, rows.ends[part] - begin};
  }
  HP_HOST_DEVICE void Finish(int64_t part, double sum) const { *sums[part] = sum; }
};

}  // namespace

int64_t PartialSums() { return kMostParts * kMostRows; }

namespace {

template <UpdateRule kRule>
void UpdateLearned(const GpuStream& stream, std::span<const UpdatePart> parts) {
  const bool l1 = std::any_of(parts.begin(), parts.end(), [](const UpdatePart& p) { return p.coefficients.l1 != 0; });
  return l1 ? UpdateParts<kRule, true>(stream, parts) : UpdateParts<kRule, false>(stream, parts);
}

/// Parts of one rule: they differ in numbers, not in what is done with them.
void UpdateAlike(const GpuStream& stream, std::span<const UpdatePart> parts) {
  if (parts.empty()) return;
  ForParts<kMostUpdates>(parts, [&](std::span<const UpdatePart> some) {
    switch (parts[0].coefficients.rule) {
      case UpdateRule::kSgd:
        return UpdateLearned<UpdateRule::kSgd>(stream, some);
      case UpdateRule::kNesterov:
        return UpdateLearned<UpdateRule::kNesterov>(stream, some);
      case UpdateRule::kSquares:
        return UpdateLearned<UpdateRule::kSquares>(stream, some);
      case UpdateRule::kAdaDelta:
        return UpdateLearned<UpdateRule::kAdaDelta>(stream, some);
      case UpdateRule::kAdam:
        return UpdateLearned<UpdateRule::kAdam>(stream, some);
      case UpdateRule::kAverage:
        return UpdateParts<UpdateRule::kAverage, false>(stream, some);
    }
  });
}

}  // namespace

// What learns is of one solver, so of one rule; beside it there are averages.
void UpdateParams(const GpuStream& stream, std::span<const UpdatePart> parts) {
  std::vector<UpdatePart> learned, averages;
  for (const UpdatePart& part : parts) {
    (part.coefficients.rule == UpdateRule::kAverage ? averages : learned).push_back(part);
  }
  UpdateAlike(stream, learned);
  UpdateAlike(stream, averages);
}

void SumsOfSquares(const GpuContext& context, std::span<const SquaresPart> parts) {
  ForParts<kMostParts>(parts, [&](std::span<const SquaresPart> some) {
    SquaresOfRows rows = {};
    SumOfRows whole = {};
    for (size_t i = 0; i < some.size(); ++i) {
      rows.parts[i] = some[i];
      rows.rows.Add((some[i].n + RowLength(some[i].n) - 1) / RowLength(some[i].n));
      whole.sums[i] = some[i].sum;
    }
    rows.sums = context.partial_sums;
    whole.rows = rows.rows, whole.row_sums = context.partial_sums;
    ReduceRows(context.stream(), rows.rows.total(), 0, rows);
    ReduceRows(context.stream(), static_cast<int64_t>(some.size()), 0, whole);
  });
}

namespace {

struct ZeroValue {
  float* values;
  HP_HOST_DEVICE void operator()(int64_t i) const { values[i] = 0; }
};

}  // namespace

void Clear(const GpuStream& stream, std::span<float> values) {
  ForEach(stream, static_cast<int64_t>(values.size()), ZeroValue{values.data()});
}

}  // namespace hp::cuda
