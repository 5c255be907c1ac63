#pragma once

#include "backend/broadcast_rules.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/element.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/rows.h"
#include "backend/layout.h"
#include "tensor/tensor.h"

#include <cstdint>

// Numbers of their own for each channel, in either layout of a GPU. Only for .cu files.
namespace hp::cuda {

/// A tensor as [rows][channels][pixels], or NHWC as [rows][pixels][channels].
struct Channels {
  int64_t rows = 0, channels = 0, pixels = 0;
  bool nhwc = false;

  Channels(int64_t rows, int64_t channels, int64_t pixels) : rows(rows), channels(channels), pixels(pixels) {}
  /// @param desc of rank 2 or more.
  explicit Channels(const TensorDesc& desc)
      : rows(desc.shape[0]), channels(desc.shape[1]), pixels(desc.shape.count(2)), nhwc(LiesNhwc(desc)) {}

  HP_HOST_DEVICE int64_t Offset(int64_t row, int64_t channel, int64_t pixel) const {
    return row * channels * pixels + (nhwc ? pixel * channels + channel : channel * pixels + pixel);
  }
  /// @param item row * channels + channel.
  HP_HOST_DEVICE int64_t OffsetOf(int64_t item, int64_t pixel) const {
    const int64_t row = item / channels;
    return Offset(row, item - row * channels, pixel);
  }
};

/// Calls functor(int64_t offset, uint32_t channel) for each element.
template <typename Functor>
struct WithChannel {
  Functor functor;
  Divisor divisor;  ///< by what separates channels in a row
  int64_t width;
  bool nhwc;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    uint32_t rest;
    const uint32_t quotient = divisor.Quotient(i, &rest);
    functor(row * width + i, nhwc ? rest : quotient);
  }
};
template <typename Functor>
void ForEachWithChannel(const GpuStream& stream, const Channels& of, const Functor& functor) {
  if (of.rows * of.channels * of.pixels == 0) return;
  const int64_t width = of.channels * of.pixels;
  ForEachInRows(stream, of.rows, width,
                WithChannel<Functor>{functor, Divisor(of.nhwc ? of.channels : of.pixels), width, of.nhwc});
}

/// Calls functor(int64_t offset, int64_t item) for each element, `item` being row * channels + channel.
template <typename Functor>
struct WithItem {
  Functor functor;
  Divisor divisor;  ///< by what separates channels in a row
  int64_t width, channels;
  bool nhwc;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    uint32_t rest;
    const uint32_t quotient = divisor.Quotient(i, &rest);
    functor(row * width + i, row * channels + (nhwc ? rest : quotient));
  }
};
template <typename Functor>
void ForEachWithItem(const GpuStream& stream, const Channels& of, const Functor& functor) {
  if (of.rows * of.channels * of.pixels == 0) return;
  const int64_t width = of.channels * of.pixels;
  ForEachInRows(stream, of.rows, width,
                WithItem<Functor>{functor, Divisor(of.nhwc ? of.channels : of.pixels), width, of.channels, of.nhwc});
}

/// The first of two reductions: the elements of each row's channel.
///   struct Of { Value; Identity; Combine; Value At(int64_t offset, int64_t channel) const; }
template <typename Of>
struct InRow {
  using Value = typename Of::Value;
  Of of;
  Channels shape;
  Value* results;  ///< [rows][channels]
  HP_HOST_DEVICE Value Identity() const { return of.Identity(); }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return of.Combine(a, b); }
  HP_HOST_DEVICE Value Map(int64_t item, int64_t pixel) const {
    return of.At(shape.OffsetOf(item, pixel), item % shape.channels);
  }
  HP_HOST_DEVICE void Finish(int64_t item, const Value& value) const { results[item] = value; }
};

/// The second: the rows of each channel, in order. `finish(channel, value)`.
template <typename Of, typename End>
struct OverRows {
  using Value = typename Of::Value;
  Of of;
  End finish;
  int64_t channels;
  const Value* results;
  HP_HOST_DEVICE Value Identity() const { return of.Identity(); }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return of.Combine(a, b); }
  HP_HOST_DEVICE Value Map(int64_t channel, int64_t row) const { return results[row * channels + channel]; }
  HP_HOST_DEVICE void Finish(int64_t channel, const Value& value) const { finish(channel, value); }
};

/// Does a reduction (launch.h) of the pixels of each row's channel, item row * channels + channel.
template <typename Reduction>
void ReduceEachChannel(const GpuStream& stream, const Channels& shape, const Reduction& reduction) {
  constexpr int64_t kShort = 32;
  if (shape.nhwc || shape.pixels <= kShort) {  // neighbouring threads read neighbouring addresses, or few each
    ReduceShortRows(stream, shape.rows * shape.channels, shape.pixels, reduction);
  } else {
    ReduceRows(stream, shape.rows * shape.channels, shape.pixels, reduction);
  }
}

/// Combines all elements of each channel and calls finish(int64_t channel, value), in an order that the shape fixes.
/// @param results scratch for rows * channels values.
template <typename Of, typename End>
void ReduceChannels(const GpuStream& stream, const Channels& shape, const Of& of, typename Of::Value* results,
                    const End& finish) {
  ReduceEachChannel(stream, shape, InRow<Of>{of, shape, results});
  ReduceShortRows(stream, shape.channels, shape.rows, OverRows<Of, End>{of, finish, shape.channels, results});
}

/// For ReduceChannels: mean and sum of squared differences from it. Source: Chan, Golub, LeVeque, "Updating formulae
/// and a pairwise algorithm for computing sample variances", 1979.
template <typename T>
struct MomentsOf {
  struct Value {
    float count, mean, squares;
  };
  const T* x;
  HP_HOST_DEVICE Value Identity() const { return {0, 0, 0}; }
  HP_HOST_DEVICE Value At(int64_t offset, int64_t) const { return {1, ToFloat(x[offset]), 0}; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const float count = a.count + b.count, difference = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + difference * share, a.squares + b.squares + difference * difference * a.count * share};
  }
};

/// For ReduceChannels: the sums of dy, and of dy weight(z), z being what a parameter of the channel goes together with.
/// @tparam Function of broadcast_rules.h; by default the weight is z. If it does not read z, z may be null.
template <typename T, typename Function = broadcast::Product>
struct GradientSums {
  struct Value {
    float sum, product;
  };
  const T *z, *dy;
  Function function = {};
  HP_HOST_DEVICE Value Identity() const { return {0, 0}; }
  HP_HOST_DEVICE Value At(int64_t offset, int64_t) const {
    const float gradient = ToFloat(dy[offset]);
    if constexpr (!Function::kWeighs) {
      return {gradient, gradient * function.Weight(0)};
    } else {
      return {gradient, gradient * function.Weight(ToFloat(z[offset]))};
    }
  }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return {a.sum + b.sum, a.product + b.product}; }
};

}  // namespace hp::cuda
