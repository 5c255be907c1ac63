// Windows are clipped once, when the op is made: Axis has, for each output index, the window's range in the image and
// Caffe's divisor, and for each place of the image the range of windows that cover it. The forward pass loops over
// outputs. The backward pass loops over rows of the input and collects from the windows that cover the row, so no two
// threads add to one element and sums have a fixed order. Vectors run along the channels of a block; in dense NCHW,
// with one channel in a block, loops are scalar.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/vec.h"
#include "backend/stochastic_pooling_rule.h"
#include "backend/window.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace hp {
namespace {

/// The windows along one axis, and the reverse: which windows cover a place of the image.
struct Axis {
  struct Window {
    int32_t first;       ///< place of the window's element 0, which may lie in the padding
    int32_t begin, end;  ///< clipped to the image
    int32_t extent;      ///< clipped to image and padding: Caffe's divisor
  };
  struct Range {
    int32_t begin = 0, end = 0;
  };
  std::vector<Window> windows;
  std::vector<Range> covering;

  Axis() = default;
  Axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad) : covering(in) {
    for (int64_t o = 0; o < out; ++o) {
      const int64_t first = o * stride - pad, end = std::min(first + kernel, in + pad);
      windows.push_back({static_cast<int32_t>(first), static_cast<int32_t>(std::max<int64_t>(first, 0)),
                         static_cast<int32_t>(std::min(end, in)), static_cast<int32_t>(end - first)});
    }
    // Windows begin and end in ascending order, so those that cover a place are a range.
    for (int64_t i = 0; i < in; ++i) {
      int64_t o = 0;
      while (o < out && windows[o].end <= i) ++o;
      covering[i].begin = static_cast<int32_t>(o);
      while (o < out && windows[o].begin <= i) ++o;
      covering[i].end = static_cast<int32_t>(o);
    }
  }
};

/// Planes [H][W][block] of the input and of the output; `outer` of them.
struct Geometry {
  int64_t outer = 0, block = 1, in_w = 0, in_h = 0, out_h = 0, out_w = 0, kernel_w = 0, kernel_h = 0;
  Axis rows, columns;

  Geometry(const PoolingDesc& desc, const TensorDesc& in, const Shape& out)
      : block(in.dense() ? 1 : in.channel_block), in_w(in.shape[3]), in_h(in.shape[2]), out_h(out[2]), out_w(out[3]) {
    outer = in.shape[0] * in.shape[1] / block;
    kernel_h = desc.global ? in_h : desc.kernel_h;
    kernel_w = desc.global ? in_w : desc.kernel_w;
    rows = Axis(in_h, out_h, kernel_h, desc.global ? 1 : desc.stride_h, desc.global ? 0 : desc.pad_h);
    columns = Axis(in_w, out_w, kernel_w, desc.global ? 1 : desc.stride_w, desc.global ? 0 : desc.pad_w);
  }
};

/// Calls body(width, plane, row, channel in the block) for each row of each plane, rows in parallel.
template <typename Body>
void ForEachRow(const Geometry& g, int64_t rows, const Body& body) {
#pragma omp parallel for collapse(2) schedule(static) if (g.outer * g.block * g.in_h * g.in_w > kSerialElements)
  for (int64_t plane = 0; plane < g.outer; ++plane) {
    for (int64_t row = 0; row < rows; ++row) {
      ForEachChunk(g.block, [&](auto width, int64_t channel) { body(width, plane, row, channel); });
    }
  }
}

/// Pixels of a row whose sums are in a buffer: 16 KiB of 16 channels each.
constexpr int64_t kBufferedPixels = 256;

/// Writes a row of an input's gradient: add(begin, end, to, stride) adds to pixels [begin, end), of which `to` has the
/// first; all pixels at once where the row is floats, else piece by piece in a buffer, so that each sum is rounded
/// once.
template <int W, typename T, typename Add>
void WriteRow(const Geometry& g, T* row, const Add& add) {
  if constexpr (std::is_same_v<T, float>) {
    for (int64_t w = 0; w < g.in_w; ++w) Store<W>(row + w * g.block, FloatVec<W>{});
    add(0, g.in_w, row, g.block);
  } else {
    alignas(64) float sums[kBufferedPixels * W];
    for (int64_t begin = 0; begin < g.in_w; begin += kBufferedPixels) {
      const int64_t pixels = std::min(g.in_w - begin, kBufferedPixels);
      std::fill_n(sums, pixels * W, 0.0f);
      add(begin, begin + pixels, sums, int64_t{W});
      for (int64_t w = 0; w < pixels; ++w) Store<W>(row + (begin + w) * g.block, Load<W>(sums + w * W));
    }
  }
}

/// @tparam T float or BFloat16.
template <typename T>
class AveragePoolingOp final : public Op {
 public:
  AveragePoolingOp(const PoolingDesc& desc, const TensorDesc& in) : g_(desc, in, PooledShape(desc, in.shape)) {
    outputs_ = {{PooledShape(desc, in.shape), in.channel_block, in.element}};
  }

  void Forward(const OpArgs& args) override {
    const T* in = DataOf<const T>(args.in[0]);
    T* out = DataOf<T>(args.out[0]);
    ForEachRow(g_, g_.out_h, [&](auto width, int64_t plane, int64_t row, int64_t channel) {
      ForwardRow<decltype(width)::value>(in + plane * g_.in_h * g_.in_w * g_.block + channel, row,
                                         out + (plane * g_.out_h + row) * g_.out_w * g_.block + channel);
    });
  }

  void BackwardInput(const OpArgs& args) override {
    T* d_in = DataOf<T>(args.d_in[0]);
    if (d_in == nullptr) return;
    const T* d_out = DataOf<const T>(args.d_out[0]);
    ForEachRow(g_, g_.in_h, [&](auto width, int64_t plane, int64_t row, int64_t channel) {
      BackwardRow<decltype(width)::value>(d_out + plane * g_.out_h * g_.out_w * g_.block + channel, row,
                                          d_in + (plane * g_.in_h + row) * g_.in_w * g_.block + channel);
    });
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  template <int W>
  void ForwardRow(const T* in, int64_t row, T* out) const {
    const Axis::Window& r = g_.rows.windows[row];
    for (const Axis::Window& c : g_.columns.windows) {
      FloatVec<W> sum = {};
      for (int64_t h = r.begin; h < r.end; ++h) {
        for (int64_t w = c.begin; w < c.end; ++w) sum += Load<W>(in + (h * g_.in_w + w) * g_.block);
      }
      Store<W>(out, sum * (1.0f / static_cast<float>(r.extent * c.extent)));
      out += g_.block;
    }
  }

  /// Each row collects from the windows that cover it, in their order.
  template <int W>
  void BackwardRow(const T* d_out, int64_t row, T* d_in) const {
    const Axis::Range& r = g_.rows.covering[row];
    WriteRow<W>(g_, d_in, [&](int64_t begin, int64_t end, float* to, int64_t stride) {
      for (int64_t h = r.begin; h < r.end; ++h) {
        const T* gradient = d_out + h * g_.out_w * g_.block;
        for (const Axis::Window& c : g_.columns.windows) {
          const FloatVec<W> share =
              Load<W>(gradient) * (1.0f / static_cast<float>(g_.rows.windows[h].extent * c.extent));
          for (int64_t w = std::max<int64_t>(begin, c.begin); w < std::min<int64_t>(end, c.end); ++w) {
            float* const place = to + (w - begin) * stride;
            Store<W>(place, Load<W>(place) + share);
          }
          gradient += g_.block;
        }
      }
    });
  }

  const Geometry g_;
};

/// Keeps in `saved` where in its window each maximum stood (the first of equal ones): a byte if the kernel allows it.
/// @tparam T float or BFloat16.
template <typename Index, typename T>
class MaxPoolingOp : public Op {
 public:
  MaxPoolingOp(const PoolingDesc& desc, const TensorDesc& in) : g_(desc, in, PooledShape(desc, in.shape)) {
    outputs_ = {{PooledShape(desc, in.shape), in.channel_block, in.element}};
    saved_bytes_ = outputs_[0].count() * sizeof(Index);
  }

  void Forward(const OpArgs& args) override {
    const T* in = DataOf<const T>(args.in[0]);
    T* out = DataOf<T>(args.out[0]);
    Index* places = reinterpret_cast<Index*>(args.saved);
    ForEachRow(g_, g_.out_h, [&](auto width, int64_t plane, int64_t row, int64_t channel) {
      const int64_t begin = (plane * g_.out_h + row) * g_.out_w * g_.block + channel;
      ForwardRow<decltype(width)::value>(in + plane * g_.in_h * g_.in_w * g_.block + channel, row, out + begin,
                                         places + begin);
    });
  }

  void BackwardInput(const OpArgs& args) override {
    T* d_in = DataOf<T>(args.d_in[0]);
    if (d_in == nullptr) return;
    const T* d_out = DataOf<const T>(args.d_out[0]);
    const Index* places = reinterpret_cast<const Index*>(args.saved);
    ForEachRow(g_, g_.in_h, [&](auto width, int64_t plane, int64_t row, int64_t channel) {
      const int64_t begin = plane * g_.out_h * g_.out_w * g_.block + channel;
      BackwardRow<decltype(width)::value>(d_out + begin, places + begin, row,
                                          d_in + (plane * g_.in_h + row) * g_.in_w * g_.block + channel);
    });
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 protected:
  int32_t Place(const Axis::Window& row, const Axis::Window& column, int64_t h, int64_t w) const {
    return static_cast<int32_t>((h - row.first) * g_.kernel_w + w - column.first);
  }

  const Geometry g_;

 private:
  template <int W>
  struct Places {
    typedef Index Vec __attribute__((vector_size(sizeof(Index) * W)));
  };

  // A loop, since GCC 12 takes __builtin_convertvector of this kind apart into single elements.
  template <int W>
  static void StorePlaces(IntVec<W> places, Index* to) {
    int32_t wide[W];
    std::memcpy(wide, &places, sizeof(wide));
#pragma omp simd
    for (int i = 0; i < W; ++i) to[i] = static_cast<Index>(wide[i]);
  }

  template <int W>
  void ForwardRow(const T* in, int64_t row, T* out, Index* places) const {
    const Axis::Window& r = g_.rows.windows[row];
    for (const Axis::Window& c : g_.columns.windows) {
      // Begins with the first element, not with the least float: a NaN there must come through.
      FloatVec<W> best = Load<W>(in + (r.begin * g_.in_w + c.begin) * g_.block);
      IntVec<W> place = IntVec<W>{} + Place(r, c, r.begin, c.begin);
      for (int64_t h = r.begin; h < r.end; ++h) {
        for (int64_t w = c.begin; w < c.end; ++w) {
          const FloatVec<W> x = Load<W>(in + (h * g_.in_w + w) * g_.block);
          const IntVec<W> greater = x > best;
          best = greater ? x : best;
          place = greater ? IntVec<W>{} + Place(r, c, h, w) : place;
        }
      }
      Store<W>(out, best);
      StorePlaces<W>(place, places);
      out += g_.block;
      places += g_.block;
    }
  }

  template <int W>
  void BackwardRow(const T* d_out, const Index* places, int64_t row, T* d_in) const {
    const Axis::Range& r = g_.rows.covering[row];
    WriteRow<W>(g_, d_in, [&](int64_t begin, int64_t end, float* to, int64_t stride) {
      for (int64_t h = r.begin; h < r.end; ++h) {
        int64_t o = h * g_.out_w * g_.block;
        for (const Axis::Window& c : g_.columns.windows) {
          const FloatVec<W> gradient = Load<W>(d_out + o);
          typename Places<W>::Vec stored;
          std::memcpy(&stored, places + o, sizeof(stored));
          const IntVec<W> chosen = __builtin_convertvector(stored, IntVec<W>);
          const int32_t first = Place(g_.rows.windows[h], c, row, 0);
          const auto from = std::max(static_cast<int32_t>(begin), c.begin);
          for (int32_t w = from; w < std::min(static_cast<int32_t>(end), c.end); ++w) {
            float* const place = to + (w - begin) * stride;
            Store<W>(place, Load<W>(place) + (chosen == first + w ? gradient : FloatVec<W>{}));
          }
          o += g_.block;
        }
      }
    });
  }
};

/// A maximum's place is the place of the value that was drawn. In a test there is no place.
template <typename Index>
class StochasticPoolingOp final : public MaxPoolingOp<Index, float> {
 public:
  StochasticPoolingOp(const PoolingDesc& desc, const TensorDesc& in)
      : MaxPoolingOp<Index, float>(desc, in),
        rule_{desc.stream_key},
        train_(desc.train),
        planes_(in.shape[1] / this->g_.block) {}

  void Forward(const OpArgs& args) override {
    const Geometry& g = this->g_;
    const float* const in = args.in[0].floats();
    float* const out = args.out[0].floats();
    Index* const places = reinterpret_cast<Index*>(args.saved);
    const int64_t pixels = g.out_h * g.out_w, lines = g.outer * g.out_h;
    const bool train = train_.value_or(args.batch->train);
#pragma omp parallel for schedule(static) if (lines * g.out_w * g.block > kSerialElements)
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t plane = line / g.out_h, h = line % g.out_h;
      const uint64_t sample = args.batch->first_sample + static_cast<uint64_t>(plane / planes_);
      for (int64_t i = 0; i < g.out_w * g.block; ++i) {
        const int64_t w = i / g.block, c = i % g.block, at = (line * g.out_w + w) * g.block + c;
        const float* const from = in + plane * g.in_h * g.in_w * g.block + c;
        const int64_t unit = (plane % planes_ * g.block + c) * pixels + h * g.out_w + w;
        out[at] = train ? Draw(from, h, w, rule_.Share(sample, unit), places + at) : Sum(from, h, w).Mean();
      }
    }
  }

 private:
  using Choice = StochasticPoolingRule::Choice;

  float At(const float* from, int64_t h, int64_t w) const { return from[(h * this->g_.in_w + w) * this->g_.block]; }

  Choice Sum(const float* from, int64_t row, int64_t column) const {
    const Axis::Window &r = this->g_.rows.windows[row], &c = this->g_.columns.windows[column];
    Choice choice;
    for (int64_t h = r.begin; h < r.end; ++h) {
      for (int64_t w = c.begin; w < c.end; ++w) choice.Add(At(from, h, w));
    }
    return choice;
  }

  float Draw(const float* from, int64_t row, int64_t column, float share, Index* place) const {
    const Axis::Window &r = this->g_.rows.windows[row], &c = this->g_.columns.windows[column];
    Choice choice = Sum(from, row, column);
    for (int64_t h = r.begin; h < r.end; ++h) {
      for (int64_t w = c.begin; w < c.end; ++w) {
        const float x = At(from, h, w);
        if (!choice.TakesNext(x, share)) continue;
        *place = static_cast<Index>(this->Place(r, c, h, w));
        return std::isnan(choice.sum) ? choice.sum : x;
      }
    }
    LOG(FATAL) << "a share of a sum above the sum";
    return 0;
  }

  const StochasticPoolingRule rule_;
  const std::optional<bool> train_;
  const int64_t planes_;  // of a sample
};

template <typename Index>
StatusOr<Backend::OpPtr> MakeChoice(const PoolingDesc& desc, const Backend::Descs& in) {
  if (desc.method == PoolingDesc::kStochastic) {
    return OnFloat32(in, [&](const Backend::Descs& floats) -> StatusOr<Backend::OpPtr> {
      return Backend::OpPtr(std::make_unique<StochasticPoolingOp<Index>>(desc, floats[0]));
    });
  }
  return OfElement(in[0].element, [&](auto tag) {
    return Backend::OpPtr(std::make_unique<MaxPoolingOp<Index, typename decltype(tag)::Type>>(desc, in[0]));
  });
}

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Pooling(const PoolingDesc& desc, const Descs& in) {
  if (desc.method == PoolingDesc::kAve) {
    return OfElement(in[0].element, [&](auto tag) {
      return Backend::OpPtr(std::make_unique<AveragePoolingOp<typename decltype(tag)::Type>>(desc, in[0]));
    });
  }
  const Shape& shape = in[0].shape;
  const int64_t kernel = desc.global ? shape[2] * shape[3] : desc.kernel_h * desc.kernel_w;
  return kernel <= 256 ? MakeChoice<uint8_t>(desc, in) : MakeChoice<int32_t>(desc, in);
}

}  // namespace hp
