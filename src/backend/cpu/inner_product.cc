#include "backend/cpu/column_sums.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/outer_product.h"
#include "backend/cpu/reorder.h"

#include "glog/logging.h"

#include <algorithm>
#include <new>

namespace hp {
namespace {

/// C [m, n] = (C +) A B, row-major, all threads of the team; 'T' takes the operand transposed.
void Gemm(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride,
          const float* b, int64_t b_stride, bool add, float* c, int64_t c_stride) {
  const dnnl::status status =
      dnnl::sgemm(transpose_a, transpose_b, m, n, k, 1.0f, a, a_stride, b, b_stride, add ? 1.0f : 0.0f, c, c_stride);
  if (status == dnnl::status::out_of_memory) throw std::bad_alloc();
  CHECK(status == dnnl::status::success) << "sgemm " << m << " x " << n << " x " << k;
}

/// One input: the columns [first, first + columns) of the weights belong to it.
struct Block {
  TensorDesc desc;
  int64_t first = 0, columns = 0;
  bool dense = true;        ///< its rows can be read in place
  int64_t copy_offset = 0;  ///< of its dense copy in scratch, in floats
};

/// y = x W^T + b with the weights in Caffe's layout, never repacked: at 16 rows a copy of them in oneDNN's own format
/// would cost more than the product. See README.md of this room for what was measured.
class InnerProductOp final : public Op {
 public:
  InnerProductOp(const InnerProductDesc& desc, const Backend::Descs& in)
      : bias_(desc.bias), outputs_count_(desc.num_output), rows_(in[0].shape[0]) {
    for (const TensorDesc& input : in) {
      Block block = {input, columns_, input.shape.count(1), EffectiveBlock(input) == 1, copy_floats_};
      columns_ += block.columns;
      if (!block.dense) copy_floats_ += (rows_ * block.columns + 15) / 16 * 16;
      blocks_.push_back(block);
    }
    outputs_ = {{Shape{rows_, outputs_count_}, 1}};
    scratch_bytes_ = (copy_floats_ + rows_ * outputs_count_) * sizeof(float);
  }

  /// Computes y^T = W x^T: with the many rows of W as rows of the product, sgemm reads them once at the speed of memory
  /// (4 to 6 times as fast as y = x W^T for 16 rows, where it would pack W first).
  void Forward(const OpArgs& args) override {
    CopyInputs(args);
    float* transposed = reinterpret_cast<float*>(args.scratch) + copy_floats_;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      Gemm('N', 'T', outputs_count_, rows_, block.columns, args.params[0].data + block.first, columns_, Rows(args, i),
           block.columns, i > 0, transposed, rows_);
    }
    TransposeAndAddBias(transposed, bias_ ? args.params[1].data : nullptr, args.out[0].floats());
  }

  void BackwardInput(const OpArgs& args) override {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      float* d_in = args.d_in[i].floats();
      if (d_in == nullptr) continue;
      float* rows = block.dense ? d_in : Copy(args, block);
      Gemm('N', 'N', rows_, block.columns, outputs_count_, args.d_out[0].floats(), outputs_count_,
           args.params[0].data + block.first, columns_, false, rows, block.columns);
      if (!block.dense) CopyLayout({block.desc.shape, 1}, rows, block.desc, d_in);
    }
  }

  void BackwardParams(const OpArgs& args) override {
    CopyInputs(args);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      Gemm('T', 'N', outputs_count_, block.columns, rows_, args.d_out[0].floats(), outputs_count_, Rows(args, i),
           block.columns, args.accumulate, args.d_params[0] + block.first, columns_);
    }
    if (bias_) {
      ColumnSums(args.d_out[0].floats(), rows_, outputs_count_, outputs_count_, args.accumulate, args.d_params[1]);
    }
  }

  bool has_params_rows() const override { return true; }
  void BeginParamsRows(const OpArgs& args) override { CopyInputs(args); }
  void BackwardParamsRows(const OpArgs& args, int64_t begin, int64_t end, float* d_weights,
                          float* d_bias) const override {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      OuterProductSum(rows_, end - begin, block.columns, args.d_out[0].floats() + begin, outputs_count_, Rows(args, i),
                      block.columns, d_weights + block.first, columns_, args.accumulate);
    }
    if (bias_) {
      ColumnSums(args.d_out[0].floats() + begin, rows_, end - begin, outputs_count_, args.accumulate, d_bias);
    }
  }

  bool backward_reads_output() const override { return false; }

 private:
  float* Copy(const OpArgs& args, const Block& block) const {
    return reinterpret_cast<float*>(args.scratch) + block.copy_offset;
  }
  /// Input `i` as [rows, columns]: in place, or its copy.
  const float* Rows(const OpArgs& args, size_t i) const {
    return blocks_[i].dense ? args.in[i].floats() : Copy(args, blocks_[i]);
  }
  void CopyInputs(const OpArgs& args) const {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      if (!block.dense) CopyLayout(block.desc, args.in[i].floats(), {block.desc.shape, 1}, Copy(args, block));
    }
  }

  void TransposeAndAddBias(const float* transposed, const float* bias, float* out) const {
    constexpr int64_t kStrip = 64;  // outputs of one strip: 256 bytes of each row of y
#pragma omp parallel for schedule(static) if (rows_ * outputs_count_ > kSerialElements)
    for (int64_t begin = 0; begin < outputs_count_; begin += kStrip) {
      const int64_t end = std::min(outputs_count_, begin + kStrip);
      for (int64_t r = 0; r < rows_; ++r) {
        float* y = out + r * outputs_count_;
        for (int64_t o = begin; o < end; ++o) {
          y[o] = transposed[o * rows_ + r] + (bias == nullptr ? 0.0f : bias[o]);
        }
      }
    }
  }

  const bool bias_;
  const int64_t outputs_count_, rows_;
  int64_t columns_ = 0;      ///< of the weights: the sum of the inputs'
  int64_t copy_floats_ = 0;  ///< dense copies at the beginning of scratch
  std::vector<Block> blocks_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::InnerProduct(const InnerProductDesc& desc, const Descs& in) {
  return Backend::OpPtr(std::make_unique<InnerProductOp>(desc, in));
}

}  // namespace hp
