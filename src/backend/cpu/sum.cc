#include "backend/cpu/column_sums.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

namespace hp {
namespace {

/// The addends of some nodes, added up here, and the bias behind them.
class SumOp final : public Op {
 public:
  SumOp(bool bias, const TensorDesc& in) : bias_(bias) { outputs_ = {in}; }

  void Forward(const OpArgs& args) override {
    std::vector<const float*> addends;
    for (const Tensor& in : args.in) addends.push_back(in.floats());
    float* const out = args.out[0].floats();
    SumFromDense<float>(addends, outputs_[0], out);
    if (!bias_) return;
    const float* const bias = args.params[0].data;
    const int64_t columns = this->columns();
    ForItems(rows(), outputs_[0].count(), [=](int64_t row) {
      for (int64_t c = 0; c < columns; ++c) out[row * columns + c] += bias[c];
    });
  }
  void BackwardInput(const OpArgs&) override {}
  void BackwardParams(const OpArgs& args) override {
    if (bias_) ColumnSums(args.d_out[0].floats(), rows(), columns(), columns(), args.accumulate, args.d_params[0]);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  int64_t rows() const { return outputs_[0].shape.dim(0); }
  int64_t columns() const { return outputs_[0].shape.count(1); }

  const bool bias_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Sum(bool bias, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SumOp>(bias, in[0]));
}

}  // namespace hp
