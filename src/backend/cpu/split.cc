#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/relu_runs.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/vec.h"

#include <vector>

namespace hp {
namespace {

/// One tensor under several names. Where the memory plan gave the outputs the input's memory, Forward has nothing to
/// do. The tensor may be a ReLU's output, whose gradient follows from the sum.
class SplitOp final : public Op {
 public:
  SplitOp(int ways, const TensorDesc& in) { outputs_.assign(ways, in); }

  void Forward(const OpArgs& args) override {
    for (const Tensor& out : args.out) {
      if (out.data != nullptr) CopyLayout(out.desc, args.in[0].data, out.desc, out.data);
    }
  }
  /// A reader that sends no gradient back (an Accuracy) has a null pointer in d_out.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    OfElement(args.d_in[0].desc.element, [&](auto tag) { SumGradients<typename decltype(tag)::Type>(args); });
  }
  bool TakeReluGradientBefore() override {
    before_relu_ = true;
    return true;
  }
  bool backward_reads_input() const override { return before_relu_; }
  bool backward_reads_output() const override { return false; }

 private:
  /// In the order of the readers, in float32; in one pass over memory.
  template <typename T>
  void SumGradients(const OpArgs& args) const {
    std::vector<const T*> parts;
    for (const Tensor& d_out : args.d_out) {
      if (d_out.data != nullptr) parts.push_back(DataOf<const T>(d_out));
    }
    T* const to = DataOf<T>(args.d_in[0]);
    if (parts.empty()) return Zero(args.d_in[0].desc, to);
    const T* const relu = before_relu_ ? DataOf<const T>(args.in[0]) : nullptr;
    ForChunks(args.d_in[0].count(), [&](int64_t begin, int64_t end) {
      ForEachChunk(end - begin, [&](auto width, int64_t i) {
        constexpr int W = decltype(width)::value;
        const int64_t at = begin + i;
        FloatVec<W> sum = Load<W>(parts[0] + at);
        for (size_t part = 1; part < parts.size(); ++part) sum += Load<W>(parts[part] + at);
        if (relu != nullptr) sum = ReluGradient<T, W>(Load<W>(relu + at), Stored<T, W>(sum));
        Store<W>(to + at, sum);
      });
    });
  }

  bool before_relu_ = false;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Split(int ways, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SplitOp>(ways, in[0]));
}

}  // namespace hp
