#include "layers/label_ops.h"

#include "glog/logging.h"

#include <functional>
#include <utility>
#include <vector>

namespace hp {
namespace {

class ToTensor final : public Op {
 public:
  ToTensor(std::unique_ptr<Op> copy, const TensorDesc& labels) : copy_(std::move(copy)), labels_(labels) {
    outputs_ = {labels};
    scratch_bytes_ = copy_->scratch_bytes();
  }

  void Forward(const OpArgs& args) override {
    CHECK_EQ(static_cast<int64_t>(args.batch->labels.size()), labels_.count());
    const Tensor labels{labels_, const_cast<float*>(args.batch->labels.data())};  // as every input it is only read
    OpArgs of_copy = args;
    of_copy.in = {&labels, 1};
    copy_->Forward(of_copy);
  }
  void BackwardInput(const OpArgs&) override {}
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const std::unique_ptr<Op> copy_;
  const TensorDesc labels_;
};

/// A loss or an accuracy that is called with other arguments.
class WithOtherArgs : public Op {
 public:
  explicit WithOtherArgs(std::unique_ptr<Op> op) : op_(std::move(op)) {
    outputs_ = op_->outputs();
    scratch_bytes_ = op_->scratch_bytes();
    saved_bytes_ = op_->saved_bytes();
    packed_bytes_ = op_->packed_bytes();
  }

  void Forward(const OpArgs& args) override {
    Call(args, [this](const OpArgs& inner) { op_->Forward(inner); });
  }
  void BackwardInput(const OpArgs& args) override {
    Call(args, [this](const OpArgs& inner) { op_->BackwardInput(inner); });
  }
  bool backward_reads_input() const override { return op_->backward_reads_input(); }
  bool backward_reads_output() const override { return op_->backward_reads_output(); }

 protected:
  using Use = std::function<void(const OpArgs&)>;
  virtual void Call(const OpArgs& args, const Use& use) const = 0;

 private:
  const std::unique_ptr<Op> op_;
};

class FromTensor final : public WithOtherArgs {
 public:
  FromTensor(std::unique_ptr<Op> op, size_t at) : WithOtherArgs(std::move(op)), at_(at) {}

  bool backward_reads_input() const override { return true; }

 private:
  void Call(const OpArgs& args, const Use& use) const override {
    const Tensor& labels = args.in[at_];
    BatchContext batch = *args.batch;
    batch.labels = {labels.floats(), static_cast<size_t>(labels.count())};
    std::vector<Tensor> in(args.in.begin(), args.in.end()), d_in(args.d_in.begin(), args.d_in.end());
    in.erase(in.begin() + static_cast<ptrdiff_t>(at_));
    if (!d_in.empty()) d_in.erase(d_in.begin() + static_cast<ptrdiff_t>(at_));
    OpArgs inner = args;
    inner.in = in;
    inner.d_in = d_in;
    inner.batch = &batch;
    use(inner);
  }

  const size_t at_;
};

class OtherBatchLabels final : public WithOtherArgs {
 public:
  OtherBatchLabels(std::unique_ptr<Op> op, int number) : WithOtherArgs(std::move(op)), number_(number) {}

 private:
  void Call(const OpArgs& args, const Use& use) const override {
    BatchContext batch = *args.batch;
    batch.batch_labels = batch.more_labels.subspan((number_ - 1) * batch.global_rows, batch.global_rows);
    OpArgs inner = args;
    inner.batch = &batch;
    use(inner);
  }

  const int64_t number_;
};

}  // namespace

std::unique_ptr<Op> LabelsToTensor(std::unique_ptr<Op> copy, const TensorDesc& labels) {
  return std::make_unique<ToTensor>(std::move(copy), labels);
}

std::unique_ptr<Op> LabelsFromTensor(std::unique_ptr<Op> op, size_t at) {
  return std::make_unique<FromTensor>(std::move(op), at);
}

std::unique_ptr<Op> WithBatchLabels(std::unique_ptr<Op> op, int number) {
  return std::make_unique<OtherBatchLabels>(std::move(op), number);
}

}  // namespace hp
