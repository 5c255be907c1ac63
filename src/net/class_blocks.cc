// A block of classes is to the layers' ops what a sample of classes is in a training: here one of neighbours. Each
// reader says a few numbers of each block (OpContext::kClasses), which then are joined to those of all classes here
// (kJoined); where these are all classes that there are, its statistic follows from them at once (kMerged).
#include "net/class_blocks.h"

#include "backend/forward_only_op.h"

#include "glog/logging.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hp {
namespace {

size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

class ClassBlocksOp final : public ForwardOnlyOp {
 public:
  ClassBlocksOp(int64_t classes, int64_t block) : classes_(classes), block_(block) {}

  Status Make(const ClassBlocks& blocks) {
    HP_ASSIGN_OR_RETURN(product_, blocks.ops.Create(blocks.product, blocks.context, blocks.in));
    scores_ = product_->outputs()[0];
    for (const ClassReader& reader : blocks.readers) HP_RETURN_IF_ERROR(AddReader(blocks, reader));
    PlaceScratch();
    return OkStatus();
  }

  void Forward(const OpArgs& args) override {
    BatchSample sample;
    for (int64_t b = 0; b < blocks(); ++b) {
      sample.drawn = std::min(block_, classes_ - b * block_);
      sample.classes.resize(sample.drawn);
      std::iota(sample.classes.begin(), sample.classes.end(), b * block_);
      RunBlock(args, sample, b);
    }
    for (size_t i = 0; i < readers_.size(); ++i) Join(args, readers_[i], args.out[i]);
  }

 private:
  /// The ops of a reader, and where its numbers lie in scratch.
  struct Reader {
    std::unique_ptr<Op> block, joined, merged;  // merged: null where the numbers alone are wanted
    bool merges_numbers_alone = false;
    size_t of_blocks = 0, of_all = 0;
    const TensorDesc& numbers() const { return block->outputs()[0]; }
  };

  int64_t blocks() const { return (classes_ + block_ - 1) / block_; }

  Status AddReader(const ClassBlocks& blocks, const ClassReader& reader) {
    Reader made;
    OpContext context = blocks.context;
    context.part = OpContext::kClasses;
    HP_ASSIGN_OR_RETURN(made.block, blocks.ops.Create(*reader.traits, context, {scores_}));
    const TensorDesc numbers = made.numbers();
    context.part = OpContext::kJoined;
    const std::vector<TensorDesc> of_blocks(this->blocks(), numbers);
    HP_ASSIGN_OR_RETURN(made.joined, blocks.ops.Create(*reader.traits, context, of_blocks));
    if (!reader.numbers_alone) {
      context.part = OpContext::kMerged;
      context.sample_room = 0;
      made.merges_numbers_alone = reader.traits->class_split()->on_one_shard;
      const std::vector<TensorDesc> in =
          made.merges_numbers_alone ? std::vector{numbers} : std::vector{AllScores(), numbers};
      HP_ASSIGN_OR_RETURN(made.merged, blocks.ops.Create(*reader.traits, context, in));
    }
    outputs_.push_back(made.merged ? made.merged->outputs()[0] : numbers);
    readers_.push_back(std::move(made));
    return OkStatus();
  }

  TensorDesc AllScores() const { return {scores_.shape.With(1, classes_), 1}; }

  // In this order: what one op has for itself, and saves; the scores of a block; each reader's numbers.
  void PlaceScratch() {
    const auto add = [this](const Op& op) {
      own_ = std::max(own_, Aligned(op.scratch_bytes()));
      saved_ = std::max(saved_, Aligned(op.saved_bytes()));
    };
    add(*product_);
    for (const Reader& reader : readers_) {
      add(*reader.block);
      add(*reader.joined);
      if (reader.merged) add(*reader.merged);
    }
    size_t end = own_ + saved_ + Aligned(scores_.bytes());
    for (Reader& reader : readers_) {
      const size_t bytes = Aligned(reader.numbers().bytes());
      reader.of_blocks = std::exchange(end, end + bytes * blocks());
      reader.of_all = std::exchange(end, end + bytes);
    }
    scratch_bytes_ = end;
  }

  void RunBlock(const OpArgs& args, const BatchSample& sample, int64_t b) const {
    const Tensor scores{scores_, args.scratch + own_ + saved_};
    Run(*product_, args, args.in, scores, &sample);
    for (const Reader& reader : readers_) Run(*reader.block, args, {&scores, 1}, NumbersOf(reader, b, args), &sample);
  }

  void Join(const OpArgs& args, const Reader& reader, const Tensor& out) const {
    std::vector<Tensor> of_blocks;
    for (int64_t b = 0; b < blocks(); ++b) of_blocks.push_back(NumbersOf(reader, b, args));
    const Tensor joined = reader.merged ? Tensor{reader.numbers(), args.scratch + reader.of_all} : out;
    Run(*reader.joined, args, of_blocks, joined, nullptr);
    if (!reader.merged) return;
    std::vector<Tensor> in = {joined};
    // Only a gradient would follow from the scores.
    if (!reader.merges_numbers_alone) in.insert(in.begin(), Tensor{AllScores(), nullptr});
    Run(*reader.merged, args, in, out, nullptr);
  }

  static Tensor NumbersOf(const Reader& reader, int64_t b, const OpArgs& args) {
    const size_t at = reader.of_blocks + Aligned(reader.numbers().bytes()) * static_cast<size_t>(b);
    return {reader.numbers(), args.scratch + at};
  }

  void Run(Op& op, const OpArgs& args, std::span<const Tensor> in, const Tensor& out, const BatchSample* sample) const {
    OpArgs own;
    own.in = in;
    own.out = {&out, 1};
    own.params = args.params;
    own.scratch = args.scratch;
    own.saved = args.scratch + own_;
    own.batch = args.batch;
    own.sample = sample;
    op.Forward(own);
  }

  const int64_t classes_, block_;
  std::unique_ptr<Op> product_;
  TensorDesc scores_;  // of a block
  std::vector<Reader> readers_;
  size_t own_ = 0, saved_ = 0;  // bytes
};

}  // namespace

StatusOr<std::unique_ptr<Op>> MakeClassBlocks(const ClassBlocks& blocks) {
  const OpContext& context = blocks.context;
  CHECK_GT(context.sample_room, 0);
  auto op = std::make_unique<ClassBlocksOp>(context.classes().here.size(), context.sample_room);
  HP_RETURN_IF_ERROR(op->Make(blocks));
  return std::unique_ptr<Op>(std::move(op));
}

}  // namespace hp
