#pragma once

#include "backend/backend.h"
#include "backend/cpu/vec.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

// What the two ops of local response normalization share: powers of the scale s without pow where the exponent allows
// it, and aligned working memory. LrnDesc (backend/backend.h) has the formulas.
namespace hp {

/// s^(-1/4) for s > 0 within 2e-7: a first guess from the exponent bits (within 3.2%), then three Newton steps for
/// r^-4 = s, each of which turns a relative error e into 2.5 e^2. No division, no square root, no overflow for large s.
template <int W>
inline FloatVec<W> InverseFourthRoot(FloatVec<W> s) {
  IntVec<W> bits;
  std::memcpy(&bits, &s, sizeof(bits));
  bits = 0x4F586000 - (bits >> 2);  // the constant with the least largest error, found by trying
  FloatVec<W> r;
  std::memcpy(&r, &bits, sizeof(r));
  for (int step = 0; step < 3; ++step) {
    const FloatVec<W> square = r * r;
    r += r * (0.25f - 0.25f * s * (square * square));
  }
  return r;
}

/// s^-beta and, in *next unless null, s^-(beta+1), for beta = Quarters / 4 and s > 0, without pow.
template <int Quarters>
struct QuarterPower {
  explicit QuarterPower(float) {}

  /// @param next set to s^-(beta+1); null: not wanted.
  template <int W>
  FloatVec<W> operator()(FloatVec<W> s, FloatVec<W>* next = nullptr) const {
    const FloatVec<W> r = InverseFourthRoot<W>(s);
    FloatVec<W> power = r;
    for (int i = 1; i < Quarters; ++i) power *= r;
    if (next != nullptr) *next = power * ((r * r) * (r * r));
    return power;
  }
};

/// The same for any beta, by std::pow for each element.
struct AnyPower {
  explicit AnyPower(float exponent) : beta(exponent) {}

  template <int W>
  FloatVec<W> operator()(FloatVec<W> s, FloatVec<W>* next = nullptr) const {
    FloatVec<W> power;
    for (int i = 0; i < W; ++i) power[i] = std::pow(s[i], -beta);
    if (next != nullptr) *next = power / s;
    return power;
  }
  float beta;
};

/// Makes an op Kernel<Power>(desc, in) with the fastest Power for desc.beta.
template <template <typename> class Kernel>
Backend::OpPtr MakeLrnKernel(const LrnDesc& desc, const TensorDesc& in) {
  if (desc.beta == 0.75f) return std::make_unique<Kernel<QuarterPower<3>>>(desc, in);
  if (desc.beta == 0.5f) return std::make_unique<Kernel<QuarterPower<2>>>(desc, in);
  if (desc.beta == 1.0f) return std::make_unique<Kernel<QuarterPower<4>>>(desc, in);
  return std::make_unique<Kernel<AnyPower>>(desc, in);
}

// The ops of the two regions of LrnDesc; any layout, which the output keeps. Within a channel float32 alone.
Backend::OpPtr MakeLrnAcrossChannels(const LrnDesc& desc, const TensorDesc& in);
Backend::OpPtr MakeLrnWithinChannel(const LrnDesc& desc, const TensorDesc& in);

/// A thread's working memory: at least `count` floats, zeroed and aligned to 64 bytes. Throws nothing, because it is
/// made inside OpenMP regions, which no exception may leave.
class AlignedFloats {
 public:
  explicit AlignedFloats(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + kLine - 1) / kLine * kLine;
    data_.reset(static_cast<float*>(std::aligned_alloc(kLine, bytes)));
    if (data_ != nullptr) std::memset(data_.get(), 0, bytes);
  }
  /// Null: out of memory.
  float* data() const { return data_.get(); }

 private:
  static constexpr size_t kLine = 64;
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
};

}  // namespace hp
