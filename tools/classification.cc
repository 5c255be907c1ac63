// Classifies image files by a trained net.
#include "base/format.h"
#include "base/words.h"
#include "commands/classify.h"
#include "proto/place.h"
#include "proto/text.h"
#include "tools/tool_main.h"

#include "devices/devices.h"
#include <gflags/gflags.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

DEFINE_string(blob, "", "The blob that holds the scores; empty: the one that no layer reads.");
DEFINE_int32(top, 5, "How many classes to print for each image.");
DEFINE_string(mean_value, "", "With none for MEAN: what is subtracted, one value or one for each channel (B,G,R).");
DEFINE_double(scale, 1, "Factor after the mean is subtracted: the scale of the net's transform_param.");
DEFINE_string(device, "cpu", "Device to compute on: cpu, or cuda:N as listed by hpnode --list_devices.");
DEFINE_int32(threads, 0, "Compute threads; 0: as OMP_NUM_THREADS says, else one per core.");

namespace hp {
namespace {

constexpr size_t kMostImages = 1'000'000;

constexpr char kUsage[] =
    R"(Classifies JPEG and PNG files by a trained net, and prints the best classes of each.

  classification [FLAGS] DEPLOY.prototxt NET.caffemodel MEAN.binaryproto LABELS.txt IMAGE...

DEPLOY.prototxt is a deploy net: its Input layer, or input fields, say the size that images are resized to. Of
MEAN.binaryproto the mean of each channel is subtracted; none: --mean_value, or nothing. LABELS.txt has the name of a
class in each line.

Example:
  classification deploy.prototxt net.caffemodel imagenet_mean.binaryproto synset_words.txt cat.jpg
)";

StatusOr<std::vector<float>> MeanValues() {
  std::vector<float> values;
  for (const std::string& item : SplitList(FLAGS_mean_value)) {
    char* end = nullptr;
    values.push_back(std::strtof(item.c_str(), &end));
    if (*end != '\0' || !std::isfinite(values.back())) {
      return InvalidArgument("--mean_value=%s: \"%s\" is not a number", FLAGS_mean_value.c_str(), item.c_str());
    }
  }
  return values;
}

void Print(const std::string& image, const std::vector<float>& scores, const std::vector<std::string>& names) {
  std::cout << "---------- Prediction for " << image << " ----------\n";
  for (size_t index : BestClasses(scores, FLAGS_top)) {
    std::cout << Format("%.4f", scores[index]) << " - \"" << names[index] << "\"\n";
  }
  std::cout << std::flush;
}

Status Run(const std::vector<std::string>& arguments) {
  if (!std::isfinite(FLAGS_scale)) return InvalidArgument("--scale is %g; expected a number", FLAGS_scale);
  if (FLAGS_top < 1) return InvalidArgument("--top is %d; expected at least 1", FLAGS_top);
  HP_RETURN_IF_ERROR(CheckThreads("threads", FLAGS_threads, 0));
  ClassifierOptions options;
  options.mean_file = arguments[2] == "none" ? "" : arguments[2];
  HP_ASSIGN_OR_RETURN(options.mean_value, MeanValues());
  options.scale = static_cast<float>(FLAGS_scale);
  options.blob = FLAGS_blob;
  options.threads = FLAGS_threads;
  HP_ASSIGN_OR_RETURN(const caffe::NetParameter net, ReadNet(arguments[0]));
  HP_ASSIGN_OR_RETURN(const CaffeModel model, ReadCaffeModel(arguments[1]));
  HP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadClassNames(arguments[3]));
  HP_ASSIGN_OR_RETURN(const NodeDevice device, OpenNodeDevice(FLAGS_device, RoutingTableConfig::FP32));
  const StatusOr<std::unique_ptr<Classifier>> classifier =
      Classifier::Create(net, model, device.device.get(), device.backend.get(), options);
  if (!classifier.ok()) return AtLayer(classifier.status(), net, caffe::TEST);
  if (static_cast<int64_t>(names.size()) != (*classifier)->classes()) {
    return InvalidArgument("%s names %zu classes; the net has %lld scores", arguments[3].c_str(), names.size(),
                           static_cast<long long>((*classifier)->classes()));
  }
  for (size_t i = 4; i < arguments.size(); ++i) {
    HP_ASSIGN_OR_RETURN(const std::vector<float> scores, (*classifier)->Scores(arguments[i]));
    Print(arguments[i], scores, names);
  }
  return OkStatus();
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"classification", hp::kUsage, 5, hp::kMostImages};
  return hp::ToolMain(argc, argv, usage, hp::Run);
}
