#include "backend/cuda/channel_places.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/element.h"
#include "backend/cuda/rows.h"
#include "backend/stochastic_pooling_rule.h"
#include "backend/window.h"

namespace hp::cuda {
namespace {

/// The windows along one axis, and the reverse: which windows cover a place of the image.
struct Axis {
  int32_t in, out, kernel, pad;
  Divisor stride;

  Axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad)
      : in(static_cast<int32_t>(in)),
        out(static_cast<int32_t>(out)),
        kernel(static_cast<int32_t>(kernel)),
        pad(static_cast<int32_t>(pad)),
        stride(stride) {}

  /// The place of a window's element 0, which may lie in the padding.
  HP_HOST_DEVICE int32_t First(int32_t window) const { return window * static_cast<int32_t>(stride.value()) - pad; }
  /// Clipped to the image: [Begin, End).
  HP_HOST_DEVICE int32_t Begin(int32_t window) const { return First(window) > 0 ? First(window) : 0; }
  HP_HOST_DEVICE int32_t End(int32_t window) const { return Least(First(window) + kernel, in); }
  /// Clipped to image and padding: Caffe's divisor.
  HP_HOST_DEVICE int32_t Extent(int32_t window) const {
    return Least(First(window) + kernel, in + pad) - First(window);
  }
  /// The windows over a place: [FirstOver, EndOver).
  HP_HOST_DEVICE int32_t FirstOver(int32_t place) const {
    const int32_t before = place + pad - kernel;  // a window that begins here or earlier ends before the place
    return before < 0 ? 0 : static_cast<int32_t>(stride.Quotient(before)) + 1;
  }
  HP_HOST_DEVICE int32_t EndOver(int32_t place) const {
    return Least(static_cast<int32_t>(stride.Quotient(place + pad)) + 1, out);
  }
  HP_HOST_DEVICE static int32_t Least(int32_t a, int32_t b) { return a < b ? a : b; }
};

/// An image's planes, [planes][height][width][block] in memory: dense has a plane for each channel and block 1, NHWC
/// one plane and block C, which may lie in groups. Threads take packs of W neighbours of a block.
struct Geometry {
  Axis rows, columns;
  Divisor packs, in_width, in_height, out_width, out_height;
  int64_t images, planes;
  ChannelPlaces in_block, out_block;  ///< of planes of all images

  Geometry(const PoolingDesc& desc, const TensorDesc& in, const Shape& out, int width)
      : rows(in.shape[2], out[2], desc.global ? in.shape[2] : desc.kernel_h, desc.global ? 1 : desc.stride_h,
             desc.global ? 0 : desc.pad_h),
        columns(in.shape[3], out[3], desc.global ? in.shape[3] : desc.kernel_w, desc.global ? 1 : desc.stride_w,
                desc.global ? 0 : desc.pad_w),
        packs((in.dense() ? 1 : in.channel_block) / width),
        in_width(in.shape[3]),
        in_height(in.shape[2]),
        out_width(out[3]),
        out_height(out[2]),
        images(in.shape[0]),
        planes(in.shape[1] / (in.dense() ? 1 : in.channel_block)),
        in_block{Divisor(in.dense() ? 1 : in.channel_block), images * planes * rows.in * columns.in},
        out_block{in_block.per_group, images * planes * rows.out * columns.out} {}

  int64_t in_packs() const { return planes * rows.in * columns.in * packs.value(); }     // of an image
  int64_t out_packs() const { return planes * rows.out * columns.out * packs.value(); }  // of an image

  /// Where a thread works.
  struct Place {
    int64_t in, out;  ///< offsets of its channels in the first place of its plane
    int32_t row, column;
  };
  template <int W>
  HP_HOST_DEVICE Place At(int64_t image, uint32_t i, const Divisor& height, const Divisor& width) const {
    uint32_t pack, column, row;
    const uint32_t pixel = packs.Quotient(i, &pack);
    const uint32_t line = width.Quotient(pixel, &column);
    const int64_t plane = image * planes + height.Quotient(line, &row);
    const uint32_t channel = W * pack;
    return {in_block.At(plane * rows.in * columns.in, channel), out_block.At(plane * rows.out * columns.out, channel),
            static_cast<int32_t>(row), static_cast<int32_t>(column)};
  }
  HP_HOST_DEVICE int64_t In(int32_t row, int32_t column) const {
    return (int64_t{row} * columns.in + column) * in_block.per_group.value();
  }
  HP_HOST_DEVICE int64_t Out(int32_t row, int32_t column) const {
    return (int64_t{row} * columns.out + column) * out_block.per_group.value();
  }
};

/// Reads x, by the cache where windows overlap; writes y.
template <typename T, int W>
struct AverageForward {
  Geometry g;
  const T* x;
  T* y;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    const Geometry::Place at = g.At<W>(image, i, g.out_height, g.out_width);
    Pack<float, W> sum = {};
    for (int32_t h = g.rows.Begin(at.row); h < g.rows.End(at.row); ++h) {
      for (int32_t w = g.columns.Begin(at.column); w < g.columns.End(at.column); ++w) {
        const Pack<float, W> value = ReadPack<W>(x + at.in + g.In(h, w));
        for (int k = 0; k < W; ++k) sum.of[k] += value.of[k];
      }
    }
    const float share = 1.0f / static_cast<float>(g.rows.Extent(at.row) * g.columns.Extent(at.column));
    for (int k = 0; k < W; ++k) sum.of[k] *= share;
    WritePack(y + at.out + g.Out(at.row, at.column), sum);
  }
};

/// Each place collects from the windows over it, in their order. Reads dy, writes dx.
template <typename T, int W>
struct AverageBackward {
  Geometry g;
  const T* dy;
  T* dx;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    const Geometry::Place at = g.At<W>(image, i, g.in_height, g.in_width);
    Pack<float, W> sum = {};
    for (int32_t h = g.rows.FirstOver(at.row); h < g.rows.EndOver(at.row); ++h) {
      for (int32_t w = g.columns.FirstOver(at.column); w < g.columns.EndOver(at.column); ++w) {
        const Pack<float, W> value = ReadPack<W>(dy + at.out + g.Out(h, w));
        const float share = 1.0f / static_cast<float>(g.rows.Extent(h) * g.columns.Extent(w));
        for (int k = 0; k < W; ++k) sum.of[k] += value.of[k] * share;
      }
    }
    WritePack(dx + at.in + g.In(at.row, at.column), sum);
  }
};

/// Reads x, writes y and where in its window each maximum stood, the first of equal ones.
template <typename T, typename Index, int W>
struct MaxForward {
  Geometry g;
  const T* x;
  T* y;
  Index* chosen;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    const Geometry::Place at = g.At<W>(image, i, g.out_height, g.out_width);
    const int32_t top = g.rows.First(at.row), left = g.columns.First(at.column);
    const int32_t begin_h = g.rows.Begin(at.row), begin_w = g.columns.Begin(at.column);
    // Begins with the first element, not with the least float: a NaN there must come through.
    Pack<float, W> best = ReadPack<W>(x + at.in + g.In(begin_h, begin_w));
    Pack<Index, W> place;
    for (int k = 0; k < W; ++k) {
      place.of[k] = static_cast<Index>((begin_h - top) * g.columns.kernel + begin_w - left);
    }
    for (int32_t h = begin_h; h < g.rows.End(at.row); ++h) {
      for (int32_t w = begin_w; w < g.columns.End(at.column); ++w) {
        const Pack<float, W> value = ReadPack<W>(x + at.in + g.In(h, w));
        const Index here = static_cast<Index>((h - top) * g.columns.kernel + w - left);
        for (int k = 0; k < W; ++k) {
          const bool greater = value.of[k] > best.of[k];
          best.of[k] = greater ? value.of[k] : best.of[k];
          place.of[k] = greater ? here : place.of[k];
        }
      }
    }
    const int64_t out = at.out + g.Out(at.row, at.column);
    WritePack(y + out, best);
    StorePack(chosen + out, place);
  }
};

/// Each place collects from the windows over it that chose it, in their order. Reads dy and the choices, writes dx.
template <typename T, typename Index, int W>
struct MaxBackward {
  Geometry g;
  const T* dy;
  const Index* chosen;
  T* dx;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    const Geometry::Place at = g.At<W>(image, i, g.in_height, g.in_width);
    Pack<float, W> sum = {};
    for (int32_t h = g.rows.FirstOver(at.row); h < g.rows.EndOver(at.row); ++h) {
      for (int32_t w = g.columns.FirstOver(at.column); w < g.columns.EndOver(at.column); ++w) {
        const int64_t out = at.out + g.Out(h, w);
        const Index here =
            static_cast<Index>((at.row - g.rows.First(h)) * g.columns.kernel + at.column - g.columns.First(w));
        const Pack<float, W> value = ReadPack<W>(dy + out);
        const Pack<Index, W> place = LoadPack<W>(chosen + out);
        for (int k = 0; k < W; ++k) sum.of[k] += place.of[k] == here ? value.of[k] : 0.0f;
      }
    }
    WritePack(dx + at.in + g.In(at.row, at.column), sum);
  }
};

/// Reads x twice, writes y and where in its window the value stood that was drawn; in a test the mean, and no place.
template <typename T, typename Index>
struct StochasticForward {
  Geometry g;
  StochasticPoolingRule rule;
  const uint64_t* first_sample;  ///< in the device's memory
  bool train;
  const T* x;
  T* y;
  Index* chosen;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    const Geometry::Place at = g.At<1>(image, i, g.out_height, g.out_width);
    const int64_t out = at.out + g.Out(at.row, at.column);
    StochasticPoolingRule::Choice choice;
    for (int32_t h = g.rows.Begin(at.row); h < g.rows.End(at.row); ++h) {
      for (int32_t w = g.columns.Begin(at.column); w < g.columns.End(at.column); ++w) {
        choice.Add(ToFloat(x[at.in + g.In(h, w)]));
      }
    }
    if (!train) return Put(choice.Mean(), y + out);
    const int64_t pixels = int64_t{g.rows.out} * g.columns.out, block = g.out_block.per_group.value();
    const int64_t within = at.out - image * g.planes * pixels * block;  // plane * pixels * block + channel in the block
    const int64_t plane = within / (pixels * block), channel = within - plane * pixels * block + plane * block;
    const int64_t unit = channel * pixels + int64_t{at.row} * g.columns.out + at.column;
    const float share = rule.Share(*first_sample + image, unit);
    for (int32_t h = g.rows.Begin(at.row); h < g.rows.End(at.row); ++h) {
      for (int32_t w = g.columns.Begin(at.column); w < g.columns.End(at.column); ++w) {
        const float value = ToFloat(x[at.in + g.In(h, w)]);
        if (!choice.TakesNext(value, share)) continue;
        chosen[out] =
            static_cast<Index>((h - g.rows.First(at.row)) * g.columns.kernel + w - g.columns.First(at.column));
        return Put(choice.sum != choice.sum ? choice.sum : value, y + out);
      }
    }
  }
};

/// Keeps the input's layout. Channels are taken in packs of four where they lie side by side and the memory allows it.
class PoolingOp : public Op {
 public:
  PoolingOp(const GpuContext& context, const PoolingDesc& desc, const TensorDesc& in)
      : context_(context),
        packs_(!in.dense() && in.channel_block % 4 == 0),
        by_one_(desc, in, PooledShape(desc, in.shape), 1),
        by_four_(desc, in, PooledShape(desc, in.shape), packs_ ? 4 : 1) {
    outputs_ = {{PooledShape(desc, in.shape), in.channel_block, in.element}};
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }
  bool ReadGroups(int64_t groups) override { return LieInGroups(groups, &Geometry::in_block); }
  bool WriteGroups(int64_t groups) override { return LieInGroups(groups, &Geometry::out_block); }

 protected:
  bool Packs(const void* x, const void* y, const void* saved) const { return packs_ && Packable({x, y, saved}); }
  const Geometry& geometry(bool packs) const { return packs ? by_four_ : by_one_; }
  template <typename Functor>
  void ForOutputs(const Functor& functor) const {
    ForEachInRows(context_.stream(), functor.g.images, functor.g.out_packs(), functor);
  }
  template <typename Functor>
  void ForInputs(const Functor& functor) const {
    ForEachInRows(context_.stream(), functor.g.images, functor.g.in_packs(), functor);
  }

 private:
  bool LieInGroups(int64_t groups, ChannelPlaces Geometry::*block) {
    const int64_t channels = outputs_[0].shape[1];
    const bool may = groups == 1 || (outputs_[0].channel_block == channels && channels % (4 * groups) == 0);
    if (!may) return false;
    for (Geometry* const g : {&by_one_, &by_four_}) (g->*block).per_group = Divisor(outputs_[0].channel_block / groups);
    return true;
  }

  const GpuContext context_;
  const bool packs_;
  Geometry by_one_, by_four_;
};

template <typename T>
class AveragePoolingOp final : public PoolingOp {
 public:
  using PoolingOp::PoolingOp;

  void Forward(const OpArgs& args) override {
    const T* x = DataAs<T>(args.in[0]);
    T* y = DataAs<T>(args.out[0]);
    const bool packs = this->Packs(x, y, nullptr);
    if (packs) {
      this->ForOutputs(AverageForward<T, 4>{this->geometry(packs), x, y});
    } else {
      this->ForOutputs(AverageForward<T, 1>{this->geometry(packs), x, y});
    }
  }
  void BackwardInput(const OpArgs& args) override {
    const T* dy = DataAs<T>(args.d_out[0]);
    T* dx = DataAs<T>(args.d_in[0]);
    if (dx == nullptr) return;
    const bool packs = this->Packs(dx, dy, nullptr);
    if (packs) {
      this->ForInputs(AverageBackward<T, 4>{this->geometry(packs), dy, dx});
    } else {
      this->ForInputs(AverageBackward<T, 1>{this->geometry(packs), dy, dx});
    }
  }
};

template <typename T, typename Index>
class MaxPoolingOp : public PoolingOp {
 public:
  MaxPoolingOp(const GpuContext& context, const PoolingDesc& desc, const TensorDesc& in)
      : PoolingOp(context, desc, in) {
    saved_bytes_ = outputs_[0].count() * sizeof(Index);
  }

  void Forward(const OpArgs& args) override {
    const T* x = DataAs<T>(args.in[0]);
    T* y = DataAs<T>(args.out[0]);
    Index* chosen = reinterpret_cast<Index*>(args.saved);
    const bool packs = this->Packs(x, y, chosen);
    if (packs) {
      this->ForOutputs(MaxForward<T, Index, 4>{this->geometry(packs), x, y, chosen});
    } else {
      this->ForOutputs(MaxForward<T, Index, 1>{this->geometry(packs), x, y, chosen});
    }
  }
  void BackwardInput(const OpArgs& args) override {
    const T* dy = DataAs<T>(args.d_out[0]);
    const Index* chosen = reinterpret_cast<const Index*>(args.saved);
    T* dx = DataAs<T>(args.d_in[0]);
    if (dx == nullptr) return;
    const bool packs = this->Packs(dx, dy, chosen);
    if (packs) {
      this->ForInputs(MaxBackward<T, Index, 4>{this->geometry(packs), dy, chosen, dx});
    } else {
      this->ForInputs(MaxBackward<T, Index, 1>{this->geometry(packs), dy, chosen, dx});
    }
  }
};

/// A maximum's place is the place of the value that was drawn.
template <typename T, typename Index>
class StochasticPoolingOp final : public MaxPoolingOp<T, Index> {
 public:
  StochasticPoolingOp(const GpuContext& context, const PoolingDesc& desc, const TensorDesc& in)
      : MaxPoolingOp<T, Index>(context, desc, in), rule_{desc.stream_key}, train_(desc.train) {}

  void Forward(const OpArgs& args) override {
    this->ForOutputs(StochasticForward<T, Index>{this->geometry(false), rule_, args.batch->first_sample_on_device,
                                                 train_.value_or(args.batch->train), DataAs<T>(args.in[0]),
                                                 DataAs<T>(args.out[0]), reinterpret_cast<Index*>(args.saved)});
  }
  bool ReadGroups(int64_t groups) override { return groups == 1; }
  bool WriteGroups(int64_t groups) override { return groups == 1; }

 private:
  const StochasticPoolingRule rule_;
  const std::optional<bool> train_;
};

template <typename T, typename Index>
Backend::OpPtr MakeChoice(const GpuContext& context, const PoolingDesc& desc, const TensorDesc& in) {
  if (desc.method == PoolingDesc::kMax) return std::make_unique<MaxPoolingOp<T, Index>>(context, desc, in);
  return std::make_unique<StochasticPoolingOp<T, Index>>(context, desc, in);
}

template <typename T>
Backend::OpPtr Make(const GpuContext& context, const PoolingDesc& desc, const TensorDesc& in) {
  if (desc.method == PoolingDesc::kAve) return std::make_unique<AveragePoolingOp<T>>(context, desc, in);
  const int64_t kernel = desc.global ? in.shape[2] * in.shape[3] : desc.kernel_h * desc.kernel_w;
  return kernel <= 256 ? MakeChoice<T, uint8_t>(context, desc, in) : MakeChoice<T, int32_t>(context, desc, in);
}

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Pooling(const PoolingDesc& desc, const Descs& in) {
  return WithElementType(in[0].element,
                         [&](auto type) { return Make<typename decltype(type)::Type>(context_, desc, in[0]); });
}

}  // namespace hp::cuda
