#include "checkpoint/snapshot_names.h"

#include "base/format.h"
#include "checkpoint/hdf5_file.h"
#include "checkpoint/snapshot.h"
#include "proto/layer_names.h"

#include <algorithm>
#include <vector>

namespace hp {
namespace {

// Not with what the library would leave out of a path, or take for its root.
bool IsPath(const std::string& name) {
  if (std::count(name.begin(), name.end(), '/') >= kMostHdf5NameParts) return false;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = name.find('/', begin);
    const std::string part = name.substr(begin, end == std::string::npos ? end : end - begin);
    if (part.empty() || part == "." || part.find('\0') != std::string::npos) return false;
  }
  return true;
}

// The layer among whose blobs `name` lies, as "ip/0" does; empty: there is none.
std::string LayerAround(const std::string& name, const std::set<std::string>& layers) {
  for (size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1)) {
    const std::string next = name.substr(end + 1, name.find('/', end + 1) - end - 1);
    const bool is_number = next.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && layers.contains(name.substr(0, end))) return name.substr(0, end);
  }
  return "";
}

}  // namespace

Status CheckHdf5Names(const caffe::NetParameter& net, const std::set<std::string>& layers,
                      const std::string& expected) {
  const std::vector<std::string> given = GivenNames(net);
  for (int i = 0; i < net.layer_size(); ++i) {
    const std::string& name = net.layer(i).name();
    if (!layers.contains(name)) continue;
    std::string fault;
    if (given[i] != name) {
      fault = Format("it is named \"%s\", and so is a layer before it; an HDF5 file holds one layer of a name",
                     given[i].c_str());
    } else if (!IsPath(name)) {
      fault = Format("in an HDF5 file a name is a path of up to %d parts, and this is none", kMostHdf5NameParts);
    } else if (const std::string other = LayerAround(name, layers); !other.empty()) {
      fault = Format("in an HDF5 file that is where the blobs of layer \"%s\" are", other.c_str());
    }
    if (fault.empty()) continue;
    return InvalidArgument("layer \"%s\": %s; expected %s", name.c_str(), fault.c_str(), expected.c_str());
  }
  return OkStatus();
}

Status CheckSnapshotNames(const caffe::SolverParameter& solver, int64_t bytes, const caffe::NetParameter& net,
                          const std::set<std::string>& layers) {
  if (solver.snapshot() == 0 && !solver.snapshot_after_train()) return OkStatus();
  if (bytes <= MostMessageBytes(solver)) return OkStatus();
  return CheckHdf5Names(
      net, layers, MostMessageBytes(solver) < 0 ? "another name, or snapshot_format: BINARYPROTO" : "another name");
}

}  // namespace hp
