#include "backend/cuda/column_sums.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/scratch.h"
#include "backend/layout.h"

#include <algorithm>

namespace hp::cuda {
namespace {

using GemmPtr = std::unique_ptr<GpuGemm>;

/// One input: the columns [first, first + columns) of the weights belong to it.
struct Block {
  TensorDesc desc;
  int64_t first = 0, columns = 0;
  bool dense = true;       ///< its rows can be read in place
  size_t copy_offset = 0;  ///< of its dense copy in scratch
  GemmPtr forward, backward_input, backward_weights;
};

/// y = x W^T + b with the weights in Caffe's layout. Several inputs are several products, added in their order.
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
    CopyInputs(args);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      const float* bias = bias_ && i == 0 ? args.params[1].data : nullptr;
      block.forward->Run(Rows(args, i), args.params[0].data + block.first, bias, /*add=*/i > 0, args.out[0].data,
                         Workspace(args));
    }
  }

  void BackwardInput(const OpArgs& args) override {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      float* d_in = args.d_in[i].data;
      if (d_in == nullptr) continue;
      float* rows = block.dense ? d_in : Copy(args, block);
      block.backward_input->Run(args.d_out[0].data, args.params[0].data + block.first, nullptr, /*add=*/false, rows,
                                Workspace(args));
      if (!block.dense) CopyLayout(context_.stream(), {block.desc.shape, 1}, rows, block.desc, d_in);
    }
  }

  void BackwardParams(const OpArgs& args) override {
    CopyInputs(args);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      block.backward_weights->Run(args.d_out[0].data, Rows(args, i), nullptr, args.accumulate,
                                  args.d_params[0] + block.first, Workspace(args));
    }
    if (!bias_) return;
    ColumnSums(context_.stream(), rows_, outputs_count_, args.d_out[0].data, args.accumulate, args.d_params[1],
               ScratchFloats(args.scratch, sums_offset_));
  }

  bool backward_reads_output() const override { return false; }

 private:
  InnerProductOp(const GpuContext& context, const InnerProductDesc& desc, const Backend::Descs& in)
      : context_(context), bias_(desc.bias), outputs_count_(desc.num_output), rows_(in[0].shape[0]) {
    for (const TensorDesc& input : in) {
      Block& block = blocks_.emplace_back();
      block.desc = input;
      block.first = columns_, block.columns = input.shape.count(1);
      block.dense = EffectiveBlock(input) == 1;
      columns_ += block.columns;
    }
    outputs_ = {{Shape{rows_, outputs_count_}, 1}};
  }

  Status MakeProducts(const InnerProductDesc& desc, Block* block) {
    GpuGemmDesc forward = {.m = rows_, .n = outputs_count_, .k = block->columns, .transpose_b = true};
    forward.a_stride = block->columns, forward.b_stride = columns_, forward.c_stride = outputs_count_;
    forward.bias = bias_ && block->first == 0;
    HP_ASSIGN_OR_RETURN(block->forward, context_.library->Gemm(forward));

    GpuGemmDesc weights = {.m = outputs_count_, .n = block->columns, .k = rows_, .transpose_a = true};
    weights.a_stride = outputs_count_, weights.b_stride = block->columns, weights.c_stride = columns_;
    HP_ASSIGN_OR_RETURN(block->backward_weights, context_.library->Gemm(weights));

    if (!desc.input_gradient) return OkStatus();
    GpuGemmDesc input = {.m = rows_, .n = block->columns, .k = outputs_count_};
    input.a_stride = outputs_count_, input.b_stride = columns_, input.c_stride = block->columns;
    HP_ASSIGN_OR_RETURN(block->backward_input, context_.library->Gemm(input));
    return OkStatus();
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
      if (!block.dense) block.copy_offset = plan.Add(block.desc.bytes());
    }
    if (bias_) sums_offset_ = plan.Add(ColumnSumsScratch(rows_, outputs_count_) * sizeof(float));
    scratch_bytes_ = plan.bytes();
  }

  std::byte* Workspace(const OpArgs& args) const { return args.scratch; }
  float* Copy(const OpArgs& args, const Block& block) const { return ScratchFloats(args.scratch, block.copy_offset); }
  /// Input `i` as [rows, columns]: in place, or its copy.
  const float* Rows(const OpArgs& args, size_t i) const {
    return blocks_[i].dense ? args.in[i].data : Copy(args, blocks_[i]);
  }
  void CopyInputs(const OpArgs& args) const {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      if (block.dense) continue;
      CopyLayout(context_.stream(), block.desc, args.in[i].data, {block.desc.shape, 1}, Copy(args, block));
    }
  }

  const GpuContext context_;
  const bool bias_;
  const int64_t outputs_count_, rows_;
  int64_t columns_ = 0;  ///< of the weights: the sum of the inputs'
  std::vector<Block> blocks_;
  size_t sums_offset_ = 0;
};

}  // namespace

StatusOr<Backend::OpPtr> MakeInnerProduct(const GpuContext& context, const InnerProductDesc& desc,
                                          const Backend::Descs& in) {
  return InnerProductOp::Create(context, desc, in);
}

}  // namespace hp::cuda
