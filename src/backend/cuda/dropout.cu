#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/element.h"
#include "backend/cuda/rows.h"
#include "backend/dropout_rule.h"
#include "backend/layout.h"
#include "base/philox.h"

namespace hp::cuda {
namespace {

/// What both kernels know. A thread takes the four units of one Philox counter, or those of them that are its row's.
template <typename T>
struct Masked {
  DropoutRule rule;
  const uint64_t* first_sample;  ///< in the device's memory
  int64_t first_unit;            ///< of a row, within the whole layer
  const T* x;
  T* y;

  struct Factors {
    float of[4];
  };
  HP_HOST_DEVICE Factors Of(int64_t row, int64_t counter) const {
    uint32_t words[4];
    Philox4x32(rule.stream_key, *first_sample + row, counter, words);
    return {rule.Factor(words[0]), rule.Factor(words[1]), rule.Factor(words[2]), rule.Factor(words[3])};
  }
};

/// Rows in the order of units. Reads x, writes y; where rows and counters begin together, in packs.
template <typename T, bool kPacks>
struct DenseDropout {
  Masked<T> masked;
  int64_t units;  ///< of a row
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    const int64_t counter = masked.first_unit / 4 + i;
    const auto factors = masked.Of(row, counter);
    const int64_t first = 4 * counter - masked.first_unit;  // within the row
    const int64_t at = row * units + first;
    if constexpr (kPacks) {
      Pack<float, 4> value = ReadPack<4>(masked.x + at);
      for (int k = 0; k < 4; ++k) value.of[k] *= factors.of[k];
      WritePack(masked.y + at, value);
    } else {
      for (int k = 0; k < 4; ++k) {
        if (first + k < 0 || first + k >= units) continue;
        Put(ToFloat(masked.x[at + k]) * factors.of[k], masked.y + at + k);
      }
    }
  }
};

/// NHWC: units are numbered in NCHW order, so a counter's four are pixels of one channel (or of two). Neighbouring
/// threads take neighbouring channels.
template <typename T>
struct NhwcDropout {
  Masked<T> masked;
  Divisor channels;
  int64_t pixels;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    uint32_t channel;
    const uint32_t turn = channels.Quotient(i, &channel);
    const int64_t begin = masked.first_unit + channel * pixels;  // the channel's first unit
    const int64_t counter = begin / 4 + turn;
    if (4 * counter >= begin + pixels) return;
    const auto factors = masked.Of(row, counter);
    for (int k = 0; k < 4; ++k) {
      const int64_t pixel = 4 * counter + k - begin;
      if (pixel < 0 || pixel >= pixels) continue;
      const int64_t at = (row * pixels + pixel) * channels.value() + channel;
      Put(ToFloat(masked.x[at]) * factors.of[k], masked.y + at);
    }
  }
};

/// y = x * factor in training, y = x in a test. The mask is made again in the backward pass: it costs less than the
/// memory of keeping one for every solver.
template <typename T>
class DropoutOp final : public Op {
 public:
  DropoutOp(const GpuContext& context, const DropoutDesc& desc, const TensorDesc& in)
      : context_(context),
        rule_(DropoutRule::Make(desc.stream_key, desc.ratio)),
        first_unit_(desc.first_unit),
        train_(desc.train),
        nhwc_(EffectiveBlock(in) != 1) {
    outputs_ = {in};
  }

  void Forward(const OpArgs& args) override { Apply(*args.batch, args.in[0], args.out[0]); }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) Apply(*args.batch, args.d_out[0], args.d_in[0]);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  void Apply(const BatchContext& batch, const Tensor& from, const Tensor& to) const {
    if (!train_.value_or(batch.train)) return CopyLayout(context_.stream(), from.desc, from.data, to.desc, to.data);
    const Masked<T> masked = {rule_, batch.first_sample_on_device, first_unit_, DataAs<T>(from), DataAs<T>(to)};
    if (nhwc_) {
      ApplyNhwc(masked, from.shape());
    } else {
      ApplyDense(masked, from.shape()[0], from.shape().count(1));
    }
  }

  void ApplyDense(const Masked<T>& masked, int64_t rows, int64_t units) const {
    const int64_t counters = (first_unit_ + units + 3) / 4 - first_unit_ / 4;
    if (first_unit_ % 4 == 0 && units % 4 == 0 && Packable({masked.x, masked.y})) {
      ForEachInRows(context_.stream(), rows, counters, DenseDropout<T, true>{masked, units});
    } else {
      ForEachInRows(context_.stream(), rows, counters, DenseDropout<T, false>{masked, units});
    }
  }

  void ApplyNhwc(const Masked<T>& masked, const Shape& shape) const {
    const int64_t pixels = shape.count(2);
    const int64_t turns = (pixels + 3) / 4 + 1;  // one more, as the channel may begin within a counter's units
    ForEachInRows(context_.stream(), shape[0], turns * shape[1], NhwcDropout<T>{masked, Divisor(shape[1]), pixels});
  }

  const GpuContext context_;
  const DropoutRule rule_;
  const int64_t first_unit_;
  const std::optional<bool> train_;
  const bool nhwc_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Dropout(const DropoutDesc& desc, const Descs& in) {
  return WithElementType(in[0].element, [&](auto type) -> Backend::OpPtr {
    return std::make_unique<DropoutOp<typename decltype(type)::Type>>(context_, desc, in[0]);
  });
}

}  // namespace hp::cuda
