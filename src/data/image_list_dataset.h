#pragma once

#include "data/dataset.h"
#include "data/image_list.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// The image files that a list names, each a record: an encoded Datum of the file's bytes and the list's label. The
/// record's number is its place in the list, its key the name. The list is read once, at Open; an image only when its
/// record is read, so one that is missing is found there, or at Open if it is among those of the fingerprint: the
/// first, the last and up to 30 in between. Any thread.
class ImageListDataset : public DatumDataset {
 public:
  /// @param list a file (ParseImageList). @param root put in front of each name as it is, so normally it ends with "/".
  /// @return kNotFound: no such list; kInvalidArgument: it cannot be read, or as ParseImageList; errors of ReadDatum
  /// for the images of the fingerprint.
  static StatusOr<std::unique_ptr<Dataset>> Open(const std::string& list, const std::string& root,
                                                 const DatasetOptions& options);

  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  std::string_view key(int64_t record) const override { return images_[record].name; }
  /// @return kNotFound: no such file; kInvalidArgument: no regular file, or one that cannot be read. List, line and
  /// path are named.
  Status ReadDatum(int64_t record, caffe::Datum* datum) override;
  Status CheckUnchanged() override { return OkStatus(); }  ///< the list is in memory
  /// "train.txt:7: /data/cat/1.jpg".
  std::string Describe(int64_t record) const override;

 protected:
  uint64_t IndexHash() const override;  ///< of all names and labels

 private:
  ImageListDataset(const std::string& list, const std::string& root, std::vector<ListedImage> images)
      : DatumDataset(list), root_(root), images_(std::move(images)) {}
  static StatusOr<std::unique_ptr<Dataset>> ReadList(const std::string& list, const std::string& root);
  std::string PathOf(int64_t record) const { return root_ + images_[record].name; }

  const std::string root_;
  const std::vector<ListedImage> images_;
};

}  // namespace hp
