#include "backend/cuda/add_bias.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/scratch.h"

namespace hp::cuda {
namespace {

/// The addends of some nodes, added up here, and the bias behind them.
class SumOp final : public Op {
 public:
  SumOp(const GpuContext& context, bool bias, const TensorDesc& in) : context_(context), bias_(bias) {
    outputs_ = {in};
    if (bias) scratch_bytes_ = ColumnSumsScratch(rows(), columns()) * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    float* const out = args.out[0].floats();
    Sum(context_.stream(), outputs_[0], WantedData(args.in), out);
    if (!bias_) return;
    AddBias(context_.stream(), rows(), columns(), columns(), args.params[0].data, ElementType::kFloat32, out);
  }
  void BackwardInput(const OpArgs&) override {}
  void BackwardParams(const OpArgs& args) override {
    if (!bias_) return;
    ColumnSums(context_.stream(), rows(), columns(), ElementType::kFloat32, args.d_out[0].data, args.accumulate,
               args.d_params[0], ScratchFloats(args.scratch, 0));
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  int64_t rows() const { return outputs_[0].shape.dim(0); }
  int64_t columns() const { return outputs_[0].shape.count(1); }

  const GpuContext context_;
  const bool bias_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Sum(bool bias, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SumOp>(context_, bias, in[0]));
}

}  // namespace hp::cuda
