#include "checkpoint/snapshot_lines.h"

#include "checkpoint/hdf5_file.h"

#include <filesystem>
#include <string_view>

namespace hp {
namespace {

// Source: Caffe, src/caffe/solver.cpp (SnapshotToBinaryProto, SnapshotToHDF5) and src/caffe/solvers/sgd_solver.cpp.
constexpr std::string_view kModelBegin = "Snapshotting to ", kStateBegin = "Snapshotting solver state to ";
constexpr std::string_view kBinaryForm = "binary proto file ", kHdf5Form = "HDF5 file ";

std::string LineOf(std::string_view begin, const std::string& path) {
  return std::string(begin).append(IsHdf5Path(path) ? kHdf5Form : kBinaryForm).append(path);
}

}  // namespace

std::string ModelLine(const std::string& path) { return LineOf(kModelBegin, path); }
std::string StateLine(const std::string& path) { return LineOf(kStateBegin, path); }

std::optional<std::string> ManifestOfLine(const std::string& line) {
  for (const std::string_view form : {kBinaryForm, kHdf5Form}) {
    const std::string words = std::string("] ").append(kModelBegin).append(form);  // behind glog's prefix
    const size_t at = line.find(words);
    if (at == std::string::npos) continue;
    std::filesystem::path path = line.substr(at + words.size());
    if (IsHdf5Path(path.string())) path.replace_extension();
    return path.replace_extension(".hpnode").string();
  }
  return std::nullopt;
}

}  // namespace hp
