#pragma once

#include "backend/backend.h"
#include "checkpoint/weights.h"
#include "commands/forward_net.h"
#include "data/transformer.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "tensor/device.h"

#include <memory>
#include <string>
#include <vector>

namespace hp {

struct ClassifierOptions {
  std::string mean_file;          ///< a mean image, of which the mean of each channel is subtracted; empty: none
  std::vector<float> mean_value;  ///< or what is subtracted: none, one, or one for each channel
  float scale = 1;                ///< factor after the mean is subtracted, as of transform_param
  std::string blob;               ///< that holds the scores; empty: the one that no layer reads
  int threads = 0;                ///< that compute; 0: DefaultThreads
};

/// Says what a trained net makes of image files, one at a time, as Caffe's example classification does: an image is
/// resized to the size that the deploy net's Input layer states (not cropped), the mean of each channel is subtracted,
/// and the net runs on it. One thread.
class Classifier {
 public:
  /// @param net a deploy net: its input is an Input layer [N, 1 or 3, H, W], or `input` fields; N is not used.
  /// @param device,backend must outlive it.
  /// @return kInvalidArgument: another net, both or wrong means, or no single blob of scores; errors of ReadMeanFile
  /// and ForwardNet::Create.
  static StatusOr<std::unique_ptr<Classifier>> Create(const caffe::NetParameter& net, const CaffeModel& model,
                                                      Device* device, Backend* backend,
                                                      const ClassifierOptions& options);

  /// How many scores an image has.
  int64_t classes() const { return net_->blob_shape(0).count(); }
  /// The scores of an image file, by class. @return kInternal: the device failed; errors of ReadImageFile.
  StatusOr<std::vector<float>> Scores(const std::string& path);

 private:
  Classifier() = default;

  std::unique_ptr<NetGraph> graph_;
  std::unique_ptr<ForwardNet> net_;  // points to the graph
  TransformOptions transform_;
  Shape sample_;  // [C, H, W]
};

/// The lines of a text file, one name for each class. Errors as ReadInputFile's.
StatusOr<std::vector<std::string>> ReadClassNames(const std::string& path);

/// Indices of the `count` greatest scores, or of all if there are fewer, the greatest first; of equal ones the first.
std::vector<size_t> BestClasses(const std::vector<float>& scores, size_t count);

}  // namespace hp
