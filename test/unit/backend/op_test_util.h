#pragma once

#include "backend/op.h"
#include "tensor/tensor.h"
#include "test/support/elements.h"
#include "test/unit/backend/backend_under_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

// What the tests of ops share. Values in tests are logical: dense NCHW vectors; OpRunner brings them into the layouts
// that the op wants and back.
namespace hp::test {

using Values = ReachableVector<float>;

/// `count` uniform values in [low, high); the same for the same seed.
inline Values RandomValues(int64_t count, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  Values values(count);
  for (float& value : values) value = low + (high - low) * static_cast<float>(random() >> 8) / 16777216.0f;
  return values;
}

/// A shuffled sequence of `count` values at least `gap` apart from each other and from 0: for ops with kinks (max,
/// ReLU).
inline Values DistinctValues(int64_t count, uint32_t seed, float gap = 0.05f) {
  Values values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = gap * (static_cast<float>(i - count / 2) + 0.5f);
  std::shuffle(values.begin(), values.end(), std::mt19937(seed));
  return values;
}

/// Every layout that `shape` can have with the backend under test: dense, blocks of 8 and 16 where they divide the
/// channels, NHWC.
inline std::vector<TensorDesc> LayoutsOf(const Shape& shape) {
  std::vector<TensorDesc> descs = {{shape, 1}};
  if (shape.rank() < 3) return descs;
  for (int64_t block : {int64_t{8}, int64_t{16}}) {
    if (!UnderTest().blocked_layouts) break;
    if (shape[1] % block == 0 && shape[1] != block) descs.push_back({shape, block});
  }
  if (shape[1] > 1) descs.push_back({shape, shape[1]});
  return descs;
}

/// Calls visit(index in NCHW, offset in memory) for each element.
template <typename Visit>
void ForEachElement(const TensorDesc& desc, const Visit& visit) {
  if (desc.dense()) {
    for (int64_t i = 0; i < desc.count(); ++i) visit(i, i);
    return;
  }
  const int64_t channels = desc.shape[1], spatial = desc.shape.count(2);
  int64_t index = 0;
  for (int64_t n = 0; n < desc.shape[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t s = 0; s < spatial; ++s) visit(index++, ElementOffset(desc, n, c, s));
    }
  }
}

inline void WriteTensor(const Tensor& tensor, const Values& values) {
  ASSERT_EQ(tensor.count(), static_cast<int64_t>(values.size()));
  ForEachElement(tensor.desc, [&](int64_t index, int64_t offset) {
    SetElement(tensor.desc.element, values[index], tensor.data, offset);
  });
}

inline Values ReadTensor(const Tensor& tensor) {
  Values values(tensor.count());
  ForEachElement(tensor.desc, [&](int64_t index, int64_t offset) {
    values[index] = GetElement(tensor.desc.element, tensor.data, offset);
  });
  return values;
}

/// Fails where |got - want| > tolerance * max(1, |want|), or a value is not finite; names the first such index.
inline void ExpectNear(const Values& got, const Values& want, float tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const float allowed = tolerance * std::max(1.0f, std::fabs(want[i]));
    ASSERT_TRUE(std::fabs(got[i] - want[i]) <= allowed) << what << " [" << i << "]: " << got[i] << ", not " << want[i];
  }
}

/// Runs one op on memory of its own. What an op must overwrite is filled with NaN before each call, and so are its
/// scratch and what it claims not to read backward; bytes behind `saved` and `scratch` are checked to be untouched.
class OpRunner {
 public:
  /// @param in_place in[0] and out[0] are the same memory, and so are d_in[0] and d_out[0].
  OpRunner(Op* op, const std::vector<TensorDesc>& in, const std::vector<Shape>& params = {}, bool in_place = false)
      : op_(op), in_place_(in_place) {
    for (const TensorDesc& desc : in) {
      in_.push_back(Allocate(desc));
      d_in_.push_back(Allocate(desc));
      inputs_.emplace_back(desc.count(), 0.0f);
    }
    for (size_t i = 0; i < op->outputs().size(); ++i) {
      const TensorDesc& desc = op->outputs()[i];
      out_.push_back(in_place && i == 0 ? Tensor{desc, in_[0].data} : Allocate(desc));
      d_out_.push_back(in_place && i == 0 ? Tensor{desc, d_in_[0].data} : Allocate(desc));
      d_outputs_.emplace_back(desc.count(), 0.0f);
    }
    for (const Shape& shape : params) {
      params_.push_back(Allocate({shape, 1}));
      d_params_.push_back(Allocate({shape, 1}));
    }
    for (size_t i = 0; i < params.size(); ++i) packed_.emplace_back(UnderTest().device.get());
    saved_.resize(op->saved_bytes() + kGuard);
    scratch_.resize(op->scratch_bytes() + kGuard);
    std::memset(saved_.data() + op->saved_bytes(), kGuardByte, kGuard);
    batch_.global_rows = in.empty() || in[0].shape.rank() == 0 ? 1 : in[0].shape[0];
  }

  BatchContext& batch() { return batch_; }
  /// What calls are to find in OpArgs::sample, of batch `batch`; must outlive them.
  void UseSample(const UpdateSample* sample, int batch) { sample_ = sample, sample_batch_ = batch; }
  void SetInput(int i, Values values) { inputs_[i] = std::move(values); }
  void SetOutputGradient(int i, Values values) { d_outputs_[i] = std::move(values); }
  void SetParam(int i, const Values& values) {
    WriteTensor(params_[i], values);
    ++version_;
  }
  /// A null pointer instead of d_in[i]: the gradient is not wanted.
  void SkipInputGradient(int i) { skip_d_in_.resize(in_.size()), skip_d_in_[i] = true; }

  /// Of copies that calls have made of parameters.
  size_t packed_bytes() const {
    size_t bytes = 0;
    for (const PackedParams& packed : packed_) bytes += packed.bytes();
    return bytes;
  }
  const Values& input(int i) const { return inputs_[i]; }
  Values Param(int i) const { return ReadTensor(params_[i]); }
  Values Output(int i = 0) const { return ReadTensor(out_[i]); }
  Values InputGradient(int i = 0) const { return ReadTensor(d_in_[i]); }
  Values ParamGradient(int i) const { return ReadTensor(d_params_[i]); }
  /// The tensors themselves, for ops that share memory between inputs and outputs.
  std::vector<Tensor>& in() { return in_; }
  std::vector<Tensor>& out() { return out_; }
  std::vector<Tensor>& d_in() { return d_in_; }
  std::vector<Tensor>& d_out() { return d_out_; }

  void Forward() {
    for (const Tensor& tensor : out_) Poison(tensor);
    for (size_t i = 0; i < in_.size(); ++i) WriteTensor(in_[i], inputs_[i]);
    Call([this](const OpArgs& args) { op_->Forward(args); });
  }
  void BackwardInput() {
    PoisonWhatBackwardDoesNotRead();
    for (const Tensor& tensor : d_in_) Poison(tensor);
    for (size_t i = 0; i < d_out_.size(); ++i) WriteTensor(d_out_[i], d_outputs_[i]);
    Call([this](const OpArgs& args) { op_->BackwardInput(args); });
  }
  void BackwardParams(bool accumulate = false) {
    PoisonWhatBackwardDoesNotRead();
    if (!accumulate) {
      for (const Tensor& tensor : d_params_) Poison(tensor);
    }
    for (size_t i = 0; i < d_out_.size(); ++i) WriteTensor(d_out_[i], d_outputs_[i]);
    Call([this, accumulate](OpArgs args) {
      args.accumulate = accumulate;
      op_->BackwardParams(args);
      UnderTest().backend->FinishGradients();
    });
  }
  /// Calls `body` with the arguments as the methods above would.
  template <typename Body>
  void Call(const Body& body) {
    std::vector<ParamView> params;
    std::vector<float*> d_params;
    for (size_t i = 0; i < params_.size(); ++i) {
      params.push_back({params_[i].floats(), version_, &packed_[i]});
      d_params.push_back(d_params_[i].floats());
    }
    std::vector<Tensor> d_in = d_in_;
    for (size_t i = 0; i < skip_d_in_.size(); ++i) {
      if (skip_d_in_[i]) d_in[i].data = nullptr;
    }
    std::memset(scratch_.data(), kGuardByte, scratch_.size());
    OpArgs args;
    args.in = in_, args.out = out_, args.d_in = d_in, args.d_out = d_out_;
    args.params = params, args.d_params = d_params;
    args.saved = saved_.data(), args.scratch = scratch_.data();
    first_sample_[0] = batch_.first_sample;
    loss_scale_[0] = batch_.loss_scale;
    batch_.first_sample_on_device = first_sample_.data();
    batch_.loss_scale_on_device = loss_scale_.data();
    args.batch = &batch_;
    args.update_sample = sample_;
    if (sample_ != nullptr) args.sample = &sample_->batches[sample_batch_];
    body(args);
    const Status status = UnderTest().device->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
    ExpectGuard(saved_, op_->saved_bytes(), "saved");
    ExpectGuard(scratch_, op_->scratch_bytes(), "scratch");
  }

  int inputs() const { return static_cast<int>(in_.size()); }
  int params() const { return static_cast<int>(params_.size()); }
  Op* op() const { return op_; }

 private:
  using Bytes = ReachableVector<std::byte>;
  static constexpr size_t kGuard = 256;
  static constexpr int kGuardByte = 0xFF;  // four of them are a NaN

  Tensor Allocate(const TensorDesc& desc) {
    buffers_.emplace_back(desc.count());
    return {desc, buffers_.back().data()};
  }
  static void Poison(const Tensor& tensor) {
    std::memset(tensor.data, 0xFF, tensor.desc.bytes());  // NaN of any type
  }
  /// The memory plan frees inputs and outputs that the op says its backward halves do not read.
  void PoisonWhatBackwardDoesNotRead() {
    const auto shares = [](const Tensor& tensor, const std::vector<Tensor>& others) {
      return std::any_of(others.begin(), others.end(), [&](const Tensor& other) { return other.data == tensor.data; });
    };
    for (const Tensor& tensor : in_) {
      if (!op_->backward_reads_input() && !shares(tensor, out_)) Poison(tensor);
    }
    for (const Tensor& tensor : out_) {
      if (!op_->backward_reads_output() && !shares(tensor, in_)) Poison(tensor);
    }
  }
  static void ExpectGuard(const Bytes& buffer, size_t begin, const char* what) {
    for (size_t i = begin; i < begin + kGuard; ++i) {
      ASSERT_EQ(std::to_integer<int>(buffer.data()[i]), kGuardByte) << what << " overrun, byte " << i - begin;
    }
  }

  Op* const op_;
  const bool in_place_;
  std::vector<Values> buffers_;
  Bytes saved_, scratch_;
  ReachableVector<uint64_t> first_sample_ = {0};
  Values loss_scale_ = {1};
  std::vector<Tensor> in_, out_, d_in_, d_out_, params_, d_params_;
  std::vector<PackedParams> packed_;
  std::vector<bool> skip_d_in_;
  std::vector<Values> inputs_, d_outputs_;
  uint64_t version_ = 0;
  BatchContext batch_;
  const UpdateSample* sample_ = nullptr;
  int sample_batch_ = 0;
};

struct GradientOptions {
  float step = 1e-2f;
  float tolerance = 2e-3f;  ///< of max(1, |gradient|)
  int samples = 40;         ///< elements checked of each tensor (all, if it has no more)
  bool inputs = true, params = true;
  std::vector<int> skip_inputs = {};  ///< bottoms without a gradient
};

/// Sum of outputs times their gradients, in double: the function whose derivative the op's backward halves yield.
inline double Objective(OpRunner* runner, const std::vector<Values>& d_outputs) {
  runner->Forward();
  double sum = 0;
  for (size_t i = 0; i < d_outputs.size(); ++i) {
    const Values out = runner->Output(static_cast<int>(i));
    for (size_t j = 0; j < out.size(); ++j) sum += static_cast<double>(out[j]) * d_outputs[i][j];
  }
  return sum;
}

/// Compares `analytic` with central differences in up to options.samples elements; set(values) puts changed values in.
template <typename Set>
void CheckAgainstDifferences(OpRunner* runner, const std::vector<Values>& d_outputs, const Values& values,
                             const Values& analytic, const GradientOptions& options, const std::string& what,
                             const Set& set) {
  const int64_t count = static_cast<int64_t>(values.size());
  const int64_t checked = std::min<int64_t>(count, options.samples);
  for (int64_t k = 0; k < checked; ++k) {
    const int64_t i = checked == count ? k : (k * count + count / 2) / checked;
    Values changed = values;
    changed[i] = values[i] + options.step;
    set(changed);
    const double above = Objective(runner, d_outputs);
    const float high = changed[i];
    changed[i] = values[i] - options.step;
    set(changed);
    const double numeric = (above - Objective(runner, d_outputs)) / (static_cast<double>(high) - changed[i]);
    const double allowed = options.tolerance * std::max(1.0, std::fabs(numeric));
    ASSERT_TRUE(std::fabs(numeric - analytic[i]) <= allowed)
        << what << " [" << i << "]: backward says " << analytic[i] << ", central difference " << numeric;
  }
  set(values);
}

/// Checks BackwardInput and BackwardParams against central differences of Forward, at the inputs and parameters that
/// the runner holds, for random output gradients.
inline void CheckGradients(OpRunner* runner, const GradientOptions& options = {}) {
  std::vector<Values> d_outputs;
  for (size_t i = 0; i < runner->op()->outputs().size(); ++i) {
    d_outputs.push_back(RandomValues(runner->op()->outputs()[i].count(), 900 + static_cast<uint32_t>(i)));
    runner->SetOutputGradient(static_cast<int>(i), d_outputs.back());
  }
  runner->Forward();
  std::vector<Values> d_params(runner->params()), d_inputs(runner->inputs());
  // Parameters first: BackwardInput may overwrite d_out where it works in place.
  if (options.params && runner->params() > 0) {
    runner->BackwardParams();
    for (int i = 0; i < runner->params(); ++i) d_params[i] = runner->ParamGradient(i);
  }
  if (options.inputs) {
    runner->BackwardInput();
    for (int i = 0; i < runner->inputs(); ++i) d_inputs[i] = runner->InputGradient(i);
  }
  for (int i = 0; i < runner->params() && options.params; ++i) {
    CheckAgainstDifferences(runner, d_outputs, runner->Param(i), d_params[i], options, "parameter " + std::to_string(i),
                            [&](const Values& values) { runner->SetParam(i, values); });
  }
  for (int i = 0; i < runner->inputs() && options.inputs; ++i) {
    if (std::count(options.skip_inputs.begin(), options.skip_inputs.end(), i) > 0) continue;
    CheckAgainstDifferences(runner, d_outputs, Values(runner->input(i)), d_inputs[i], options,
                            "input " + std::to_string(i), [&](const Values& values) { runner->SetInput(i, values); });
  }
}

}  // namespace hp::test
