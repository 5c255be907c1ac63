#include "data/image_list_dataset.h"

#include "base/format.h"
#include "base/hash.h"
#include "base/input_file.h"
#include "proto/caffe.pb.h"

namespace hp {

StatusOr<std::unique_ptr<Dataset>> ImageListDataset::Open(const std::string& list, const std::string& root,
                                                          const DatasetOptions& options) {
  return Opened(ReadList(list, root), options);
}

StatusOr<std::unique_ptr<Dataset>> ImageListDataset::ReadList(const std::string& list, const std::string& root) {
  const StatusOr<std::string> text = ReadInputFile(list);
  if (!text.ok()) return text.status().Prepend("list of images");
  HP_ASSIGN_OR_RETURN(std::vector<ListedImage> images, ParseImageList(*text, list));
  return std::unique_ptr<Dataset>(new ImageListDataset(list, root, std::move(images)));
}

Status ImageListDataset::ReadDatum(int64_t record, caffe::Datum* datum) {
  StatusOr<std::string> bytes = ReadInputFile(PathOf(record));
  // Its message names the path itself.
  if (!bytes.ok()) return bytes.status().Prepend(Format("%s:%d", source().c_str(), images_[record].line));
  datum->Clear();
  datum->set_encoded(true);
  datum->set_label(images_[record].label);
  datum->set_data(*std::move(bytes));
  return OkStatus();
}

std::string ImageListDataset::Describe(int64_t record) const {
  return Format("%s:%d: %s", source().c_str(), images_[record].line, Printable(PathOf(record)).c_str());
}

uint64_t ImageListDataset::IndexHash() const {
  std::string all;
  for (const ListedImage& image : images_) all += Format("%zu %d ", image.name.size(), image.label) + image.name;
  return HashBytes(all);
}

}  // namespace hp
