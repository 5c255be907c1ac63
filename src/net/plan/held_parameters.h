#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/phase.h"

#include <map>
#include <memory>
#include <string>

namespace hp {

/// The blobs of a net's Parameter layers, tops without rows. A Scale or Bias that has one for its second bottom learns
/// such a blob itself; so each is held by its reader, under the Parameter's name, and files are Caffe's.
class HeldParameters {
 public:
  /// @param layer a Parameter. @return kInvalidArgument, naming it: its top is another's already.
  Status Add(const caffe::LayerParameter& layer);
  /// A layer that holds a Parameter.
  struct Holder {
    std::unique_ptr<caffe::LayerParameter> layer;  ///< null: it reads none
    const caffe::LayerParameter* parameter = nullptr;
  };
  /// @return `reader` with the blob in the place of its second bottom, and the name, blobs and factors of the
  /// Parameter. kInvalidArgument, naming the reader: it is of another type, reads it as another bottom, has blobs of
  /// its own, or is not the only one.
  StatusOr<Holder> HolderOf(const caffe::LayerParameter& reader);
  /// @return kInvalidArgument, naming a Parameter that no layer of the phase reads.
  Status CheckAllRead(Phase phase) const;

 private:
  struct Parameter {
    const caffe::LayerParameter* layer = nullptr;
    std::string reader;  // empty: none yet
  };
  std::map<std::string, Parameter> parameters_;  // by top
};

}  // namespace hp
