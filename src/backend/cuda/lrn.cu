#include "backend/cuda/channel_places.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/element.h"
#include "backend/cuda/lrn.h"
#include "backend/cuda/rows.h"
#include "backend/layout.h"

namespace hp::cuda {
namespace {

/// A window's extent along one axis of an image, around the place of element i.
struct WindowAxis {
  Divisor stride, size;  ///< elements from one place to the next; places
  int32_t margin;        ///< on either side

  struct Range {
    int32_t begin, end;  ///< relative to the own place
  };
  HP_HOST_DEVICE Range Around(uint32_t i) const {
    uint32_t place;
    size.Quotient(stride.Quotient(i), &place);
    const int32_t before = static_cast<int32_t>(place), behind = static_cast<int32_t>(size.value() - 1 - place);
    return {before < margin ? -before : -margin, (behind < margin ? behind : margin) + 1};
  }
};

/// The window of any element: channels of its pixel, or places of its channel; in either layout.
struct Window {
  WindowAxis rows, columns;

  HP_HOST_DEVICE float Sum(const float* values, uint32_t i) const { return Add<false>(values, i); }
  template <typename T>
  HP_HOST_DEVICE float SumOfSquares(const T* values, uint32_t i) const {
    return Add<true>(values, i);
  }

 private:
  template <bool kSquares, typename T>
  HP_HOST_DEVICE float Add(const T* values, uint32_t i) const {
    const WindowAxis::Range row = rows.Around(i), column = columns.Around(i);
    float sum = 0;
    for (int32_t h = row.begin; h < row.end; ++h) {
      const T* line = values + i + h * static_cast<int64_t>(rows.stride.value());
      for (int32_t w = column.begin; w < column.end; ++w) {
        const float value = ToFloat(line[w * static_cast<int64_t>(columns.stride.value())]);
        sum += kSquares ? value * value : value;
      }
    }
    return sum;
  }
};

template <typename Power, typename T>
struct AnyForward {
  LrnTerms<Power> t;
  Window window;
  int64_t image_size;
  const T* x;
  T* y;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    const T* own = x + image * image_size;
    float next;
    Put(ToFloat(own[i]) * t.power(t.k + t.scale * window.SumOfSquares(own, i), &next), y + image * image_size + i);
  }
};

/// The gradient's first term, and the ratios that the second is a sum of.
template <typename Power, typename T>
struct AnyRatios {
  LrnTerms<Power> t;
  Window window;
  int64_t image_size;
  const T *x, *dy;
  T* dx;
  float* ratios;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    const T* own = x + image * image_size;
    const int64_t at = image * image_size + i;
    const float gradient = ToFloat(dy[at]);
    float next;
    const float power = t.power(t.k + t.scale * window.SumOfSquares(own, i), &next);
    ratios[at] = gradient * ToFloat(own[i]) * next;
    Put(gradient * power, dx + at);
  }
};

template <typename T>
struct AnyBackward {
  float gradient_scale;
  Window window;
  int64_t image_size;
  const T* x;
  const float* ratios;
  T* dx;
  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    const int64_t at = image * image_size + i;
    const float second = gradient_scale * ToFloat(x[at]) * window.Sum(ratios + image * image_size, i);
    Put(ToFloat(dx[at]) + second, dx + at);
  }
};

/// The common case: NHWC, a window of kSize channels that reaches no further than the next pack. A thread has four
/// channels and all that their results depend on, 12 of them, in registers: each tensor is read from memory once, and
/// nothing is kept between the directions. Input and output may each lie in groups of channels.
template <typename Power, int kSize>
struct PackedAcross {
  static constexpr int kMargin = kSize / 2, kSpan = 12, kOwn = 4;  // the own channels are 4 to 7 of 12
  static_assert(2 * kMargin <= kOwn);

  LrnTerms<Power> t;
  Divisor packs;          ///< of a pixel
  int64_t pixels;         ///< of an image
  ChannelPlaces in, out;  ///< in packs

  struct Span {
    float of[kSpan];
  };
  /// A pack and its neighbours; zeros beyond the channels.
  template <typename T>
  HP_HOST_DEVICE Span Load(const T* values, const ChannelPlaces& places, int64_t pixel, uint32_t pack) const {
    Span span = {};
    if (pack > 0) Place(ReadPack<4>(values + kOwn * places.At(pixel, pack - 1)), 0, &span);
    Place(ReadPack<4>(values + kOwn * places.At(pixel, pack)), kOwn, &span);
    if (pack + 1 < packs.value()) Place(ReadPack<4>(values + kOwn * places.At(pixel, pack + 1)), 2 * kOwn, &span);
    return span;
  }
  HP_HOST_DEVICE static void Place(const Pack<float, 4>& pack, int first, Span* span) {
    for (int k = 0; k < 4; ++k) span->of[first + k] = pack.of[k];
  }
  HP_HOST_DEVICE static Span Squares(const Span& x) {
    Span squares;
    for (int j = 0; j < kSpan; ++j) squares.of[j] = x.of[j] * x.of[j];
    return squares;
  }
  HP_HOST_DEVICE static float WindowSum(const Span& values, int centre) {
    float sum = values.of[centre - kMargin];
    for (int j = centre - kMargin + 1; j <= centre + kMargin; ++j) sum += values.of[j];
    return sum;
  }
  HP_HOST_DEVICE int64_t PixelOf(int64_t image, uint32_t i, uint32_t* pack) const {
    return image * pixels + packs.Quotient(i, pack);
  }
};

/// Reads x, writes y.
template <typename Power, int kSize, typename T>
struct PackedForward : PackedAcross<Power, kSize> {
  using Base = PackedAcross<Power, kSize>;
  using Span = typename Base::Span;
  const T* x;
  T* y;
  PackedForward(const Base& base, const T* x, T* y) : Base(base), x(x), y(y) {}

  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    uint32_t pack;
    const int64_t pixel = this->PixelOf(image, i, &pack);
    const Span values = this->Load(x, this->in, pixel, pack), squares = this->Squares(values);
    Pack<float, 4> result;
    float next;
    for (int k = 0; k < 4; ++k) {
      const float s = this->t.k + this->t.scale * this->WindowSum(squares, Base::kOwn + k);
      result.of[k] = values.of[Base::kOwn + k] * this->t.power(s, &next);
    }
    WritePack(y + Base::kOwn * this->out.At(pixel, pack), result);
  }
};

/// Reads x and dy, writes dx.
template <typename Power, int kSize, typename T>
struct PackedBackward : PackedAcross<Power, kSize> {
  using Base = PackedAcross<Power, kSize>;
  using Span = typename Base::Span;
  const T *x, *dy;
  T* dx;
  PackedBackward(const Base& base, const T* x, const T* dy, T* dx) : Base(base), x(x), dy(dy), dx(dx) {}

  HP_HOST_DEVICE void operator()(int64_t image, uint32_t i) const {
    constexpr int kOwn = Base::kOwn, kMargin = Base::kMargin;
    uint32_t pack;
    const int64_t pixel = this->PixelOf(image, i, &pack);
    const Span values = this->Load(x, this->in, pixel, pack), gradients = this->Load(dy, this->out, pixel, pack);
    const Span squares = this->Squares(values);
    Span ratios = {}, powers = {};
    for (int j = kOwn - kMargin; j < 2 * kOwn + kMargin; ++j) {
      float next;
      powers.of[j] = this->t.power(this->t.k + this->t.scale * this->WindowSum(squares, j), &next);
      ratios.of[j] = gradients.of[j] * values.of[j] * next;
    }
    Pack<float, 4> result;
    for (int k = kOwn; k < 2 * kOwn; ++k) {
      result.of[k - kOwn] =
          gradients.of[k] * powers.of[k] + this->t.gradient_scale * values.of[k] * this->WindowSum(ratios, k);
    }
    WritePack(dx + kOwn * this->in.At(pixel, pack), result);
  }
};

/// The window across channels or within one; Caffe's LRN within a channel is 1 + alpha/n^2 ..., `k` plays no part.
Window MakeWindow(const LrnDesc& desc, const TensorDesc& in) {
  const int64_t channels = in.shape[1], height = in.shape[2], width = in.shape[3];
  const bool nhwc = !in.dense();
  const int32_t margin = static_cast<int32_t>(desc.local_size / 2);
  if (desc.region == LrnDesc::kAcrossChannels) {
    return {{Divisor(1), Divisor(1), 0}, {Divisor(nhwc ? 1 : height * width), Divisor(channels), margin}};
  }
  const int64_t step = nhwc ? channels : 1;
  return {{Divisor(step * width), Divisor(height), margin}, {Divisor(step), Divisor(width), margin}};
}

template <typename Power>
LrnTerms<Power> MakeTerms(const LrnDesc& desc, const Power& power) {
  const bool across = desc.region == LrnDesc::kAcrossChannels;
  const float scale = desc.alpha / static_cast<float>(across ? desc.local_size : desc.local_size * desc.local_size);
  return {across ? desc.k : 1.0f, scale, -2 * scale * desc.beta, power};
}

/// Any window in any layout: an element's sums are read through the cache. Backward, the ratios go through scratch,
/// as each is part of many sums.
template <typename Power, typename T>
class LrnOp : public Op {
 public:
  LrnOp(const GpuContext& context, const LrnDesc& desc, const Power& power, const TensorDesc& in)
      : context_(context),
        terms_(MakeTerms(desc, power)),
        images_(in.shape[0]),
        image_size_(in.shape.count(1)),
        window_(MakeWindow(desc, in)) {
    outputs_ = {in};
    scratch_bytes_ = in.count() * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    ForEachInRows(context_.stream(), images_, image_size_,
                  AnyForward<Power, T>{terms_, window_, image_size_, DataAs<T>(args.in[0]), DataAs<T>(args.out[0])});
  }
  void BackwardInput(const OpArgs& args) override {
    const T *x = DataAs<T>(args.in[0]), *dy = DataAs<T>(args.d_out[0]);
    T* dx = DataAs<T>(args.d_in[0]);
    float* ratios = reinterpret_cast<float*>(args.scratch);
    if (dx == nullptr) return;
    ForEachInRows(context_.stream(), images_, image_size_,
                  AnyRatios<Power, T>{terms_, window_, image_size_, x, dy, dx, ratios});
    ForEachInRows(context_.stream(), images_, image_size_,
                  AnyBackward<T>{terms_.gradient_scale, window_, image_size_, x, ratios, dx});
  }
  bool backward_reads_output() const override { return false; }

 protected:
  const GpuContext context_;
  const LrnTerms<Power> terms_;
  const int64_t images_, image_size_;

 private:
  const Window window_;
};

/// The kernels above. Images are whole packs, so what begins at one of them is aligned.
template <typename Power, int kSize, typename T>
class PackedLrnOp final : public LrnOp<Power, T> {
 public:
  PackedLrnOp(const GpuContext& context, const LrnDesc& desc, const Power& power, const TensorDesc& in)
      : LrnOp<Power, T>(context, desc, power, in),
        across_{this->terms_, Divisor(in.shape[1] / 4), in.shape.count(2), PlacesOf(in.shape, 1),
                PlacesOf(in.shape, 1)} {
    this->scratch_bytes_ = 0;
  }

  void Forward(const OpArgs& args) override {
    const T* x = DataAs<T>(args.in[0]);
    T* y = DataAs<T>(args.out[0]);
    CHECK(Packable({x, y}));
    Run(PackedForward<Power, kSize, T>(across_, x, y));
  }
  void BackwardInput(const OpArgs& args) override {
    const T *x = DataAs<T>(args.in[0]), *dy = DataAs<T>(args.d_out[0]);
    T* dx = DataAs<T>(args.d_in[0]);
    if (dx == nullptr) return;
    CHECK(Packable({x, dy, dx}));
    Run(PackedBackward<Power, kSize, T>(across_, x, dy, dx));
  }
  bool ReadGroups(int64_t groups) override { return LieInGroups(groups, &across_.in); }
  bool WriteGroups(int64_t groups) override { return LieInGroups(groups, &across_.out); }

 private:
  static ChannelPlaces PlacesOf(const Shape& shape, int64_t groups) {
    return {Divisor(shape[1] / groups / 4), shape[0] * shape.count(2)};
  }
  bool LieInGroups(int64_t groups, ChannelPlaces* places) const {
    const Shape& shape = this->outputs_[0].shape;
    if (shape[1] % (4 * groups) != 0) return false;
    *places = PlacesOf(shape, groups);
    return true;
  }
  template <typename Functor>
  void Run(const Functor& functor) const {
    ForEachInRows(this->context_.stream(), this->images_, across_.pixels * across_.packs.value(), functor);
  }
  PackedAcross<Power, kSize> across_;
};

template <typename T, typename Power>
Backend::OpPtr MakeOf(const GpuContext& context, const LrnDesc& desc, const Power& power, const TensorDesc& in) {
  const bool packs = desc.region == LrnDesc::kAcrossChannels && !in.dense() && in.shape[1] % 4 == 0;
  if (packs && desc.local_size == 5) return std::make_unique<PackedLrnOp<Power, 5, T>>(context, desc, power, in);
  if (packs && desc.local_size == 3) return std::make_unique<PackedLrnOp<Power, 3, T>>(context, desc, power, in);
  return std::make_unique<LrnOp<Power, T>>(context, desc, power, in);
}

template <typename Power>
Backend::OpPtr Make(const GpuContext& context, const LrnDesc& desc, const Power& power, const TensorDesc& in) {
  return WithElementType(in.element,
                         [&](auto type) { return MakeOf<typename decltype(type)::Type>(context, desc, power, in); });
}

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Lrn(const LrnDesc& desc, const Descs& in) {
  if (desc.beta == 0.75f) return Make(context_, desc, ThreeQuarters{}, in[0]);
  return Make(context_, desc, AnyPower{desc.beta}, in[0]);
}

}  // namespace hp::cuda
