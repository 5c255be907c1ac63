#include "backend/cpu/column_sums.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/inner_product.h"
#include "backend/cpu/input_rows.h"
#include "backend/cpu/parallel.h"

namespace hp {
namespace {

/// y = x W + b. An input's part of the weights is some of their rows, and so is its gradient's: no piece of a few
/// outputs is memory of its own, and the gradient is computed as a whole.
class TransposedProductOp final : public Op {
 public:
  TransposedProductOp(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out)
      : bias_(desc.bias), outputs_count_(desc.num_output), inputs_(in, desc.axis), rows_(inputs_.rows()) {
    outputs_ = {{out, 1}};
    scratch_bytes_ = inputs_.floats() * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    inputs_.Bring(args);
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      const int64_t columns = inputs_.blocks()[i].columns;
      Gemm('N', 'N', rows_, outputs_count_, columns, inputs_.Rows(args, i), columns, args.params[0].data + Offset(i),
           outputs_count_, i > 0, args.out[0].floats(), outputs_count_);
    }
    if (bias_) AddBias(args.params[1].data, args.out[0].floats());
  }

  void BackwardInput(const OpArgs& args) override {
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      if (args.d_in[i].data == nullptr) continue;
      const int64_t columns = inputs_.blocks()[i].columns;
      Gemm('N', 'T', rows_, columns, outputs_count_, args.d_out[0].floats(), outputs_count_,
           args.params[0].data + Offset(i), outputs_count_, false, inputs_.GradientRows(args, i), columns);
      inputs_.StoreGradient(args, i);
    }
  }

  void BackwardParams(const OpArgs& args) override {
    inputs_.Bring(args);
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      const int64_t columns = inputs_.blocks()[i].columns;
      Gemm('T', 'N', columns, outputs_count_, rows_, inputs_.Rows(args, i), columns, args.d_out[0].floats(),
           outputs_count_, args.accumulate, args.d_params[0] + Offset(i), outputs_count_);
    }
    if (bias_) {
      ColumnSums(args.d_out[0].floats(), rows_, outputs_count_, outputs_count_, args.accumulate, args.d_params[1]);
    }
  }

  bool backward_reads_output() const override { return false; }

 private:
  int64_t Offset(size_t i) const { return inputs_.blocks()[i].first * outputs_count_; }

  void AddBias(const float* bias, float* out) const {
    const int64_t outputs = outputs_count_;
    ForItems(rows_, rows_ * outputs, [&](int64_t row) {
      float* const y = out + row * outputs;
#pragma omp simd
      for (int64_t o = 0; o < outputs; ++o) y[o] += bias[o];
    });
  }

  const bool bias_;
  const int64_t outputs_count_;
  const InputRows inputs_;
  const int64_t rows_;
};

}  // namespace

Backend::OpPtr MakeTransposedProduct(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out) {
  return std::make_unique<TransposedProductOp>(desc, in, out);
}

}  // namespace hp
