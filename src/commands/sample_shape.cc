#include "commands/sample_shape.h"

#include "input/inputs.h"
#include "net/plan/graph.h"
#include "proto/net_filter.h"

#include <charconv>
#include <memory>
#include <sstream>
#include <vector>

namespace hp {
namespace {

/// Nothing: the phase has no Data layer.
StatusOr<std::optional<SampleShape>> SampleOfData(const caffe::NetParameter& net, Phase phase,
                                                  const std::string& cache_dir) {
  for (int i : LayersOf(net, phase)) {
    if (!LayerTypes::BuiltIn().IsDataset(net.layer(i))) continue;
    HP_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, Input::Open(net.layer(i), phase.train(), {cache_dir}));
    return std::optional<SampleShape>(input->sample_shape());
  }
  return std::optional<SampleShape>();
}

/// The shape that "3,227,227" means; nothing: the text means none.
std::optional<Shape> ParseDims(const std::string& text) {
  std::vector<int64_t> dims;
  bool valid = !text.empty() && text.back() != ',';
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), dim);
    valid = valid && error == std::errc() && end == item.data() + item.size() && dim >= 1;
    dims.push_back(dim);
  }
  const Shape shape(std::move(dims));
  return valid && shape.InBounds() ? std::optional(shape) : std::nullopt;
}

/// What "3,227,227" means, or with labels "3,227,227/227,227".
StatusOr<SampleShape> ParseSampleShape(const std::string& text) {
  const size_t slash = text.find('/');
  const std::optional<Shape> data = ParseDims(text.substr(0, slash));
  const std::optional<Shape> label = slash == std::string::npos ? Shape() : ParseDims(text.substr(slash + 1));
  if (data && data->rank() == 3 && label && label->rank() <= 3)
    return SampleShape(*data, label->count() > 1 ? *label : Shape());
  return InvalidArgument(
      "--sample is \"%s\"; expected CHANNELS,HEIGHT,WIDTH, such as 3,227,227, and behind a slash the shape of its "
      "labels, if they are several, such as 3,227,227/227,227",
      text.c_str());
}

/// What an Input layer states: data, and perhaps one label for each row behind it.
StatusOr<Shape> SampleOfInput(const caffe::LayerParameter& layer) {
  HP_ASSIGN_OR_RETURN(const LayerTraits traits, LayerTraits::Create(layer, LayerTypes::BuiltIn()));
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, traits.OutputShapes({}));
  if (shapes.size() > 2 || (shapes.size() == 2 && shapes[1].rank() != 1)) {
    return InvalidArgument("layer \"%s\" has %zu inputs; expected one of data, and at most a label for each row",
                           layer.name().c_str(), shapes.size());
  }
  const std::vector<int64_t>& dims = shapes[0].dims();
  return Shape(std::vector<int64_t>(dims.begin() + 1, dims.end()));
}

Status WithWayOut(const Status& status) {
  if (status.code() != StatusCode::kNotFound) return status;
  return NotFound("%s; without its data, say the shape of a sample: --sample=CHANNELS,HEIGHT,WIDTH",
                  status.message().c_str());
}

}  // namespace

StatusOr<SampleShapes> ReadSampleShapes(const caffe::SolverParameter& solver, const caffe::NetParameter& net,
                                        const InputOptions& inputs) {
  SampleShapes shapes;
  const LayerTypes& types = LayerTypes::BuiltIn();
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<Input> train, OpenTraining(net, types, inputs));
  shapes.push_back(train->sample_shape());
  HP_ASSIGN_OR_RETURN(const auto tests, OpenTests(net, solver.test_iter_size(), types, inputs));
  for (const auto& test : tests) shapes.push_back(test->sample_shape());
  return shapes;
}

StatusOr<SampleShapes> SampleShapesOf(const std::string& said, const caffe::SolverParameter& solver,
                                      const caffe::NetParameter& net, const InputOptions& inputs) {
  if (!said.empty()) {
    SampleShapes given;
    std::istringstream texts(said);
    for (std::string text; std::getline(texts, text, ':');) {
      HP_ASSIGN_OR_RETURN(SampleShape shape, ParseSampleShape(text));
      given.push_back(std::move(shape));
    }
    const size_t phases = 1 + solver.test_iter_size();
    if (given.size() == 1) given.resize(phases, SampleShape(given[0]));
    if (given.size() == phases) return given;
    return InvalidArgument(
        "--sample=%s says %zu shapes; expected one, or %zu, separated by colons: of training and of each test",
        said.c_str(), given.size(), phases);
  }
  StatusOr<SampleShapes> shapes = ReadSampleShapes(solver, net, inputs);
  return shapes.ok() ? shapes : WithWayOut(shapes.status());
}

StatusOr<SampleShape> SampleShapeOfNet(const std::string& said, const caffe::NetParameter& net, Phase phase,
                                       const std::string& cache_dir) {
  for (int i : LayersOf(net, phase)) {
    if (net.layer(i).type() != "Input") continue;
    if (!said.empty()) {
      return InvalidArgument("--sample=%s: layer \"%s\" of type Input says the shape of a sample", said.c_str(),
                             net.layer(i).name().c_str());
    }
    HP_ASSIGN_OR_RETURN(Shape shape, SampleOfInput(net.layer(i)));
    return SampleShape(std::move(shape));
  }
  if (!said.empty()) return ParseSampleShape(said);
  const StatusOr<std::optional<SampleShape>> sample = SampleOfData(net, phase, cache_dir);
  if (!sample.ok()) return WithWayOut(sample.status());
  if (*sample) return **sample;
  // A source of another type is what is wrong with the net.
  HP_RETURN_IF_ERROR(NetGraph::Create(std::make_shared<const caffe::NetParameter>(net), phase).status());
  return InvalidArgument("net \"%s\" has no Data or Input layer in phase %s", net.name().c_str(), phase.name().c_str());
}

}  // namespace hp
