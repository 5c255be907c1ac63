#pragma once

#include "base/philox.h"
#include "test/support/elements.h"
#include "test/unit/backend/op_test_util.h"

#include <bit>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace hp::test {

/// One op and inputs for it.
struct OpCase {
  const char* name;
  std::function<StatusOr<Backend::OpPtr>(Backend&, const Backend::Descs&)> make;
  Backend::Descs in;
  float tolerance = 0;  ///< 0: the same bits
  std::vector<Shape> params = {};
  int roundings = 2;    ///< of what is written in 16 bits
  int64_t below = 0;    ///< above 0: inputs are whole numbers below it
  int64_t labels = 1;   ///< of a row
  bool shares = false;  ///< inputs are 0.1 to 1, as probabilities
};

/// A case with inputs of float32 or of the element type of the backend's products.
struct TypedCase {
  OpCase c;
  ElementType element = ElementType::kFloat32;
  bool first_is_float32 = false;  ///< beside others of `element`: what comes from other nodes is float32

  Backend::Descs in() const {
    Backend::Descs descs = c.in;
    for (size_t i = first_is_float32 ? 1 : 0; i < descs.size(); ++i) descs[i].element = element;
    return descs;
  }
  /// What is read is the same number on both sides; what is written is rounded.
  float tolerance() const {
    const bool rounds = element != ElementType::kFloat32;
    return c.tolerance + (rounds ? static_cast<float>(c.roundings) * RoundingError(element) : 0);
  }
  std::string name() const {
    const char* const types[] = {"", "_bfloat16", "_float16"};
    return std::string(c.name) + types[static_cast<int>(element)] + (first_is_float32 ? "_behind_float32" : "");
  }
};

inline void PrintTo(const TypedCase& c, std::ostream* out) { *out << c.name(); }

/// Ops of all kinds, in layouts of all kinds.
std::span<const OpCase> OpCases();

/// One op with memory of its device: calls that read back what they left in it.
class OpBench {
 public:
  /// @param element that all values are rounded to.
  OpBench(Device* device, Backend* backend, const OpCase& c, const Backend::Descs& in, ElementType element)
      : device_(device), backend_(backend), element_(element), below_(c.below), shares_(c.shares) {
    auto op = c.make(*backend, in);
    EXPECT_TRUE(op.ok()) << op.status();
    op_ = *std::move(op);
    for (const TensorDesc& desc : in) in_.push_back(Allocate(desc)), d_in_.push_back(Allocate(desc));
    for (const TensorDesc& desc : op_->outputs()) out_.push_back(Allocate(desc)), d_out_.push_back(Allocate(desc));
    for (const Shape& shape : c.params) {
      params_.push_back(Allocate({shape, 1})), d_params_.push_back(Allocate({shape, 1}));
      d_param_pointers_.push_back(d_params_.back().floats());
      packed_.emplace_back(device);
    }
    const int64_t rows = c.in[0].shape[0], labels = rows * c.labels;
    labels_ = Allocate({Shape{kBatches * labels}, 1});
    const std::span<const float> all(labels_.floats(), static_cast<size_t>(kBatches * labels));
    batch_.global_rows = kBatches * rows;
    batch_.batch_labels = all.first(batch_.global_rows);  // of rows of several labels: their counts
    batch_.labels = all.subspan(labels, labels);
    AllocateWork();
    batch_.first_sample_on_device = reinterpret_cast<const uint64_t*>(Allocate(sizeof(uint64_t)));
    batch_.loss_scale_on_device = reinterpret_cast<const float*>(Allocate(sizeof(float)));
    args_.in = in_, args_.out = out_, args_.d_in = d_in_, args_.d_out = d_out_;
    args_.d_params = d_param_pointers_;
    args_.batch = &batch_;
  }

  /// Input 0 and output 0, both NHWC, and their gradients lie in so many groups of channels from now on
  /// (Op::ReadGroups, Op::WriteGroups). Before the first Load. @return false: the op refuses.
  bool LieInGroups(int64_t input, int64_t output) {
    if (!op_->ReadGroups(input) || !op_->WriteGroups(output)) return false;
    in_groups_ = input, out_groups_ = output;
    AllocateWork();
    return true;
  }
  Op& op() { return *op_; }
  /// All values are such that TF32, which has 10 fraction bits, multiplies them exactly. Before the first Load.
  void RoundToTf32() { is_tf32_ = true; }
  /// Puts `values` into input 0.
  void LoadInput(const Values& values) { Write(in_[0], values, in_groups_); }
  /// What input 0 is made of from now on, in the device's memory; must outlive the calls.
  void UseRawImages(const RawImages* images) { args_.raw_images = images; }

  /// Puts other inputs, parameters, gradients, labels and samples into the same memory.
  void Load(uint32_t seed) {
    for (size_t i = 0; i < in_.size(); ++i) {
      Values values = DistinctValues(in_[i].count(), seed + i, 0.003f);
      if (shares_) values = RandomValues(in_[i].count(), seed + i, 0.1f, 1);
      if (below_ > 0) values = RandomValues(in_[i].count(), seed + i, 0, static_cast<float>(below_));
      for (float& value : values) value = below_ > 0 ? std::floor(value) : value;
      Write(in_[i], values, i == 0 ? in_groups_ : 1);
    }
    for (size_t i = 0; i < d_out_.size(); ++i) {
      Write(d_out_[i], RandomValues(d_out_[i].count(), seed + 50 + i), i == 0 ? out_groups_ : 1);
    }
    ++version_;
    for (size_t i = 0; i < params_.size(); ++i) {
      Write(params_[i], RandomValues(params_[i].count(), seed + 70 + i));
      Write(d_params_[i], RandomValues(params_[i].count(), seed + 80 + i));
      packed_[i].Refresh(version_);
    }
    Values labels = RandomValues(labels_.count(), seed + 90, 0, 5);
    for (float& label : labels) label = std::floor(label);
    Write(labels_, labels);
    const uint64_t first_sample = (uint64_t{1} << 40) + seed;
    if (device_->is_host()) batch_.first_sample = first_sample;  // the host's op reads this one
    Copy(const_cast<uint64_t*>(batch_.first_sample_on_device), &first_sample, sizeof(first_sample));
    const float loss_scale = seed % 2 == 0 ? 2.0f : 8.0f;
    if (device_->is_host()) batch_.loss_scale = loss_scale;
    Copy(const_cast<float*>(batch_.loss_scale_on_device), &loss_scale, sizeof(loss_scale));
  }
  void Call() {
    Forward();
    BackwardInput();
    BackwardParams();
  }
  void Forward() {
    WithArgs([this] { op_->Forward(args_); });
  }
  void BackwardInput() {
    WithArgs([this] { op_->BackwardInput(args_); });
  }
  void BackwardParams(bool accumulate = true) {
    args_.accumulate = accumulate;
    WithArgs([this] { op_->BackwardParams(args_); });
    backend_->FinishGradients();
  }
  std::vector<Values> Results() {
    std::vector<Values> results;
    for (const Tensor& tensor : out_) results.push_back(Read(tensor, &tensor == out_.data() ? out_groups_ : 1));
    for (const Tensor& tensor : d_in_) results.push_back(Read(tensor, &tensor == d_in_.data() ? in_groups_ : 1));
    for (const Tensor& tensor : d_params_) results.push_back(Read(tensor));
    return results;
  }

  ElementType output_element() const { return op_->outputs()[0].element; }
  /// As before all work that is repeated.
  void RefreshPacked() {
    for (PackedParams& packed : packed_) packed.Refresh(version_);
  }

 private:
  template <typename Body>
  void WithArgs(const Body& body) {
    std::vector<ParamView> params;
    for (size_t i = 0; i < params_.size(); ++i) params.push_back({params_[i].floats(), version_, &packed_[i]});
    args_.params = params;
    body();
  }
  std::byte* Allocate(size_t bytes) {
    buffers_.push_back(device_->Allocate(bytes).value());
    return buffers_.back().data();
  }
  Tensor Allocate(const TensorDesc& desc) { return {desc, Allocate(desc.bytes())}; }
  void AllocateWork() {
    args_.saved = Allocate(op_->saved_bytes());
    args_.scratch = Allocate(op_->scratch_bytes());
  }
  /// NHWC to groups, or back.
  static void Regroup(const TensorDesc& desc, int64_t groups, bool back, const void* from, void* to) {
    const int64_t channels = desc.shape[1], of_group = channels / groups;
    int64_t in_groups = 0;
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t pixel = 0; pixel < desc.count() / channels; ++pixel) {
        for (int64_t c = 0; c < of_group; ++c, ++in_groups) {
          const int64_t nhwc = pixel * channels + g * of_group + c;
          const float value = GetElement(desc.element, from, back ? in_groups : nhwc);
          SetElement(desc.element, value, to, back ? nhwc : in_groups);
        }
      }
    }
  }

  void Copy(void* to, const void* from, size_t bytes) {
    device_->Upload(Device::kCompute, to, from, bytes);
    ASSERT_TRUE(device_->Synchronize().ok());
  }
  void Write(const Tensor& tensor, Values values, int64_t groups = 1) {
    for (float& value : values) value = is_tf32_ ? Tf32(value) : Rounded(element_, value);
    Values memory(values.size()), regrouped(values.size());
    WriteTensor({tensor.desc, memory.data()}, values);
    if (groups > 1) Regroup(tensor.desc, groups, false, memory.data(), regrouped.data());
    Copy(tensor.data, groups > 1 ? regrouped.data() : memory.data(), tensor.desc.bytes());
  }
  Values Read(const Tensor& tensor, int64_t groups = 1) {
    Values memory(tensor.count()), regrouped(tensor.count());
    device_->Download(Device::kCompute, memory.data(), tensor.data, tensor.desc.bytes());
    EXPECT_TRUE(device_->Synchronize().ok());
    if (groups > 1) Regroup(tensor.desc, groups, true, memory.data(), regrouped.data());
    return ReadTensor({tensor.desc, groups > 1 ? regrouped.data() : memory.data()});
  }

  static float Tf32(float value) { return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~0x1FFFu); }

  Device* const device_;
  Backend* const backend_;
  const ElementType element_;
  bool is_tf32_ = false;
  const int64_t below_;  ///< as in OpCase
  const bool shares_;    ///< likewise
  std::vector<Buffer> buffers_;
  std::unique_ptr<Op> op_;
  std::vector<Tensor> in_, out_, d_in_, d_out_, params_, d_params_;
  std::vector<float*> d_param_pointers_;
  std::vector<PackedParams> packed_;
  uint64_t version_ = 0;
  int64_t in_groups_ = 1, out_groups_ = 1;
  static constexpr int64_t kBatches = 3;  // of this size are the global batch; this one is the second
  Tensor labels_;
  BatchContext batch_;
  OpArgs args_;
};

}  // namespace hp::test
