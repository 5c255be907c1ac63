#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

namespace hp {
namespace {

/// One tensor under several names. Where the memory plan gave the outputs the input's memory, Forward has nothing to
/// do.
class SplitOp final : public Op {
 public:
  SplitOp(int ways, const TensorDesc& in) { outputs_.assign(ways, in); }

  void Forward(const OpArgs& args) override {
    for (const Tensor& out : args.out) {
      if (out.data != nullptr) CopyLayout(out.desc, args.in[0].floats(), out.desc, out.floats());
    }
  }
  /// A reader that sends no gradient back (an Accuracy) has a null pointer in d_out.
  void BackwardInput(const OpArgs& args) override {
    float* to = args.d_in[0].floats();
    if (to == nullptr) return;
    ForChunks(args.d_in[0].count(), [&](int64_t begin, int64_t end) {
      bool first = true;
      for (const Tensor& d_out : args.d_out) {
        if (d_out.data == nullptr) continue;
        for (int64_t i = begin; i < end; ++i) to[i] = first ? d_out.floats()[i] : to[i] + d_out.floats()[i];
        first = false;
      }
      if (first) std::fill(to + begin, to + end, 0.0f);
    });
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Split(int ways, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SplitOp>(ways, in[0]));
}

}  // namespace hp
