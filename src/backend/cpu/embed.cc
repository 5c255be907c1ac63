#include "backend/cpu/column_sums.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/embed_rule.h"

#include <algorithm>
#include <limits>

namespace hp {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
/// Of one thread at least: a cache line.
constexpr int64_t kColumns = 16;

/// Rows of a table. Each thread adds gradients in columns of its own, for all elements in their order, so that the
/// result does not depend on the number of threads. Elements that are not dense go through scratch.
class EmbedOp final : public Op {
 public:
  EmbedOp(const EmbedDesc& desc, const TensorDesc& in)
      : desc_(desc), in_(in), count_(in.count()), foreign_(!SameOrder(in, {in.shape, 1})) {
    std::vector<int64_t> dims = in.shape.dims();
    dims.push_back(desc.num_output);
    outputs_ = {{Shape(dims), 1}};
    if (foreign_) scratch_bytes_ = in.bytes();
  }

  void Forward(const OpArgs& args) override {
    const int64_t width = desc_.num_output;
    const float *const indices = Indices(args), *const table = args.params[0].data;
    const float* const bias = desc_.bias ? args.params[1].data : nullptr;
    float* const out = args.out[0].floats();
    ForItems(count_, count_ * width, [&](int64_t i) {
      const int64_t row = EmbedRow(indices[i], desc_.rows);
      float* const to = out + i * width;
      if (row < 0) {
        std::fill_n(to, width, kNaN);
        return;
      }
      const float* const from = table + row * width;
      for (int64_t c = 0; c < width; ++c) to[c] = bias == nullptr ? from[c] : from[c] + bias[c];
    });
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) std::fill_n(args.d_in[0].floats(), count_, 0.0f);
  }

  void BackwardParams(const OpArgs& args) override {
    const int64_t width = desc_.num_output;
    const float *const indices = Indices(args), *const d_out = args.d_out[0].floats();
    float* const to = args.d_params[0];
    if (!args.accumulate) {
      ForChunks(desc_.rows * width, [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, 0.0f); });
    }
    ForItems((width + kColumns - 1) / kColumns, count_ * width, [&](int64_t piece) {
      const int64_t begin = piece * kColumns, end = std::min(width, begin + kColumns);
      for (int64_t i = 0; i < count_; ++i) {
        const int64_t row = EmbedRow(indices[i], desc_.rows);
        for (int64_t c = begin; c < end; ++c) {
          to[std::max<int64_t>(row, 0) * width + c] += row < 0 ? kNaN : d_out[i * width + c];
        }
      }
    });
    if (desc_.bias) ColumnSums(d_out, count_, width, width, args.accumulate, args.d_params[1]);
  }
  bool backward_reads_output() const override { return false; }

 private:
  const float* Indices(const OpArgs& args) const {
    if (!foreign_) return args.in[0].floats();
    float* const dense = reinterpret_cast<float*>(args.scratch);
    CopyLayout(in_, args.in[0].floats(), {in_.shape, 1}, dense);
    return dense;
  }

  const EmbedDesc desc_;
  const TensorDesc in_;
  const int64_t count_;
  const bool foreign_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Embed(const EmbedDesc& desc, const Descs& in) {
  return OnFloat32(
      in, [&](const Descs& floats) -> StatusOr<OpPtr> { return OpPtr(std::make_unique<EmbedOp>(desc, floats[0])); });
}

}  // namespace hp
