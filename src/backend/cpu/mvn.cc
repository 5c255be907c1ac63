#include "backend/cpu/channel_runs.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/moment_runs.h"

#include <cmath>

namespace hp {
namespace {

/// Each run of memory by itself, in any layout: a row's channels, or with one group whole rows. The gradient is
/// computed from y: it works in place. Saved for each row and channel: the factor 1 / (deviation + eps), and (deviation
/// + eps) / deviation.
class MvnOp final : public Op {
 public:
  MvnOp(const MvnDesc& desc, const TensorDesc& in)
      : desc_(desc),
        runs_(desc.across_channels ? ChannelRuns(in.shape[0], 1, in.shape.count(1), 1) : ChannelRuns(in)),
        numbers_(runs_.rows * runs_.channels()) {
    outputs_ = {in};
    saved_bytes_ = 2 * numbers_ * sizeof(float);
    scratch_bytes_ = 2 * numbers_ * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    const float* const x = args.in[0].floats();
    float *const y = args.out[0].floats(), *const factors = Factors(args);
    float *const means = Scratch(args), *const squares = means + numbers_;
    const ChannelRuns& runs = runs_;
    const float each = 1 / static_cast<float>(runs.pixels);
    runs.ForEach([&](int64_t row, int64_t c, int64_t at) {
      const int64_t first = row * runs.channels() + c;
      float *const mean = means + first, *const factor = factors + first, *const ratio = factor + numbers_;
      SumRun(x + at, runs.pixels, runs.block, mean);
      for (int64_t i = 0; i < runs.block; ++i) mean[i] *= each;
      SquareRun(x + at, mean, runs.pixels, runs.block, squares + first);
      for (int64_t i = 0; i < runs.block; ++i) {
        const float deviation = std::sqrt(squares[first + i] * each), divisor = deviation + desc_.eps;
        factor[i] = desc_.normalize_variance ? 1 / divisor : 1;
        ratio[i] = !desc_.normalize_variance || deviation == 0 ? 0 : divisor / deviation;
      }
      NormalizeRun(x + at, mean, factor, runs.pixels, runs.block, y + at);
    });
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const float *const y = args.out[0].floats(), *const dy = args.d_out[0].floats(), *const factors = Factors(args);
    float *const dx = args.d_in[0].floats(), *const sums = Scratch(args), *const products = sums + numbers_;
    const ChannelRuns& runs = runs_;
    const float each = 1 / static_cast<float>(runs.pixels);
    runs.ForEach([&](int64_t row, int64_t c, int64_t at) {
      const int64_t first = row * runs.channels() + c;
      float *const a = sums + first, *const b = products + first;
      const float *const factor = factors + first, *const ratio = factor + numbers_;
      SumGradients(y + at, dy + at, runs.pixels, runs.block, b, a);
      for (int64_t i = 0; i < runs.block; ++i) a[i] *= each, b[i] *= each * ratio[i];
      NormalizedGradientRun(y + at, dy + at, a, b, factor, runs.pixels, runs.block, dx + at);
    });
  }
  bool backward_reads_input() const override { return false; }

 private:
  static float* Scratch(const OpArgs& args) { return reinterpret_cast<float*>(args.scratch); }
  static float* Factors(const OpArgs& args) { return reinterpret_cast<float*>(args.saved); }

  const MvnDesc desc_;
  const ChannelRuns runs_;
  const int64_t numbers_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Mvn(const MvnDesc& desc, const Descs& in) {
  return OnFloat32(
      in, [&](const Descs& floats) -> StatusOr<OpPtr> { return OpPtr(std::make_unique<MvnOp>(desc, floats[0])); });
}

}  // namespace hp
