#pragma once

#include "backend/cuda/divisor.h"
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

}  // namespace hp::cuda
