#include "backend/cuda/column_sums.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/scratch.h"
#include "backend/layout.h"
#include "backend/product_shape.h"

#include <algorithm>
#include <utility>

namespace hp::cuda {
namespace {

using GemmPtr = std::unique_ptr<GpuGemm>;

/// One input: the columns [first, first + columns) of the weights belong to it.
struct Block {
  TensorDesc desc;
  TensorDesc rows;  ///< the same as the products read it: dense, of the library's element type
  int64_t first = 0, columns = 0;
  size_t copy_offset = 0;      ///< of its rows in scratch, unless they are in place
  size_t gradient_offset = 0;  ///< of its gradient's, unless they are in place
  GemmPtr forward, backward_input, backward_weights;

  bool dense() const { return EffectiveBlock(desc) == 1; }
  bool in_place() const { return dense() && desc.element == rows.element; }
  /// Products yield float32.
  bool gradient_in_place() const { return dense() && desc.element == ElementType::kFloat32; }
  TensorDesc gradient() const { return {desc.shape, 1}; }
};

/// y = x W^T + b in float32, with the weights in Caffe's layout, transposed or not. Several inputs are several
/// products, added in their order. Factors of 16 bits are copies: of x and dy in scratch, of the weights made once for
/// each version.
class InnerProductOp final : public Op {
 public:
  static StatusOr<Backend::OpPtr> Create(const GpuContext& context, const InnerProductDesc& desc,
                                         const Backend::Descs& in) {
    std::unique_ptr<InnerProductOp> op(new InnerProductOp(context, desc, in));
    for (Block& block : op->blocks_) HP_RETURN_IF_ERROR(op->MakeProducts(desc, &block));
    op->PlanScratch();
    return Backend::OpPtr(std::move(op));
  }

  void Forward(const OpArgs& args) override {
    BringInputs(args);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      const float* bias = bias_ && i == 0 ? args.params[1].data : nullptr;
      block.forward->Run(Rows(args, i), Weights(args, block), bias, /*add=*/i > 0, args.out[0].floats(),
                         Workspace(args));
    }
  }

  void BackwardInput(const OpArgs& args) override {
    const void* dy = BringOutputGradient(args);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      const Tensor& d_in = args.d_in[i];
      if (d_in.data == nullptr) continue;
      float* rows = block.gradient_in_place() ? d_in.floats() : ScratchFloats(args.scratch, block.gradient_offset);
      block.backward_input->Run(dy, Weights(args, block), nullptr, /*add=*/false, rows, Workspace(args));
      if (rows != d_in.data) CopyLayout(context_.stream(), block.gradient(), rows, block.desc, d_in.data);
    }
  }

  void BackwardParams(const OpArgs& args) override {
    BringInputs(args);
    const void* dy = BringOutputGradient(args);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      const void *left = dy, *right = Rows(args, i);
      if (transposed_) std::swap(left, right);
      block.backward_weights->Run(left, right, nullptr, args.accumulate, args.d_params[0] + Offset(block),
                                  Workspace(args));
    }
    if (!bias_) return;
    ColumnSums(context_.stream(), rows_, outputs_count_, ElementType::kFloat32, args.d_out[0].data, args.accumulate,
               args.d_params[1], ScratchFloats(args.scratch, sums_offset_));
  }

  bool backward_reads_output() const override { return false; }

 private:
  InnerProductOp(const GpuContext& context, const InnerProductDesc& desc, const Backend::Descs& in)
      : context_(context),
        element_(context.library->element()),
        bias_(desc.bias),
        transposed_(desc.transposed),
        outputs_count_(desc.num_output),
        rows_(in[0].shape.count() / in[0].shape.count(desc.axis)) {
    for (const TensorDesc& input : in) {
      Block& block = blocks_.emplace_back();
      block.desc = input;
      block.rows = {input.shape, 1, element_};
      block.first = columns_, block.columns = input.shape.count(desc.axis);
      columns_ += block.columns;
    }
    outputs_ = {{ProductShape(desc, in[0].shape), 1}};
  }

  Status MakeProducts(const InnerProductDesc& desc, Block* block) {
    const int64_t w_stride = transposed_ ? outputs_count_ : columns_;
    GpuGemmDesc forward = {.m = rows_, .n = outputs_count_, .k = block->columns, .transpose_b = !transposed_};
    forward.a_stride = block->columns, forward.b_stride = w_stride, forward.c_stride = outputs_count_;
    forward.bias = bias_ && block->first == 0;
    HP_ASSIGN_OR_RETURN(block->forward, context_.library->Gemm(forward));
    HP_ASSIGN_OR_RETURN(block->backward_weights, context_.library->Gemm(WeightsGradient(*block, w_stride)));

    if (!desc.input_gradient) return OkStatus();
    GpuGemmDesc input = {.m = rows_, .n = block->columns, .k = outputs_count_, .transpose_b = transposed_};
    input.a_stride = outputs_count_, input.b_stride = w_stride, input.c_stride = block->columns;
    HP_ASSIGN_OR_RETURN(block->backward_input, context_.library->Gemm(input));
    return OkStatus();
  }

  /// dW = dy^T x, or its transpose x^T dy.
  GpuGemmDesc WeightsGradient(const Block& block, int64_t w_stride) const {
    GpuGemmDesc weights = {.m = outputs_count_, .n = block.columns, .k = rows_, .transpose_a = true};
    weights.a_stride = outputs_count_, weights.b_stride = block.columns, weights.c_stride = w_stride;
    if (!transposed_) return weights;
    std::swap(weights.m, weights.n);
    std::swap(weights.a_stride, weights.b_stride);
    return weights;
  }

  void PlanScratch() {
    ScratchPlan plan;
    size_t workspace = 0;
    for (const Block& block : blocks_) {
      for (const GemmPtr* gemm : {&block.forward, &block.backward_input, &block.backward_weights}) {
        if (*gemm != nullptr) workspace = std::max(workspace, (*gemm)->workspace_bytes());
      }
    }
    plan.Add(workspace);
    for (Block& block : blocks_) {
      if (!block.in_place()) block.copy_offset = plan.Add(block.rows.bytes());
      if (!block.gradient_in_place()) block.gradient_offset = plan.Add(block.gradient().bytes());
    }
    if (Converts()) {
      output_gradient_offset_ = plan.Add(OutputGradient().bytes());
      packed_bytes_ = ConvertedWeights().bytes();
    }
    if (bias_) sums_offset_ = plan.Add(ColumnSumsScratch(rows_, outputs_count_) * sizeof(float));
    scratch_bytes_ = plan.bytes();
  }

  bool Converts() const { return element_ != ElementType::kFloat32; }
  TensorDesc OutputGradient() const { return {outputs_[0].shape, 1, element_}; }
  TensorDesc ConvertedWeights() const { return {Shape{outputs_count_, columns_}, 1, element_}; }
  /// Of the block's weights: some columns of all, or some rows.
  int64_t Offset(const Block& block) const { return transposed_ ? block.first * outputs_count_ : block.first; }
  std::byte* Workspace(const OpArgs& args) const { return args.scratch; }

  /// Input `i` as [rows, columns]: in place, or its copy.
  const void* Rows(const OpArgs& args, size_t i) const {
    return blocks_[i].in_place() ? args.in[i].data : args.scratch + blocks_[i].copy_offset;
  }
  void BringInputs(const OpArgs& args) const {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      if (block.in_place()) continue;
      CopyLayout(context_.stream(), block.desc, args.in[i].data, block.rows, args.scratch + block.copy_offset);
    }
  }
  const void* BringOutputGradient(const OpArgs& args) const {
    if (!Converts()) return args.d_out[0].data;
    std::byte* copy = args.scratch + output_gradient_offset_;
    CopyLayout(context_.stream(), outputs_[0], args.d_out[0].data, OutputGradient(), copy);
    return copy;
  }
  /// The block's, within all of them.
  const void* Weights(const OpArgs& args, const Block& block) const {
    const ParamView& param = args.params[0];
    if (!Converts()) return param.data + Offset(block);
    const auto fill = [stream = context_.stream(), to = ConvertedWeights(), data = param.data](std::byte* copy) {
      CopyLayout(stream, {to.shape, 1}, data, to, copy);
    };
    return param.packed->Get("16 bits", ConvertedWeights().bytes(), param.version, fill, {.element = element_}) +
           Offset(block) * BytesOf(element_);
  }

  const GpuContext context_;
  const ElementType element_;  ///< of the products' factors
  const bool bias_, transposed_;
  const int64_t outputs_count_, rows_;
  int64_t columns_ = 0;  ///< of the weights: the sum of the inputs'
  std::vector<Block> blocks_;
  size_t output_gradient_offset_ = 0, sums_offset_ = 0;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::InnerProduct(const InnerProductDesc& desc, const Descs& in) {
  return InnerProductOp::Create(context_, desc, in);
}

}  // namespace hp::cuda
