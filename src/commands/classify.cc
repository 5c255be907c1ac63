#include "commands/classify.h"

#include "base/cores.h"
#include "base/format.h"
#include "base/input_file.h"
#include "base/words.h"
#include "data/image.h"
#include "engine/compute_threads.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace hp {
namespace {

/// [C, H, W] of the images that a deploy net takes.
StatusOr<Shape> ImageShape(const NetGraph& graph) {
  const std::string& name = graph.net().name();
  const GraphLayer* input = nullptr;
  size_t inputs = 0;
  for (const GraphLayer& layer : graph.layers()) {
    if (layer.traits.source() != SourceKind::kInput) continue;
    inputs += layer.tops.size();
    input = &layer;
  }
  if (input == nullptr) {
    return InvalidArgument(
        "net \"%s\" has no Input layer; expected a deploy net, whose Input layer, or `input` fields, state the size of "
        "its images",
        name.c_str());
  }
  if (inputs > 1) return InvalidArgument("net \"%s\" has %zu inputs; expected one, of images", name.c_str(), inputs);
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, input->traits.OutputShapes({}));
  const Shape& shape = shapes[0];
  if (shape.rank() == 4 && (shape.dim(1) == 1 || shape.dim(1) == 3))
    return Shape{shape.dim(1), shape.dim(2), shape.dim(3)};
  return InvalidArgument("layer \"%s\": input [%s]; expected images, [N, 3, H, W] or [N, 1, H, W]",
                         input->traits.name().c_str(), shape.ToString().c_str());
}

StatusOr<std::string> ScoresBlob(const NetGraph& graph, const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  const std::vector<std::string> unread = UnreadBlobs(graph);
  if (unread.size() == 1) return unread[0];
  return InvalidArgument("net \"%s\" has %zu outputs (%s); say which holds the scores (--blob=NAME)",
                         graph.net().name().c_str(), unread.size(), Join(unread).c_str());
}

/// The mean of each channel of a mean image, as Caffe's example subtracts it.
StatusOr<std::vector<float>> ChannelMeans(const std::string& path, int64_t channels) {
  HP_ASSIGN_OR_RETURN(const MeanImage mean, ReadMeanFile(path));
  if (mean.shape.dim(0) != channels) {
    return InvalidArgument("mean file \"%s\" has %lld channels; the net's input has %lld", path.c_str(),
                           static_cast<long long>(mean.shape.dim(0)), static_cast<long long>(channels));
  }
  std::vector<float> means;
  const int64_t plane = mean.shape.count() / channels;
  for (int64_t c = 0; c < channels; ++c) {
    const auto begin = mean.data.begin() + c * plane;
    means.push_back(static_cast<float>(std::accumulate(begin, begin + plane, 0.0) / static_cast<double>(plane)));
  }
  return means;
}

}  // namespace

StatusOr<std::unique_ptr<Classifier>> Classifier::Create(const caffe::NetParameter& net, const CaffeModel& model,
                                                         Device* device, Backend* backend,
                                                         const ClassifierOptions& options) {
  if (!options.mean_file.empty() && !options.mean_value.empty()) {
    return InvalidArgument("a mean file and mean values; expected one of them");
  }
  const int threads = options.threads > 0 ? options.threads : DefaultThreads();
  HP_RETURN_IF_ERROR(TakeComputeThreads(threads, Format("the net needs %d threads", threads)));
  std::unique_ptr<Classifier> classifier(new Classifier());
  HP_ASSIGN_OR_RETURN(classifier->graph_,
                      NetGraph::Create(std::make_shared<const caffe::NetParameter>(net), caffe::TEST));
  const NetGraph& graph = *classifier->graph_;
  HP_ASSIGN_OR_RETURN(classifier->sample_, ImageShape(graph));
  const int64_t channels = classifier->sample_.dim(0);
  TransformOptions& transform = classifier->transform_;
  transform.scale = options.scale;
  transform.mean_value = options.mean_value;
  if (!options.mean_file.empty()) {
    HP_ASSIGN_OR_RETURN(transform.mean_value, ChannelMeans(options.mean_file, channels));
  } else if (transform.mean_value.size() > 1 && static_cast<int64_t>(transform.mean_value.size()) != channels) {
    return InvalidArgument("%zu mean values; expected one, or one for each of %lld channels",
                           transform.mean_value.size(), static_cast<long long>(channels));
  }
  HP_ASSIGN_OR_RETURN(const std::string blob, ScoresBlob(graph, options.blob));
  HP_ASSIGN_OR_RETURN(classifier->net_,
                      ForwardNet::Create(graph, {classifier->sample_, 1, {blob}, 0}, device, backend, model));
  return classifier;
}

StatusOr<std::vector<float>> Classifier::Scores(const std::string& path) {
  const ImageColor color = sample_.dim(0) == 3 ? ImageColor::kColor : ImageColor::kGray;
  HP_ASSIGN_OR_RETURN(const Image image,
                      ReadImageFile(path, color, static_cast<int>(sample_.dim(1)), static_cast<int>(sample_.dim(2))));
  caffe::Datum datum;
  ImageToDatum(image, &datum);
  HP_ASSIGN_OR_RETURN(const auto transformer, Transformer::Create(transform_, false, 0, "image", datum, path));
  std::vector<float> pixels(sample_.count());
  HP_RETURN_IF_ERROR(transformer->Transform(datum, 0, pixels.data()).Prepend(path));
  HP_RETURN_IF_ERROR(net_->Run(0, pixels.data(), {}).status());
  return net_->ReadBlob(0);
}

StatusOr<std::vector<std::string>> ReadClassNames(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  std::istringstream lines(text);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    names.push_back(std::move(line));
  }
  return names;
}

std::vector<size_t> BestClasses(const std::vector<float>& scores, size_t count) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(count, order.size()));
  return order;
}

}  // namespace hp
