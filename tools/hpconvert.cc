// Writes files of Caffe's in another form.

#include "checkpoint/upgrade_file.h"
#include "tools/tool_main.h"

#include <glog/logging.h>

namespace {

constexpr char kUsage[] =
    R"(Writes a file of an old Caffe in today's form: a net or a solver (prototxt) or weights (.caffemodel), of which it
finds out by itself. hpnode reads the old forms as well; other programs may not. Comments of a prototxt are lost.

  hpconvert upgrade IN OUT

Example:
  hpconvert upgrade lenet_2013.prototxt lenet.prototxt
)";

hp::Status Run(const std::vector<std::string>& arguments) {
  if (arguments[0] != "upgrade") {
    return hp::InvalidArgument("\"%s\" is unknown; expected upgrade (hpconvert --help)", arguments[0].c_str());
  }
  HP_ASSIGN_OR_RETURN(const std::string done, hp::UpgradeFile(arguments[1], arguments[2]));
  LOG(INFO) << done;
  return hp::OkStatus();
}

}  // namespace

int main(int argc, char** argv) { return hp::ToolMain(argc, argv, {"hpconvert", kUsage, 3, 3}, Run); }
