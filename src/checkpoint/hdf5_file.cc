// The library's calls are checked one by one. An Hdf5Lock is held around each file's reading or writing, but for when a
// blob's source is asked, which may read a file or wait for a device; other files may be read and written meanwhile.
#include "checkpoint/hdf5_file.h"

#include "base/format.h"
#include "base/input_file.h"
#include "base/out_of_memory.h"

#include "hdf5/hdf5_handle.h"
#include "hdf5/hdf5_rows.h"
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace hp {

bool IsHdf5Path(const std::string& path) { return path.ends_with(".h5"); }

// The signature stands at the file's begin, or behind a user's block of 512, 1024, 2048, ... bytes. Source: HDF5 File
// Format Specification, version 3.0, section II.A.
bool IsHdf5File(const std::string& path) {
  if (IsHdf5Path(path)) return true;
  constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
  const StatusOr<int> fd = OpenInputFile(path);
  if (!fd.ok()) return false;
  bool found = false;
  char bytes[kSignature.size()];
  for (off_t at = 0; !found; at = at == 0 ? 512 : 2 * at) {
    if (pread(*fd, bytes, sizeof(bytes), at) != static_cast<ssize_t>(sizeof(bytes))) break;
    found = std::string_view(bytes, sizeof(bytes)) == kSignature;
  }
  close(*fd);
  return found;
}

#ifdef HP_WITH_HDF5

namespace {

constexpr int64_t kHdf5ChunkBytes = 4 << 20;
constexpr int64_t kMostRank = 32;  // of the library
constexpr int kMostGroups = 1 << 17;
constexpr int64_t kMostHdf5Elements = int64_t{1} << 40;

// --- Writing

class Writer {
 public:
  Writer(const Hdf5Api& api, const std::string& path)
      : api_(api), path_(path), file_(api.create_file(path.c_str(), 0x0002u, 0, 0), api.close_file) {}  // H5F_ACC_TRUNC

  bool ok() const { return file_.ok(); }
  Status Error() const { return Hdf5WriteError(path_); }
  hid_t file() const { return file_.id(); }
  Status Close() { return file_.Close() ? OkStatus() : Error(); }

  Status Dataset(hid_t group, const std::string& name, const BlobRef& blob) {
    std::vector<hsize_t> dims(blob.shape.dims().begin(), blob.shape.dims().end());
    const int rank = static_cast<int>(dims.size());
    const Hdf5Handle space(api_.create_space(rank, dims.data(), nullptr), api_.close_space);
    if (!space.ok()) return Error();
    Hdf5Handle set(api_.create_dataset(group, name.c_str(), api_.native_float, space.id(), 0, api_.untimed, 0),
                   api_.close_dataset);
    if (!set.ok()) return Error();
    HP_RETURN_IF_ERROR(blob.data != nullptr ? WriteAll(set.id(), blob.data) : WriteRows(set.id(), dims, blob));
    return set.Close() ? OkStatus() : Error();
  }
  /// The groups around the one of a layer with '/' in its name.
  Status GroupsAround(hid_t data, const std::string& layer) {
    for (size_t end = layer.find('/'); end != std::string::npos; end = layer.find('/', end + 1)) {
      const std::string outer = layer.substr(0, end);
      if (Hdf5Handle(api_.open_group(data, outer.c_str(), 0), api_.close_group).ok()) continue;
      if (!Hdf5Handle(api_.create_group(data, outer.c_str(), 0, 0, 0), api_.close_group).ok()) return Error();
    }
    return OkStatus();
  }
  Status Value(const char* name, hid_t type, const void* value, bool scalar) {
    const hsize_t one = 1;
    const Hdf5Handle space(api_.create_space(scalar ? 0 : 1, &one, nullptr), api_.close_space);
    if (!space.ok()) return Error();
    Hdf5Handle set(api_.create_dataset(file(), name, type, space.id(), 0, api_.untimed, 0), api_.close_dataset);
    if (!set.ok() || api_.write(set.id(), type, 0, 0, 0, value) < 0 || !set.Close()) return Error();
    return OkStatus();
  }
  Status Int(const char* name, int value) { return Value(name, api_.native_int, &value, false); }
  Status String(const char* name, const std::string& value) {
    const Hdf5Handle type(api_.copy_type(api_.c_string), api_.close_type);
    if (!type.ok() || api_.set_size(type.id(), value.size() + 1) < 0) return Error();
    return Value(name, type.id(), value.c_str(), true);
  }

 private:
  Status WriteAll(hid_t set, const float* data) {
    return api_.write(set, api_.native_float, 0, 0, 0, data) < 0 ? Error() : OkStatus();
  }
  // Some rows of the first axis at a time.
  Status WriteRows(hid_t set, const std::vector<hsize_t>& dims, const BlobRef& blob) {
    const int64_t count = blob.shape.count();
    if (count == 0) return OkStatus();
    const auto rows = dims.empty() ? 1 : static_cast<int64_t>(dims[0]);
    const int64_t row_bytes = count / rows * static_cast<int64_t>(sizeof(float));
    const int64_t most = std::max<int64_t>(1, kHdf5ChunkBytes / row_bytes);
    std::vector<char> room(static_cast<size_t>(std::min(rows, most) * row_bytes));
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t some = std::min(most, rows - row);
      const std::span<char> piece{room.data(), static_cast<size_t>(some * row_bytes)};
      if (blob.source) {
        const WithoutHdf5 others;
        HP_RETURN_IF_ERROR(blob.source(row * row_bytes, piece));
      }
      if (dims.empty()) return WriteAll(set, reinterpret_cast<const float*>(room.data()));
      if (!WriteHdf5Rows(api_, set, dims, row, some, reinterpret_cast<const float*>(room.data()))) return Error();
    }
    return OkStatus();
  }

  const Hdf5Api& api_;
  const std::string path_;
  Hdf5Handle file_;
};

// --- Reading

class Reader {
 public:
  Reader(const Hdf5Api& api, const std::string& path)
      : api_(api), path_(path), file_(api.open_file(path.c_str(), 0x0000u, 0), api.close_file) {}  // H5F_ACC_RDONLY

  bool ok() const { return file_.ok(); }
  hid_t file() const { return file_.id(); }
  Status Error(const std::string& what) const {
    return DataLoss("%s: truncated, or not a Caffe file: %s", path_.c_str(), what.c_str());
  }

  StatusOr<std::vector<std::string>> Names(hid_t group) const {
    H5G_info_t info;
    if (api_.group_info(group, &info) < 0) return Error("a group cannot be read");
    std::vector<std::string> names;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      const ssize_t size = api_.link_name(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, nullptr, 0, 0);
      if (size <= 0) return Error("a name cannot be read");
      std::string name(static_cast<size_t>(size) + 1, '\0');
      api_.link_name(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(), 0);
      name.resize(static_cast<size_t>(size));
      names.push_back(std::move(name));
    }
    return names;
  }
  /// @param within the group's name, for messages.
  StatusOr<Blob> ReadDataset(hid_t group, const std::string& within, const std::string& name) const {
    const std::string label = Printable(within) + "/" + name;
    const Hdf5Handle set(api_.open_dataset(group, name.c_str(), 0), api_.close_dataset);
    if (!set.ok()) return Error("no dataset " + label);
    const Hdf5Handle space(api_.space_of(set.id()), api_.close_space);
    const int rank = space.ok() ? api_.rank(space.id()) : -1;
    if (rank < 0 || rank > kMostRank) return Error("dataset " + label + " has no shape");
    std::vector<hsize_t> dims(rank);
    api_.dims(space.id(), dims.data(), nullptr);
    int64_t left = kMostHdf5Elements;  // of a product that could overflow
    for (const hsize_t dim : dims)
      left = dim == 0 ? left : left / static_cast<int64_t>(std::min<hsize_t>(dim, INT64_MAX));
    if (left == 0) return Error("dataset " + label + " is too large");
    Blob blob;
    blob.shape = dims.empty() ? Shape{1} : Shape(std::vector<int64_t>(dims.begin(), dims.end()));
    const std::string what = path_ + ": dataset " + label + " of shape \"" + blob.shape.ToString() + "\"";
    HP_RETURN_IF_ERROR(OrOutOfMemory(what.c_str(), [&blob] {
      blob.data.resize(blob.shape.count());
      return OkStatus();
    }));
    if (api_.read(set.id(), api_.native_float, 0, 0, 0, blob.data.data()) < 0)
      return Error("dataset " + label + " cannot be read as numbers");
    return blob;
  }
  /// The histories: those of the group that are named 0, 1, ...
  StatusOr<std::vector<Blob>> Histories(hid_t group) const {
    HP_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(group));
    std::vector<Blob> blobs;
    for (size_t i = 0; i < names.size(); ++i) {
      HP_ASSIGN_OR_RETURN(Blob blob, ReadDataset(group, "history", std::to_string(i)));
      blobs.push_back(std::move(blob));
    }
    return blobs;
  }
  bool HasDataset(hid_t group, const std::string& name) const {
    return Hdf5Handle(api_.open_dataset(group, name.c_str(), 0), api_.close_dataset).ok();
  }
  /// The blobs of all layers below the group `data`.
  Status TakeLayers(hid_t data, CaffeModel* model) const {
    HP_ASSIGN_OR_RETURN(const std::vector<std::string> layers, Names(data));
    int groups = 0;
    for (const std::string& layer : layers) HP_RETURN_IF_ERROR(TakeLayer(data, layer, 1, &groups, model));
    return OkStatus();
  }
  /// The blobs of a layer by number: the ones that it does not own are not there. A group in its group is another
  /// layer, whose name has a '/': links can make a circle of such groups.
  Status TakeLayer(hid_t data, const std::string& layer, int depth, int* groups, CaffeModel* model) const {
    const Hdf5Handle group(api_.open_group(data, layer.c_str(), 0), api_.close_group);
    if (!group.ok()) return Error("data/" + Printable(layer) + " is neither a blob, named by its number, nor a layer");
    if (depth > kMostHdf5NameParts || ++*groups > kMostGroups) return Error("too many groups, or a circle of them");
    HP_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(group.id()));
    if (names.empty()) model->bare.insert(layer);
    for (const std::string& name : names) {
      const bool digits = !name.empty() && name.size() < 4 && name.find_first_not_of("0123456789") == std::string::npos;
      if (!digits || !HasDataset(group.id(), name)) {
        HP_RETURN_IF_ERROR(TakeLayer(data, layer + "/" + name, depth + 1, groups, model));
        continue;
      }
      HP_ASSIGN_OR_RETURN(Blob blob, ReadDataset(group.id(), "data/" + layer, name));
      model->blobs[{layer, std::stoi(name)}] = std::move(blob);
    }
    return OkStatus();
  }
  StatusOr<int> Int(const char* name) const {
    const Hdf5Handle set(api_.open_dataset(file(), name, 0), api_.close_dataset);
    if (!set.ok()) return Error(std::string("no ") + name);
    int value = 0;
    if (!HasOneValue(set.id()) || api_.read(set.id(), api_.native_int, 0, 0, 0, &value) < 0) {
      return Error(Format("%s is not one number", name));
    }
    return value;
  }
  StatusOr<std::string> String(const char* name) const {
    const Hdf5Handle set(api_.open_dataset(file(), name, 0), api_.close_dataset);
    if (!set.ok()) return Error(std::string("no ") + name);
    const Hdf5Handle type(api_.type_of(set.id()), api_.close_type);
    const bool fixed = type.ok() && api_.class_of(type.id()) == H5T_STRING && api_.has_variable_size(type.id()) == 0;
    std::string value(fixed ? api_.size_of(type.id()) : 0, '\0');
    if (value.empty() || !HasOneValue(set.id()) || api_.read(set.id(), type.id(), 0, 0, 0, value.data()) < 0) {
      return Error(Format("%s is not one text of fixed length", name));
    }
    return std::string(value.c_str());
  }

 private:
  bool HasOneValue(hid_t set) const {
    const Hdf5Handle space(api_.space_of(set), api_.close_space);
    return space.ok() && api_.points(space.id()) == 1;
  }

  const Hdf5Api& api_;
  const std::string path_;
  const Hdf5Handle file_;
};

Status TakeHead(const Reader& reader, caffe::SolverState* head) {
  if (!reader.ok()) return reader.Error("no HDF5 file");
  HP_ASSIGN_OR_RETURN(const int iter, reader.Int("iter"));
  HP_ASSIGN_OR_RETURN(const int step, reader.Int("current_step"));
  HP_ASSIGN_OR_RETURN(const std::string learned_net, reader.String("learned_net"));
  head->set_iter(iter);
  head->set_current_step(step);
  head->set_learned_net(learned_net);
  head->set_has_manifest(reader.HasDataset(reader.file(), "has_manifest"));
  return head->has_manifest() ? reader.Int("has_manifest").status() : OkStatus();
}

// What the library says of a missing file is no Status.
Status CheckReadable(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const int fd, OpenInputFile(path));
  close(fd);
  return OkStatus();
}

}  // namespace

Status WriteHdf5Model(const std::string& path, const BlobRefs& blobs) {
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, lock.api());
  Writer writer(*api, path);
  if (!writer.ok()) return writer.Error();
  const Hdf5Handle data(api->create_group(writer.file(), "data", 0, 0, 0), api->close_group);
  if (!data.ok()) return writer.Error();
  for (auto blob = blobs.begin(); blob != blobs.end();) {
    const std::string& layer = blob->first.first;
    HP_RETURN_IF_ERROR(writer.GroupsAround(data.id(), layer));
    const Hdf5Handle group(api->create_group(data.id(), layer.c_str(), 0, 0, 0), api->close_group);
    if (!group.ok()) return writer.Error();
    for (; blob != blobs.end() && blob->first.first == layer; ++blob) {
      HP_RETURN_IF_ERROR(writer.Dataset(group.id(), std::to_string(blob->first.second), blob->second));
    }
  }
  return writer.Close();
}

Status WriteHdf5State(const std::string& path, const caffe::SolverState& head, const std::vector<BlobRef>& histories) {
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, lock.api());
  Writer writer(*api, path);
  if (!writer.ok()) return writer.Error();
  HP_RETURN_IF_ERROR(writer.Int("iter", head.iter()));
  HP_RETURN_IF_ERROR(writer.String("learned_net", head.learned_net()));
  HP_RETURN_IF_ERROR(writer.Int("current_step", head.current_step()));
  if (head.has_manifest()) HP_RETURN_IF_ERROR(writer.Int("has_manifest", 1));
  const Hdf5Handle group(api->create_group(writer.file(), "history", 0, 0, 0), api->close_group);
  if (!group.ok()) return writer.Error();
  for (size_t i = 0; i < histories.size(); ++i) {
    HP_RETURN_IF_ERROR(writer.Dataset(group.id(), std::to_string(i), histories[i]));
  }
  return writer.Close();
}

StatusOr<CaffeModel> ReadHdf5Model(const std::string& path) {
  HP_RETURN_IF_ERROR(CheckReadable(path));
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, lock.api());
  const Reader reader(*api, path);
  if (!reader.ok()) return reader.Error("no HDF5 file");
  const Hdf5Handle data(api->open_group(reader.file(), "data", 0), api->close_group);
  if (!data.ok()) return reader.Error("no group data");
  CaffeModel model;
  model.path = path;
  HP_RETURN_IF_ERROR(reader.TakeLayers(data.id(), &model));
  return model;
}

Status ReadHdf5Head(const std::string& path, caffe::SolverState* head) {
  HP_RETURN_IF_ERROR(CheckReadable(path));
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, lock.api());
  return TakeHead(Reader(*api, path), head);
}

StatusOr<std::vector<Blob>> ReadHdf5State(const std::string& path, caffe::SolverState* head) {
  HP_RETURN_IF_ERROR(CheckReadable(path));
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, lock.api());
  const Reader reader(*api, path);
  HP_RETURN_IF_ERROR(TakeHead(reader, head));
  const Hdf5Handle group(api->open_group(reader.file(), "history", 0), api->close_group);
  if (!group.ok()) return reader.Error("no group history");
  return reader.Histories(group.id());
}

#else

Status WriteHdf5Model(const std::string&, const BlobRefs&) { return CheckHdf5(); }
Status WriteHdf5State(const std::string&, const caffe::SolverState&, const std::vector<BlobRef>&) {
  return CheckHdf5();
}
StatusOr<CaffeModel> ReadHdf5Model(const std::string&) { return CheckHdf5(); }
Status ReadHdf5Head(const std::string&, caffe::SolverState*) { return CheckHdf5(); }
StatusOr<std::vector<Blob>> ReadHdf5State(const std::string&, caffe::SolverState*) { return CheckHdf5(); }

#endif

}  // namespace hp
