// What stands where a tensor crosses to other nodes: in float32, or rounded to bfloat16.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "base/bfloat16.h"

#include <algorithm>
#include <vector>

namespace hp {
namespace {

/// to[i] = convert(from[i]).
template <typename From, typename To, typename Convert>
void ConvertAll(const From* from, int64_t count, To* to, const Convert& convert) {
  ForChunks(count, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) to[i] = convert(from[i]);
  });
}

void Narrow(const float* from, int64_t count, void* to) {
  ConvertAll(from, count, static_cast<uint16_t*>(to), [](float value) { return ToBFloat16(value); });
}

void Widen(const void* from, int64_t count, float* to) {
  ConvertAll(static_cast<const uint16_t*>(from), count, to, [](uint16_t bits) { return FromBFloat16(bits); });
}

/// A tensor that leaves the node: the wire's layout out, the sum of the readers' gradients back in the net's.
class ExportOp final : public Op {
 public:
  ExportOp(int parts, ElementType element, const TensorDesc& in) : in_(in), narrow_(element != ElementType::kFloat32) {
    outputs_ = {{in.shape, 1, element}};
    const int copies = in.dense() && parts <= 1 ? 0 : std::max(1, parts);
    if (narrow_) scratch_bytes_ = static_cast<size_t>(in.count() * copies) * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    const float* const from = args.in[0].floats();
    if (!narrow_) return CopyLayout(in_, from, {in_.shape, 1}, args.out[0].floats());
    float* const dense = Scratch(args, 0);
    if (!in_.dense()) CopyLayout(in_, from, {in_.shape, 1}, dense);
    Narrow(in_.dense() ? from : dense, in_.count(), args.out[0].data);
  }
  /// args.d_out holds one gradient for each reader.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    if (scratch_bytes_ == 0 && narrow_ && args.d_out[0].data != nullptr) {
      return Widen(args.d_out[0].data, in_.count(), args.d_in[0].floats());
    }
    std::vector<const float*> parts;
    for (const Tensor& d_out : args.d_out) {
      if (d_out.data == nullptr) continue;
      float* const wide = narrow_ ? Scratch(args, std::ssize(parts)) : d_out.floats();
      if (narrow_) Widen(d_out.data, in_.count(), wide);
      parts.push_back(wide);
    }
    if (parts.empty()) {
      std::fill_n(args.d_in[0].floats(), in_.count(), 0.0f);
    } else {
      SumFromDense(parts, in_, args.d_in[0].floats());
    }
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  float* Scratch(const OpArgs& args, int64_t part) const {
    return reinterpret_cast<float*>(args.scratch) + part * in_.count();
  }

  const TensorDesc in_;
  const bool narrow_;
};

/// A tensor that lands in bfloat16.
class ImportOp final : public Op {
 public:
  explicit ImportOp(const TensorDesc& in) { outputs_ = {{in.shape, 1}}; }

  void Forward(const OpArgs& args) override { Widen(args.in[0].data, outputs_[0].count(), args.out[0].floats()); }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) Narrow(args.d_out[0].floats(), outputs_[0].count(), args.d_in[0].data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }
};

/// Rounds a tensor for readers on its own node as the wire rounds it for others.
class RoundOp final : public Op {
 public:
  explicit RoundOp(const TensorDesc& in) { outputs_ = {in}; }

  void Forward(const OpArgs& args) override {
    ConvertAll(args.in[0].floats(), outputs_[0].count(), args.out[0].floats(),
               [](float value) { return FromBFloat16(ToBFloat16(value)); });
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr || args.d_in[0].data == args.d_out[0].data) return;
    CopyLayout(outputs_[0], args.d_out[0].floats(), outputs_[0], args.d_in[0].floats());
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
