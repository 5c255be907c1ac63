#include "commands/sample_shape.h"

#include "input/inputs.h"
#include "layers/traits/source_tops.h"
#include "net/plan/graph.h"
#include "proto/place.h"

#include <charconv>
#include <memory>
#include <sstream>
#include <vector>

namespace hp {
namespace {

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

/// A row of a top; an empty text is one number.
std::optional<Shape> ParseRow(const std::string& text) {
  const std::optional<Shape> row = text.empty() ? Shape() : ParseDims(text);
  return row && row->rank() <= 3 ? row : std::nullopt;
}

/// What "3,227,227" means, with labels "3,227,227/227,227", with others "3,227,227+10" or "3,227,227/227,227+10+1".
StatusOr<SampleShape> ParseSampleShape(const std::string& text) {
  std::istringstream parts(text);
  std::string first;
  std::getline(parts, first, '+');
  const size_t slash = first.find('/');
  const std::optional<Shape> data = ParseDims(first.substr(0, slash));
  const std::optional<Shape> label = slash == std::string::npos ? Shape() : ParseRow(first.substr(slash + 1));
  std::vector<Shape> others;
  bool valid = data && data->rank() <= 3 && label && !text.ends_with('/');
  for (std::string other; std::getline(parts, other, '+');) {
    const std::optional<Shape> row = ParseRow(other);
    valid &= row.has_value();
    others.push_back(row.value_or(Shape()));
  }
  if (text.ends_with('+')) others.emplace_back();
  if (valid) return SampleShape(*data, *label, std::move(others));
  return InvalidArgument(
      "--sample is \"%s\"; expected CHANNELS,HEIGHT,WIDTH, such as 3,227,227, behind a slash the shape of its labels, "
      "if they are several, such as 3,227,227/227,227, and behind a plus each further top of a row, such as "
      "3,227,227+10+1 (nothing behind a plus: a number that has no dims)",
      text.c_str());
}

/// What Input layers state.
StatusOr<SampleShape> SampleOfInputs(const caffe::NetParameter& net, const std::vector<SourceTop>& tops) {
  SampleShape sample;
  for (const SourceTop& top : tops) {
    HP_ASSIGN_OR_RETURN(const LayerTraits traits, LayerTraits::Create(net.layer(top.layer), LayerTypes::BuiltIn()));
    HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, traits.OutputShapes({}));
    const std::vector<int64_t>& dims = shapes[top.top].dims();
    if (dims[0] != traits.batch_size()) {
      return InvalidArgument("layer \"%s\": input \"%s\" of shape [%s] has another number of rows than the first, %lld",
                             traits.name().c_str(), net.layer(top.layer).top(top.top).c_str(),
                             shapes[top.top].ToString().c_str(), static_cast<long long>(traits.batch_size()));
    }
    const Shape row(std::vector<int64_t>(dims.begin() + 1, dims.end()));
    if (top.role == SourceTop::kData) sample.data = row;
    if (top.role == SourceTop::kLabels) sample.label = row;
    if (top.role == SourceTop::kOther) sample.others.push_back(row);
  }
  return sample;
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
    for (const Phase phase : PhasesWith(solver.test_iter_size())) {
      HP_RETURN_IF_ERROR(Input::CheckReads(net, phase, LayerTypes::BuiltIn()));
    }
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
  const LayerTypes& types = LayerTypes::BuiltIn();
  const std::vector<SourceTop> tops = SourceTopsOf(net, phase, types);
  if (tops.empty()) {
    // A source of another type is what is wrong with the net.
    HP_RETURN_IF_ERROR(NetGraph::Create(std::make_shared<const caffe::NetParameter>(net), phase).status());
    return InvalidArgument("net \"%s\" has no Data or Input layer in phase %s", net.name().c_str(),
                           phase.name().c_str());
  }
  HP_RETURN_IF_ERROR(AtLayer(CheckSources(net, phase, types), net, phase));
  const caffe::LayerParameter& first = net.layer(tops[0].layer);
  if (!types.IsDataset(first)) {
    if (said.empty()) {
      const StatusOr<SampleShape> sample = SampleOfInputs(net, tops);
      return sample.ok() ? sample : AtLayer(sample.status(), net, phase);
    }
    return InvalidArgument("--sample=%s: layer \"%s\" of type Input says the shape of a sample", said.c_str(),
                           first.name().c_str());
  }
  if (!said.empty()) return ParseSampleShape(said);
  const StatusOr<std::unique_ptr<Input>> input = Input::Open(net, phase, types, {cache_dir});
  return input.ok() ? StatusOr<SampleShape>((*input)->sample_shape()) : WithWayOut(input.status());
}

}  // namespace hp
