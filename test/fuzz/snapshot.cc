// A .solverstate and the manifest beside it, over a model that is sound. The first byte says whether sizes and
// checksums of the manifest are put right, so that what follows them is reached.
#include "checkpoint/snapshot.h"

#include "checkpoint/summed_file.h"
#include "checkpoint/weights.h"
#include "test/fuzz/fuzz.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <filesystem>
#include <fstream>

using namespace hp;

namespace {

// In memory; removed at the end of the process.
class Folder {
 public:
  Folder() : path_("/dev/shm/hp_fuzz_XXXXXX") {
    fuzz::Expect(mkdtemp(path_.data()) != nullptr);
    caffe::NetParameter net;
    net.add_layer()->set_name("ip");
    const float values[] = {1, 2};
    fuzz::Expect(WriteCaffeModel(path_ + "/a.caffemodel", net, {{{"ip", 0}, {Shape{1, 2}, values}}}).ok());
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

// `text` with the sums of the two files, if it is a manifest.
std::string PutRight(const Folder& folder, const std::string& text) {
  const google::protobuf::LogSilencer quiet;
  SnapshotManifest manifest;
  if (!google::protobuf::TextFormat::ParseFromString(text, &manifest)) return text;
  const auto set = [&folder](const char* name, SnapshotFile* file) {
    const auto sum = SumFile(folder / name);
    if (!sum.ok()) return;
    file->set_name(name);
    file->set_bytes(sum->bytes);
    file->set_xxh64(sum->xxh64);
  };
  set("a.caffemodel", manifest.mutable_model());
  set("a.solverstate", manifest.mutable_state());
  return manifest.DebugString();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  FuzzedDataProvider in(data, size);
  const bool right = in.ConsumeBool();
  const int histories = in.ConsumeIntegralInRange<int>(1, kMaxHistories);
  folder.Write("a.solverstate", in.ConsumeRandomLengthString());
  const std::string manifest = in.ConsumeRemainingBytesAsString();
  folder.Write("a.hpnode", right ? PutRight(folder, manifest) : manifest);
  auto snapshot = ReadSnapshot(folder / "a.solverstate");
  if (!snapshot.ok()) return 0;
  fuzz::Expect(snapshot->iteration >= 0);
  SnapshotParam param{.layer = "ip", .shape = Shape{1, 2}};
  if (!FitSnapshot(folder / "a.solverstate", {param}, histories, &*snapshot).ok()) return 0;
  float history[2];
  if (snapshot->parts) {
    (void)snapshot->CopyArray("ip", 0, histories, param.shape, Block::Whole(param.shape), history);
  } else {
    fuzz::Expect(snapshot->histories.at({"ip", 0}).at(histories - 1).data.size() == 2);
  }
  return 0;
}
