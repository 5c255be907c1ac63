// One forward pass of a net in its test phase, with weights from a file:
//   forward_net net.prototxt net.caffemodel input.f32 output.f32
// The net begins with an Input layer; input.f32 is what it yields, output.f32 the top of the last layer, both dense
// row-major float32.
#include "checkpoint/weights.h"
#include "net/node_net.h"
#include "proto/text.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <list>
#include <string>
#include <vector>

namespace hp {
namespace {

std::vector<char> ReadAll(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A net's parameters in memory of their own.
struct Params {
  std::list<std::vector<float>> values;
  std::list<PackedParams> packed;
  std::vector<ParamView> views;
};

Status ReadParams(const NodeNet& net, const CaffeModel& model, Params* params) {
  for (const ParamPlan& param : net.plan().params()) {
    std::vector<float>& values = params->values.emplace_back(param.spec.shape.count());
    const Shape& shape = param.spec.shape;
    HP_RETURN_IF_ERROR(model.CopyBlock(param.layer, param.blob, shape, Block::Whole(shape), values));
    params->views.push_back({values.data(), 1, &params->packed.emplace_back()});
  }
  return OkStatus();
}

std::vector<float> Dense(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const int64_t spatial = shape.rank() > 2 ? shape.count(2) : 1;
  std::vector<float> values;
  for (int64_t n = 0; n < shape.dim(0); ++n) {
    for (int64_t c = 0; c < shape.dim(1); ++c) {
      for (int64_t s = 0; s < spatial; ++s) values.push_back(tensor.floats()[ElementOffset(tensor.desc, n, c, s)]);
    }
  }
  return values;
}

Status Main(char** argv) {
  HP_ASSIGN_OR_RETURN(caffe::NetParameter proto, ReadNet(argv[1]));
  const caffe::BlobShape& input = proto.layer(0).input_param().shape(0);
  HP_ASSIGN_OR_RETURN(const CaffeModel model, ReadCaffeModel(argv[2]));
  HP_ASSIGN_OR_RETURN(const auto graph,
                      NetGraph::Create(std::make_shared<const caffe::NetParameter>(proto), caffe::TEST));
  StageLayout layout;
  layout.stages = {{true, {0}}};
  layout.stage_of_layer.assign(proto.layer_size(), 0);
  const Shape sample{input.dim(1), input.dim(2), input.dim(3)};
  HP_ASSIGN_OR_RETURN(const Placement placement, Placement::Create(*graph, sample, layout));
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  HP_ASSIGN_OR_RETURN(const NodePlan plan, NodePlan::Create(*graph, placement, {.sample = sample}));
  HP_ASSIGN_OR_RETURN(const auto net, NodeNet::Create(plan, {.backend = backend.get()}, input.dim(0)));

  Params params;
  HP_RETURN_IF_ERROR(ReadParams(*net, model, &params));
  std::vector<char> images = ReadAll(argv[3]);
  const size_t expected = input.dim(0) * sample.count() * sizeof(float);
  if (images.size() != expected) return InvalidArgument("%s: expected %zu bytes", argv[3], expected);
  HP_ASSIGN_OR_RETURN(const Buffer arena, Buffer::Allocate(net->arena_bytes() + 64));
  HP_ASSIGN_OR_RETURN(const Buffer scratch, Buffer::Allocate(net->scratch_bytes() + 64));
  NetRun run;
  run.arena = arena.data();
  run.scratch = scratch.data();
  run.images = reinterpret_cast<float*>(images.data());
  run.params = params.views;
  run.batch.train = false;
  run.batch.global_rows = input.dim(0);
  for (int segment = 0; segment < net->segments(); ++segment) net->Forward(segment, run);

  const std::string& wanted = proto.layer(proto.layer_size() - 1).top(0);
  std::vector<float> values;
  for (int t = 0; t < static_cast<int>(net->tensors().size()); ++t) {  // the last of the name: in-place layers
    if (net->tensors()[t].name == wanted) values = Dense(net->ValueOf(t, run));
  }
  std::ofstream(argv[4], std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  return OkStatus();
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const hp::Status status = hp::Main(argv);
  if (!status.ok()) std::cerr << status << "\n";
  return hp::ExitStatus(status);
}
