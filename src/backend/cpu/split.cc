#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

#include <vector>

namespace hp {
namespace {

/// One tensor under several names. Where the memory plan gave the outputs the input's memory, Forward has nothing to
/// do.
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
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  template <typename T>
  static void SumGradients(const OpArgs& args) {
    std::vector<const T*> parts;
    for (const Tensor& d_out : args.d_out) {
      if (d_out.data != nullptr) parts.push_back(DataOf<const T>(d_out));
    }
    T* const to = DataOf<T>(args.d_in[0]);
    if (parts.empty()) return Zero(args.d_in[0].desc, to);
    ForChunks(args.d_in[0].count(), [&](int64_t begin, int64_t end) {
      ForRuns<T>(begin, end, to, [&](int64_t first, int64_t count, float* sum) {
        for (int64_t i = 0; i < count; ++i) sum[i] = parts[0][first + i];
        for (size_t part = 1; part < parts.size(); ++part) {
          const T* const from = parts[part] + first;
          for (int64_t i = 0; i < count; ++i) sum[i] += from[i];
        }
      });
    });
  }
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Split(int ways, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SplitOp>(ways, in[0]));
}

}  // namespace hp
