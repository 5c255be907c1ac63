// What stands where a tensor crosses to other nodes: in float32, or rounded to bfloat16.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

#include <algorithm>
#include <vector>

namespace hp {
namespace {

/// A tensor that leaves the node: the wire's layout out, the sum of the readers' gradients back in the net's.
class ExportOp final : public Op {
 public:
  ExportOp(int parts, ElementType element, const TensorDesc& in) : in_(in) {
    outputs_ = {{in.shape, 1, element}};
    if (in.element != ElementType::kFloat32 && parts > 1) scratch_bytes_ = FloatsOf(in).bytes();
  }

  void Forward(const OpArgs& args) override { CopyLayout(in_, args.in[0].data, outputs_[0], args.out[0].data); }
  /// args.d_out holds one gradient for each reader.
  void BackwardInput(const OpArgs& args) override {
    void* const to = args.d_in[0].data;
    if (to == nullptr) return;
    std::vector<const void*> parts;
    for (const Tensor& d_out : args.d_out) {
      if (d_out.data != nullptr) parts.push_back(d_out.data);
    }
    if (parts.empty()) return Zero(in_, to);
    if (parts.size() == 1) return CopyLayout(outputs_[0], parts[0], in_, to);
    if (in_.element == ElementType::kFloat32) return Sum(parts, in_, static_cast<float*>(to));
    float* const sum = reinterpret_cast<float*>(args.scratch);
    Sum(parts, FloatsOf(in_), sum);
    CopyLayout(FloatsOf(in_), sum, in_, to);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  static TensorDesc FloatsOf(const TensorDesc& desc) { return {desc.shape, desc.channel_block}; }

  void Sum(const std::vector<const void*>& parts, const TensorDesc& to, float* target) const {
    OfElement(outputs_[0].element, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      std::vector<const T*> typed;
      for (const void* part : parts) typed.push_back(static_cast<const T*>(part));
      SumFromDense<T>(typed, to, target);
    });
  }

  const TensorDesc in_;
};

/// A tensor that lands in bfloat16.
class ImportOp final : public Op {
 public:
  explicit ImportOp(const TensorDesc& in) : in_(in) { outputs_ = {{in.shape, 1}}; }

  void Forward(const OpArgs& args) override { CopyLayout(in_, args.in[0].data, outputs_[0], args.out[0].data); }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) CopyLayout(outputs_[0], args.d_out[0].data, in_, args.d_in[0].data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const TensorDesc in_;
};

/// Rounds a tensor for readers on its own node as the wire rounds it for others.
class RoundOp final : public Op {
 public:
  explicit RoundOp(const TensorDesc& in) { outputs_ = {in}; }

  void Forward(const OpArgs& args) override {
    OfElement(outputs_[0].element, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const T* const from = DataOf<const T>(args.in[0]);
      T* const to = DataOf<T>(args.out[0]);
      ForChunks(outputs_[0].count(), [=](int64_t begin, int64_t end) {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) to[i] = FromBFloat16(ToBFloat16(from[i]));
      });
    });
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr || args.d_in[0].data == args.d_out[0].data) return;
    CopyLayout(outputs_[0], args.d_out[0].data, outputs_[0], args.d_in[0].data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Export(int parts, ElementType element, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ExportOp>(parts, element, in[0]));
}

StatusOr<Backend::OpPtr> CpuBackend::Import(const Descs& in) {
  return Backend::OpPtr(std::make_unique<ImportOp>(in[0]));
}

StatusOr<Backend::OpPtr> CpuBackend::Round(ElementType, const Descs& in) {
  return Backend::OpPtr(std::make_unique<RoundOp>(in[0]));
}

}  // namespace hp
