#include "backend/cpu/inner_product.h"

#include "backend/cpu/column_sums.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/input_rows.h"
#include "backend/cpu/matrix_product.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/outer_product.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/rounded_product.h"
#include "backend/cpu/rows_product.h"
#include "backend/cpu/vec.h"
#include "backend/product_shape.h"

#include <algorithm>

namespace hp {
namespace {

/// Up to so many columns MultiplyRows is used for few rows. It was measured at 512, where it is faster than oneDNN's
/// sgemm, and at 9216, where sgemm is the faster one at up to 16 rows; where the two meet between these was not.
constexpr int64_t kMostColumnsInPlace = 2048;
/// From so many rows on sgemm multiplies them, with AVX2 as they lie: at 64 rows of 784 columns in 0.6 of MultiplyRows'
/// time, at 100 in 0.4; and where there are more columns, at 100 rows in 0.7 to 0.8 of the time by W x^T. With AVX-512
/// W x^T was the faster one wherever it was measured (README.md of this room).
constexpr int64_t kManyRows = 32, kManyLongRows = 64;

/// y = x W^T + b with the weights in Caffe's layout, never repacked: at 16 rows a copy of them in oneDNN's own format
/// would cost more than the product. See README.md of this room for what was measured.
class InnerProductOp final : public Op {
 public:
  /// Throws dnnl::error.
  InnerProductOp(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out)
      : bias_(desc.bias),
        outputs_count_(desc.num_output),
        inputs_(in, desc.axis),
        rows_(inputs_.rows()),
        columns_(inputs_.columns()) {
    outputs_ = {{out, 1}};
    int64_t panels = 0;
    size_t product_bytes = 0;
    for (const InputRows::Block& block : inputs_.blocks()) {
      panels += PackedColumns(rows_, block.columns);
      if (in_place() || as_they_lie()) continue;
      using Product = onednn::MatrixProduct;
      products_.emplace_back(context_, Product::Sizes{outputs_count_, rows_, block.columns},
                             Product::Factor{columns_, 1}, Product::Factor{1, block.columns},
                             Product::Target{rows_, /*add=*/!products_.empty()});
      product_bytes = std::max(product_bytes, products_.back().scratch_bytes());
    }
    const int64_t forward = in_place() ? PackedFeatures(rows_, columns_) : as_they_lie() ? 0 : Transposed();
    const size_t forward_bytes = forward * sizeof(float) + product_bytes;
    scratch_bytes_ = inputs_.floats() * sizeof(float) + std::max(forward_bytes, panels * sizeof(float));
  }

  /// Neither in place nor as they lie: it computes y^T = W x^T. With the many rows of W as rows of the product, oneDNN
  /// reads them once at the speed of memory (4 to 6 times as fast as y = x W^T for 16 rows, where it would pack W
  /// first).
  void Forward(const OpArgs& args) override {
    inputs_.Bring(args);
    if (in_place()) return MultiplyInPlace(args);
    if (as_they_lie()) return MultiplyAsTheyLie(args);
    float* const transposed = BehindInputs(args);
    auto* const scratch = reinterpret_cast<std::byte*>(transposed + Transposed());
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      products_[i].Run(context_, args.params[0].data + inputs_.blocks()[i].first, inputs_.Rows(args, i), transposed,
                       scratch);
    }
    TransposeProduct(transposed, rows_, outputs_count_, nullptr, bias_ ? args.params[1].data : nullptr,
                     args.out[0].floats(), outputs_count_);
  }

  void BackwardInput(const OpArgs& args) override {
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      const InputRows::Block& block = inputs_.blocks()[i];
      if (args.d_in[i].data == nullptr) continue;
      Gemm('N', 'N', rows_, block.columns, outputs_count_, args.d_out[0].floats(), outputs_count_,
           args.params[0].data + block.first, columns_, false, inputs_.GradientRows(args, i), block.columns);
      inputs_.StoreGradient(args, i);
    }
  }

  void BackwardParams(const OpArgs& args) override {
    inputs_.Bring(args);
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      const InputRows::Block& block = inputs_.blocks()[i];
      Gemm('T', 'N', outputs_count_, block.columns, rows_, args.d_out[0].floats(), outputs_count_,
           inputs_.Rows(args, i), block.columns, args.accumulate, args.d_params[0] + block.first, columns_);
    }
    if (bias_) {
      ColumnSums(args.d_out[0].floats(), rows_, outputs_count_, outputs_count_, args.accumulate, args.d_params[1]);
    }
  }

  bool has_params_rows() const override { return true; }
  void BeginParamsRows(const OpArgs& args) override {
    inputs_.Bring(args);
    float* panels = BehindInputs(args);
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      const int64_t columns = inputs_.blocks()[i].columns;
      PackColumns(rows_, columns, inputs_.Rows(args, i), panels);
      panels += PackedColumns(rows_, columns);
    }
  }
  void BackwardParamsRows(const OpArgs& args, int64_t begin, int64_t end, float* d_weights,
                          float* d_bias) const override {
    const float* panels = BehindInputs(args);
    for (const InputRows::Block& block : inputs_.blocks()) {
      OuterProductSum({panels, rows_, block.columns}, {0, rows_}, end - begin, args.d_out[0].floats() + begin,
                      outputs_count_, d_weights + block.first, columns_, args.accumulate);
      panels += PackedColumns(rows_, block.columns);
    }
    if (bias_) {
      ColumnSums(args.d_out[0].floats() + begin, rows_, end - begin, outputs_count_, args.accumulate, d_bias);
    }
  }

  bool backward_reads_output() const override { return false; }

 private:
  bool in_place() const { return columns_ <= kMostColumnsInPlace && rows_ < kManyRows; }
  bool as_they_lie() const {
    const bool many = rows_ >= (columns_ <= kMostColumnsInPlace ? kManyRows : kManyLongRows);
    return many && !onednn::HasAvx512();
  }

  /// Floats of y^T, so that what is behind it is aligned.
  int64_t Transposed() const { return (rows_ * outputs_count_ + 15) / 16 * 16; }
  float* BehindInputs(const OpArgs& args) const { return reinterpret_cast<float*>(args.scratch) + inputs_.floats(); }

  void MultiplyAsTheyLie(const OpArgs& args) const {
    float* const out = args.out[0].floats();
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      const InputRows::Block& block = inputs_.blocks()[i];
      Gemm('N', 'T', rows_, outputs_count_, block.columns, inputs_.Rows(args, i), block.columns,
           args.params[0].data + block.first, columns_, i > 0, out, outputs_count_);
    }
    if (bias_) AddBias(args.params[1].data, out);
  }
  void AddBias(const float* bias, float* out) const {
    ForItems(rows_, rows_ * outputs_count_, [&](int64_t row) {
      float* const y = out + row * outputs_count_;
#pragma omp simd
      for (int64_t o = 0; o < outputs_count_; ++o) y[o] += bias[o];
    });
  }

  void MultiplyInPlace(const OpArgs& args) const {
    float* const packed = BehindInputs(args);
    for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
      const InputRows::Block& block = inputs_.blocks()[i];
      PackFeatures(rows_, block.columns, inputs_.Rows(args, i), block.first, packed);
    }
    float* const out = args.out[0].floats();
    MultiplyRows(rows_, packed, {args.params[0].data, columns_, columns_, nullptr, outputs_count_}, nullptr, out,
                 outputs_count_);
    if (bias_) AddBias(args.params[1].data, out);
  }

  const bool bias_;
  const int64_t outputs_count_;
  const InputRows inputs_;
  const int64_t rows_, columns_;
  const onednn::Context context_;
  std::vector<onednn::MatrixProduct> products_;  // W x^T, one for each input
};

}  // namespace

void TransposeProduct(const float* product, int64_t rows, int64_t outputs, const float* factors, const float* bias,
                      float* y, int64_t y_stride) {
  constexpr int64_t kStrip = 64;  // outputs of one strip: 256 bytes of each row of y
#pragma omp parallel for schedule(static) if (rows * outputs > kSerialElements)
  for (int64_t begin = 0; begin < outputs; begin += kStrip) {
    const int64_t end = std::min(outputs, begin + kStrip);
    for (int64_t r = 0; r < rows; ++r) {
      float* const to = y + r * y_stride;
      for (int64_t o = begin; o < end; ++o) {
        const float value = factors == nullptr ? product[o * rows + r] : product[o * rows + r] * factors[o];
        to[o] = value + (bias == nullptr ? 0.0f : bias[o]);
      }
    }
  }
}

StatusOr<Backend::OpPtr> MakeInnerProduct(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out,
                                          ElementType factors) {
  if (desc.transposed) return MakeTransposedProduct(desc, in, out);
  Backend::OpPtr op;
  if (factors == ElementType::kBFloat16 && onednn::HasAmx()) {
    StatusOr<Backend::OpPtr> rounded = MakeRoundedProduct(desc, in, out);
    if (rounded.ok() && *rounded != nullptr) return rounded;
    if (rounded.status().code() == StatusCode::kResourceExhausted) return rounded;
  }
  HP_RETURN_IF_ERROR(onednn::Guard("inner product", [&] { op = std::make_unique<InnerProductOp>(desc, in, out); }));
  return op;
}

StatusOr<Backend::OpPtr> CpuBackend::InnerProduct(const InnerProductDesc& desc, const Descs& in) {
  return MakeInnerProduct(desc, in, ProductShape(desc, in[0].shape), factors_);
}

}  // namespace hp
