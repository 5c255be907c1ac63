// Writes files of Caffe's in another form.

#include "checkpoint/upgrade_file.h"
#include "commands/convert_weights.h"
#include "tools/tool_main.h"

#include <gflags/gflags.h>
#include <glog/logging.h>

DEFINE_string(net, "", "With weights: the net (prototxt) whose weights these are.");
DEFINE_string(
    names, "",
    "With weights: a file of names, such as examples/torchvision/resnet50_names.txt; empty: tensors are named "
    "by layer, as conv1.weight.");
DEFINE_string(
    sample, "",
    "With weights: shape of a sample, CHANNELS,HEIGHT,WIDTH, such as 3,224,224; empty: read from the net's data.");
DEFINE_string(
    cache_dir, "",
    "With weights: folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache.");

namespace {

constexpr char kUsage[] =
    R"(Writes files of an older Caffe in today's form, and weights of PyTorch as Caffe's and back.

  hpconvert upgrade IN OUT
  hpconvert weights IN OUT --net=NET.prototxt [--names=NAMES.txt] [--sample=C,H,W]

upgrade: IN is a net or a solver (prototxt) or weights (.caffemodel), of which it finds out by itself. hpnode reads the
old forms as well; other programs may not. Comments of a prototxt are lost.

weights: one of IN and OUT is a .safetensors, the other a .caffemodel of the net, or a .caffemodel.h5, which is HDF5 and
may be larger than 2 GiB; shapes are checked. A file of names says which layer has the parameters of which module, a
line each: "MODULE LAYER", for a BatchNorm "MODULE BATCHNORM_LAYER SCALE_LAYER", and "TENSOR = LAYER BLOB" for a single
tensor. Those of torchvision's nets are in examples/torchvision.

Example:
  hpconvert upgrade lenet_2013.prototxt lenet.prototxt
  hpconvert weights resnet50.safetensors resnet50.caffemodel --net=examples/torchvision/resnet50_train_val.prototxt \
    --names=examples/torchvision/resnet50_names.txt --sample=3,224,224
)";

hp::Status Run(const std::vector<std::string>& arguments) {
  hp::ConvertWeightsOptions options{FLAGS_net, FLAGS_names, FLAGS_sample, FLAGS_cache_dir};
  if (arguments[0] == "weights") {
    HP_ASSIGN_OR_RETURN(const std::string done, hp::ConvertWeights(arguments[1], arguments[2], options));
    LOG(INFO) << done;
    return hp::OkStatus();
  }
  if (arguments[0] != "upgrade") {
    return hp::InvalidArgument("\"%s\" is unknown; expected upgrade or weights (hpconvert --help)",
                               arguments[0].c_str());
  }
  if (!(options.net + options.names + options.sample + options.cache_dir).empty()) {
    return hp::InvalidArgument("upgrade takes no flags; --net, --names, --sample and --cache_dir go with weights");
  }
  HP_ASSIGN_OR_RETURN(const std::string done, hp::UpgradeFile(arguments[1], arguments[2]));
  LOG(INFO) << done;
  return hp::OkStatus();
}

}  // namespace

int main(int argc, char** argv) { return hp::ToolMain(argc, argv, {"hpconvert", kUsage, 3, 3}, Run); }
