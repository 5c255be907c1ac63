// Cosines by the formulas of backend/cpu/cosine_product.cc. The norms of the weights' rows are computed once for each
// version of the weights and shared by all micro-batches; the features are normalised into scratch in each pass.
#include "backend/cuda/cosine_rows.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/scratch.h"

#include <algorithm>
#include <string>

namespace hp::cuda {
namespace {

/// One input: columns [first, first + columns) of the features.
struct FeatureBlock {
  TensorDesc desc;
  int64_t first = 0, columns = 0;
  TensorDesc plain() const { return {desc.shape, 1}; }
};

class CosineProductOp final : public Op {
 public:
  static StatusOr<Backend::OpPtr> Create(const GpuContext& context, const CosineProductDesc& desc,
                                         const Backend::Descs& in) {
    std::unique_ptr<CosineProductOp> op(new CosineProductOp(context, desc, in));
    HP_RETURN_IF_ERROR(op->MakeProducts(desc));
    op->PlanScratch();
    return Backend::OpPtr(std::move(op));
  }

  void Forward(const OpArgs& args) override {
    float* const y = args.out[0].floats();
    forward_->Run(BringFeatures(args), Weights(args), nullptr, /*add=*/false, y, args.scratch);
    ScaleColumns(stream(), rows_, outputs_count_, Norms(args), y, ElementType::kFloat32, y);
  }

  void BackwardInput(const OpArgs& args) override {
    BringFeatures(args);
    std::byte* const scaled = args.scratch + dy_offset_;
    float* const gradient = ScratchFloats(args.scratch, gradient_offset_);
    ScaleColumns(stream(), rows_, outputs_count_, Norms(args), args.d_out[0].floats(), element_, scaled);
    backward_input_->Run(scaled, Weights(args), nullptr, /*add=*/false, gradient, args.scratch);
    ProjectOnUnitRows(stream(), rows_, columns_, Features(args), FeatureNorms(args), gradient);
    for (size_t i = 0; i < blocks_.size(); ++i) StoreGradient(args.d_in[i], blocks_[i], gradient, args);
  }

  void BackwardParams(const OpArgs& args) override {
    const void* const x = BringFeatures(args);
    const float* const weights = args.params[0].data;
    float* const gradient = args.d_params[0];
    float* const kept = args.accumulate ? ScratchFloats(args.scratch, kept_offset_) : nullptr;
    if (args.accumulate) {
      BeginAddedProjection(stream(), outputs_count_, columns_, weights, Norms(args), gradient, kept);
    }
    backward_weights_->Run(BringOutputGradient(args), x, nullptr, args.accumulate, gradient, args.scratch);
    ProjectOnRows(stream(), outputs_count_, columns_, weights, Norms(args), kept, gradient);
  }

  bool backward_reads_output() const override { return false; }

 private:
  CosineProductOp(const GpuContext& context, const CosineProductDesc& desc, const Backend::Descs& in)
      : context_(context),
        element_(context.library->element()),
        outputs_count_(desc.num_output),
        rows_(in[0].shape[0]) {
    for (const TensorDesc& input : in) {
      blocks_.push_back({input, columns_, input.shape.count(1)});
      columns_ += blocks_.back().columns;
    }
    outputs_ = {{Shape{rows_, outputs_count_}, 1}};
  }

  Status MakeProducts(const CosineProductDesc& desc) {
    GpuGemmDesc forward = {.m = rows_, .n = outputs_count_, .k = columns_, .transpose_b = true};
    forward.a_stride = columns_, forward.b_stride = columns_, forward.c_stride = outputs_count_;
    HP_ASSIGN_OR_RETURN(forward_, context_.library->Gemm(forward));

    GpuGemmDesc weights = {.m = outputs_count_, .n = columns_, .k = rows_, .transpose_a = true};
    weights.a_stride = outputs_count_, weights.b_stride = columns_, weights.c_stride = columns_;
    HP_ASSIGN_OR_RETURN(backward_weights_, context_.library->Gemm(weights));

    if (!desc.input_gradient) return OkStatus();
    GpuGemmDesc input = {.m = rows_, .n = columns_, .k = outputs_count_};
    input.a_stride = outputs_count_, input.b_stride = columns_, input.c_stride = columns_;
    HP_ASSIGN_OR_RETURN(backward_input_, context_.library->Gemm(input));
    return OkStatus();
  }

  void PlanScratch() {
    ScratchPlan plan;
    size_t workspace = 0, block_bytes = 0;
    for (const auto* gemm : {&forward_, &backward_input_, &backward_weights_}) {
      if (*gemm != nullptr) workspace = std::max(workspace, (*gemm)->workspace_bytes());
    }
    for (const FeatureBlock& block : blocks_) {
      if (!block.desc.plain()) block_bytes = std::max(block_bytes, block.plain().bytes());
    }
    plan.Add(workspace);
    block_offset_ = plan.Add(block_bytes);
    features_offset_ = plan.Add(FeaturesDesc().bytes());
    norms_offset_ = plan.Add(rows_ * sizeof(float));
    gradient_offset_ = plan.Add(FeaturesDesc().bytes());
    dy_offset_ = plan.Add(FactorOf(outputs_[0]).bytes());
    kept_offset_ = plan.Add(outputs_count_ * sizeof(float));
    if (Converts()) factor_offset_ = plan.Add(FactorOf(FeaturesDesc()).bytes());
    scratch_bytes_ = plan.bytes();
    packed_bytes_ = outputs_count_ * sizeof(float) + (Converts() ? FactorOf(WeightsDesc()).bytes() : 0);
  }

  GpuStream stream() const { return context_.stream(); }
  bool Converts() const { return element_ != ElementType::kFloat32; }
  TensorDesc FeaturesDesc() const { return {Shape{rows_, columns_}, 1}; }
  TensorDesc WeightsDesc() const { return {Shape{outputs_count_, columns_}, 1}; }
  /// The same as the products read it.
  TensorDesc FactorOf(const TensorDesc& desc) const { return {desc.shape, 1, element_}; }
  float* Features(const OpArgs& args) const { return ScratchFloats(args.scratch, features_offset_); }
  float* FeatureNorms(const OpArgs& args) const { return ScratchFloats(args.scratch, norms_offset_); }

  /// Normalises the features, in float32. @return them as the products read them.
  const void* BringFeatures(const OpArgs& args) const {
    float* const x = Features(args);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const FeatureBlock& block = blocks_[i];
      const void* from = args.in[i].data;
      if (!block.desc.plain()) {
        from = args.scratch + block_offset_;
        CopyLayout(stream(), block.desc, args.in[i].data, block.plain(), args.scratch + block_offset_);
      }
      CopyColumns(stream(), rows_, block.columns, static_cast<const float*>(from), block.columns, x + block.first,
                  columns_);
    }
    NormaliseRows(stream(), rows_, columns_, x, FeatureNorms(args));
    return AsFactor(FeaturesDesc(), x, args.scratch + factor_offset_);
  }
  const void* BringOutputGradient(const OpArgs& args) const {
    return AsFactor(outputs_[0], args.d_out[0].floats(), args.scratch + dy_offset_);
  }
  /// `data`, or its copy of 16 bits.
  const void* AsFactor(const TensorDesc& desc, const float* data, void* copy) const {
    if (!Converts()) return data;
    CopyLayout(stream(), desc, data, FactorOf(desc), copy);
    return copy;
  }

  void StoreGradient(const Tensor& d_in, const FeatureBlock& block, const float* gradient, const OpArgs& args) const {
    if (d_in.data == nullptr) return;
    const bool plain = block.desc.plain();
    float* const to = plain ? d_in.floats() : ScratchFloats(args.scratch, block_offset_);
    CopyColumns(stream(), rows_, block.columns, gradient + block.first, columns_, to, block.columns);
    if (!plain) CopyLayout(stream(), block.plain(), to, block.desc, d_in.data);
  }

  // Both are kept beyond this call, and perhaps beyond this op.
  const float* Norms(const OpArgs& args) const {
    const ParamView& param = args.params[0];
    const auto fill = [stream = stream(), rows = outputs_count_, width = columns_, data = param.data](std::byte* copy) {
      InverseNorms(stream, rows, width, data, reinterpret_cast<float*>(copy));
    };
    const size_t bytes = outputs_count_ * sizeof(float);
    return reinterpret_cast<const float*>(
        param.packed->Get("inverse norms of " + std::to_string(outputs_count_), bytes, param.version, fill));
  }
  const void* Weights(const OpArgs& args) const {
    const ParamView& param = args.params[0];
    if (!Converts()) return param.data;
    const auto fill = [stream = stream(), from = WeightsDesc(), to = FactorOf(WeightsDesc()),
                       data = param.data](std::byte* copy) { CopyLayout(stream, from, data, to, copy); };
    return param.packed->Get("16 bits", FactorOf(WeightsDesc()).bytes(), param.version, fill);
  }

  const GpuContext context_;
  const ElementType element_;  ///< of the products' factors
  const int64_t outputs_count_, rows_;
  int64_t columns_ = 0;  ///< of the weights: the sum of the inputs'
  std::vector<FeatureBlock> blocks_;
  std::unique_ptr<GpuGemm> forward_, backward_input_, backward_weights_;
  // In scratch, behind the products' workspace: one input as plain rows, the features, their inverse norms, their
  // gradient, dy as a factor, a number for each output, the features as a factor.
  size_t block_offset_ = 0, features_offset_ = 0, norms_offset_ = 0, gradient_offset_ = 0, dy_offset_ = 0;
  size_t kept_offset_ = 0, factor_offset_ = 0;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::CosineProduct(const CosineProductDesc& desc, const Descs& in) {
  return CosineProductOp::Create(context_, desc, in);
}

}  // namespace hp::cuda
