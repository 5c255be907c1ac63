#include "net/memory_plan.h"

#include "test/unit/net/net_test_util.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace hp::test {
namespace {

bool Overlap(size_t a, size_t a_bytes, size_t b, size_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

TEST(MemoryPlan, OneAfterTheOtherShareMemory) {
  const MemoryPlan plan = PlanMemory({{100, 0, 0, 1}, {200, 0, 2, 3}, {64, 0, 1, 2}, {10}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 64u + 256 + 64) << "each rounded up to 64";
}

TEST(MemoryPlan, PeriodsShareMemory) {
  const MemoryPlan plan = PlanMemory({{640, 0, 0, 9}, {1280, 1, 0, 9}, {64, Lifetime::kAlways}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 1280u + 64);
}

TEST(MemoryPlan, RandomLivesNeverMeet) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lives;
    std::map<std::pair<int, int>, size_t> in_use;  // at a moment
    size_t always = 0, sum = 0;
    for (int i = 0; i < 30; ++i) {
      const int begin = static_cast<int>(random() % 20);
      lives.push_back(
          {1 + random() % 5000, static_cast<int>(random() % 4) - 1, begin, begin + static_cast<int>(random() % 5)});
      const size_t bytes = (lives[i].bytes + 63) / 64 * 64;
      sum += bytes;
      if (lives[i].period == Lifetime::kAlways) always += bytes;
      for (int at = begin; lives[i].period >= 0 && at <= lives[i].end; ++at) in_use[{lives[i].period, at}] += bytes;
    }
    const MemoryPlan plan = PlanMemory(lives);
    for (size_t a = 0; a < lives.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0u);
      EXPECT_LE(plan.offsets[a] + lives[a].bytes, plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool always_one = lives[a].period < 0 || lives[b].period < 0;
        const bool meet =
            lives[a].period == lives[b].period && lives[a].begin <= lives[b].end && lives[b].begin <= lives[a].end;
        if (!always_one && !meet) continue;
        EXPECT_FALSE(Overlap(plan.offsets[a], lives[a].bytes, plan.offsets[b], lives[b].bytes)) << a << " and " << b;
      }
    }
    size_t peak = 0;
    for (const auto& [at, bytes] : in_use) peak = std::max(peak, bytes);
    EXPECT_GE(plan.bytes, always + peak);
    EXPECT_LE(plan.bytes, sum);
  }
}

/// Follows who wrote which bytes of a solver's memory last, and which step each buffer, through the steps of a
/// micro-batch.
class ArenaTrace {
 public:
  explicit ArenaTrace(const NodeNet& net) : net_(net) {
    run_.arena = reinterpret_cast<std::byte*>(uintptr_t{1} << 20);
    run_.ports = reinterpret_cast<std::byte*>(uintptr_t{1} << 39);
    matrices_.assign(net.update_row_bytes().size(), reinterpret_cast<std::byte*>(uintptr_t{1} << 40));
    run_.update_matrices = matrices_;
  }

  void Write(int buffer) {
    const auto own = Span(buffer);
    if (!InArena(own.first)) return;
    std::erase_if(owners_, [&](int other) {
      return other != buffer && Overlap(own.first, own.second, Span(other).first, Span(other).second);
    });
    owners_.insert(buffer);
  }
  void Read(int buffer, const std::string& by) {
    if (!InArena(Span(buffer).first)) return;
    EXPECT_TRUE(owners_.contains(buffer)) << by << " reads what has been overwritten";
  }
  void WriteValue(int tensor) { Write(net_.tensors()[tensor].value); }
  void ReadValue(int tensor, const std::string& by) { Read(net_.tensors()[tensor].value, by); }

  void Forward(const NetStep& step) {
    if (!step.forward) return;
    for (int tensor : step.in) ReadValue(tensor, step.name + " forward");
    ++forward_steps_;
    for (int tensor : step.out) WriteValue(tensor), written_by_[net_.tensors()[tensor].value] = forward_steps_;
    for (int tensor : step.in) read_at_[{&step, tensor}] = written_by_[net_.tensors()[tensor].value];
    for (int tensor : step.out) read_at_[{&step, tensor}] = written_by_[net_.tensors()[tensor].value];
    if (step.in.empty() || step.out.empty()) return;
    // In place its input is gone.
    const int in = net_.tensors()[step.in[0]].value;
    if (in == net_.tensors()[step.out[0]].value) read_at_[{&step, step.in[0]}] = -1;
  }
  /// What a step's backward pass reads is as its forward pass read or left it.
  void ExpectUnchanged(const NetStep& step, int tensor) {
    const auto read = read_at_.find({&step, tensor});
    if (read == read_at_.end()) return;  // of a view
    EXPECT_EQ(read->second, written_by_[net_.tensors()[tensor].value])
        << step.name << ": " << net_.tensors()[tensor].name;
  }
  void Backward(const NetStep& step) {
    if (!step.backward) return;
    if (step.op->backward_reads_output()) {
      for (int tensor : step.out) ReadValue(tensor, step.name + " backward"), ExpectUnchanged(step, tensor);
    }
    for (int gradient : step.out_gradient) {
      if (gradient >= 0) Read(gradient, step.name + " backward");
    }
    for (int gradient : step.in_gradient) {
      if (gradient >= 0) Write(gradient);
    }
    Params(step);  // behind the input's gradient, as NodeNet does it
  }
  void Params(const NetStep& step) {
    if (step.op->backward_reads_input()) {
      for (int tensor : step.in) ReadValue(tensor, step.name + " backward"), ExpectUnchanged(step, tensor);
    }
    for (int gradient : step.out_gradient) {
      if (gradient >= 0 && step.learns) Read(gradient, step.name + " weights");
    }
  }

 private:
  std::pair<size_t, size_t> Span(int buffer) const {
    const auto span = net_.BufferSpan(buffer, run_);
    return {reinterpret_cast<size_t>(span.data()), span.size()};
  }
  bool InArena(size_t address) const { return address >= size_t{1} << 20 && address < size_t{1} << 40; }

  const NodeNet& net_;
  NetRun run_;
  std::vector<std::byte*> matrices_;
  std::set<int> owners_;
  int forward_steps_ = 0;
  std::map<int, int> written_by_;                          // buffer -> the step that wrote it last, counted
  std::map<std::pair<const NetStep*, int>, int> read_at_;  // (step, tensor) -> what it saw; -1: it overwrote it
};

/// Nothing is overwritten before it was read for the last time, whatever lands when.
void ExpectSound(const NodeNet& net, bool weights_later) {
  ArenaTrace trace(net);
  const std::vector<PortPlan>& ports = net.plan().ports();
  for (int i = 0; i < static_cast<int>(ports.size()); ++i) {
    if (ports[i].landing) trace.Write(net.port_buffer(i));
  }
  const auto& steps = net.steps();
  for (const NetStep& step : steps) trace.Forward(step);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) trace.Backward(*step);
  for (const NetStep& step : steps) {
    if (weights_later && step.learns && !step.deferred) trace.Params(step);
  }
  for (int i = 0; i < static_cast<int>(ports.size()); ++i) trace.Read(net.port_buffer(i), "a peer");
  for (const NetOutput& output : net.outputs()) trace.ReadValue(output.tensor, "the report");
}

TEST(NodeNetMemory, NothingIsOverwrittenTooEarly) {
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    for (int64_t update_rows : {0, 8}) {
      const PlacedNet alone(SmallNet(), Layout(1, {}, {}), phase);
      ExpectSound(*alone.MakeNet(0, 0, 4, update_rows), false);
      const PlacedNet one(SmallNet(), Layout(2, {1}, {3}), phase), split(SmallNet(), Layout(2, {2, 3}, {3, 5}), phase);
      for (const PlacedNet* net : {&one, &split}) {
        const auto& stages = net->placement->layout().stages;
        ExpectSound(*net->MakeNet(0, 1, 4), false);
        for (int stage = 1; stage < static_cast<int>(stages.size()); ++stage) {
          for (int part = 0; part < stages[stage].parts(); ++part) {
            ExpectSound(*net->MakeNet(stage, part, 4, update_rows), true);
          }
        }
      }
    }
  }
}

/// drop1 and tanh2 are written in place of what others still read: the gradient of sigmoid1, and norm2.
constexpr char kInPlace[] = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 6 kernel_size: 3 } }
layer { name: 'sigmoid1' type: 'Sigmoid' bottom: 'conv1' top: 'conv1' }
layer { name: 'drop1' type: 'Dropout' bottom: 'conv1' top: 'conv1' }
layer { name: 'conv2' type: 'Convolution' bottom: 'conv1' top: 'conv2' convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: 'flat2' type: 'Flatten' bottom: 'conv2' top: 'flat2' }
layer { name: 'tanh2' type: 'TanH' bottom: 'flat2' top: 'flat2' }
layer { name: 'norm2' type: 'LRN' bottom: 'conv2' top: 'norm2' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'flat2' top: 'ip' inner_product_param { num_output: 5 } }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'norm2' top: 'ip2' inner_product_param { num_output: 5 } }
layer { name: 'sum' type: 'Eltwise' bottom: 'ip' bottom: 'ip2' top: 'sum' }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'sum' bottom: 'label' top: 'loss' }
)";

const NetStep& StepOf(const NodeNet& net, const std::string& name) {
  return *std::find_if(net.steps().begin(), net.steps().end(), [&](const NetStep& step) { return step.name == name; });
}

/// Whether the step's output lies in its input's memory.
bool WorksInPlace(const NodeNet& net, const std::string& name) {
  const NetStep& step = StepOf(net, name);
  return net.tensors()[step.in[0]].value == net.tensors()[step.out[0]].value;
}

TEST(NodeNetMemory, OverwritesOnlyWhatNobodyReadsAgain) {
  const PlacedNet train(kInPlace, Layout(1, {}, {}, 12)), test(kInPlace, Layout(1, {}, {}, 12), caffe::TEST);
  const auto net = train.MakeNet(0, 0, 4), in_test = test.MakeNet(0, 0, 4);
  ExpectSound(*net, false);
  ExpectSound(*in_test, false);
  EXPECT_TRUE(WorksInPlace(*net, "sigmoid1")) << "a convolution does not read its output again";
  EXPECT_FALSE(WorksInPlace(*net, "drop1")) << "the gradient of sigmoid1 comes from its output";
  EXPECT_TRUE(WorksInPlace(*in_test, "drop1")) << "a test has no gradients";
  EXPECT_FALSE(WorksInPlace(*net, "tanh2")) << "norm2 reads what flat2 is a view of";
  EXPECT_FALSE(WorksInPlace(*in_test, "tanh2"));
}

/// Gradients of elu and exp come from what they yield, those of swish and clip from what they read, that of linear from
/// neither.
constexpr char kActivations[] = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'a' convolution_param { num_output: 6 kernel_size: 3 } }
layer { name: 'elu' type: 'ELU' bottom: 'a' top: 'a' }
layer { name: 'swish' type: 'Swish' bottom: 'a' top: 'a' }
layer { name: 'linear' type: 'Power' bottom: 'a' top: 'a' power_param { scale: 2 } }
layer { name: 'linear2' type: 'Power' bottom: 'a' top: 'a' power_param { shift: 1 } }
layer { name: 'clip' type: 'Clip' bottom: 'a' top: 'a' clip_param { min: -1 max: 1 } }
layer { name: 'exp' type: 'Exp' bottom: 'a' top: 'a' }
layer { name: 'linear3' type: 'Power' bottom: 'a' top: 'a' power_param { shift: 1 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'a' top: 'ip' inner_product_param { num_output: 5 } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
)";

TEST(NodeNetMemory, ActivationsOverwriteWhatTheirGradientsDoNotNeed) {
  const PlacedNet train(kActivations, Layout(1, {}, {}, 11)), test(kActivations, Layout(1, {}, {}, 11), caffe::TEST);
  const auto net = train.MakeNet(0, 0, 4), in_test = test.MakeNet(0, 0, 4);
  ExpectSound(*net, false);
  ExpectSound(*in_test, false);
  for (const char* layer : {"elu", "linear", "linear2", "exp"}) EXPECT_TRUE(WorksInPlace(*net, layer)) << layer;
  for (const char* layer : {"swish", "clip", "linear3"}) EXPECT_FALSE(WorksInPlace(*net, layer)) << layer;
  for (const char* layer : {"elu", "swish", "linear", "linear2", "clip", "exp", "linear3"}) {
    EXPECT_TRUE(WorksInPlace(*in_test, layer)) << layer;
  }
}

TEST(NodeNetMemory, GradientsShareTheMemoryOfActivations) {
  const PlacedNet net(SmallNet(), Layout(1, {}, {}));
  const auto node = net.MakeNet(0, 0, 64);
  size_t sum = 0;
  std::set<int> seen;
  for (const NetTensor& tensor : node->tensors()) {
    for (int buffer : {tensor.value, tensor.gradient}) {
      if (buffer >= 0 && tensor.name != "data" && seen.insert(buffer).second) sum += tensor.desc.bytes();
    }
  }
  EXPECT_LT(node->arena_bytes(), sum * 8 / 10);
}

/// What peers reach is registered with adapters and opened by other processes: nothing else lies there.
TEST(NodeNetMemory, PortsLieApart) {
  constexpr size_t kPorts = size_t{1} << 39, kMatrices = size_t{1} << 40;
  const PlacedNet net(SmallNet(), Layout(2, {2}, {3}));
  for (const int stage : {0, 1}) {
    const auto node = net.MakeNet(stage, 1, 4);
    const std::vector<std::byte*> matrices(node->update_row_bytes().size(), reinterpret_cast<std::byte*>(kMatrices));
    NetRun run;
    run.ports = reinterpret_cast<std::byte*>(kPorts);
    run.update_matrices = matrices;
    const auto begin_of = [&](int buffer) { return reinterpret_cast<size_t>(node->BufferSpan(buffer, run).data()); };
    std::set<int> ports;
    std::map<size_t, size_t> spans;  // of ports: begin to end, rounded up to 64
    for (int port = 0; port < std::ssize(node->plan().ports()); ++port) {
      const int buffer = node->port_buffer(port);
      ports.insert(buffer);
      if (begin_of(buffer) >= kMatrices) continue;
      spans[begin_of(buffer)] = begin_of(buffer) + (node->BufferSpan(buffer, run).size() + 63) / 64 * 64;
    }
    size_t end = kPorts;
    for (const auto& [first, last] : spans) EXPECT_EQ(first, std::exchange(end, last)) << "one behind the other";
    EXPECT_EQ(end, kPorts + node->port_bytes());
    EXPECT_GT(node->port_bytes(), 0u);
    for (const NetTensor& tensor : node->tensors()) {
      for (const int buffer : {tensor.value, tensor.gradient}) {
        if (buffer < 0 || ports.contains(buffer)) continue;
        EXPECT_TRUE(begin_of(buffer) < kPorts || begin_of(buffer) >= kMatrices) << tensor.name;
      }
    }
  }
  EXPECT_EQ(PlacedNet(SmallNet(), Layout(1, {}, {})).MakeNet(0, 0, 4)->port_bytes(), 0u);
}

}  // namespace
}  // namespace hp::test
