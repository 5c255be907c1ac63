#pragma once

#include "base/sample_shape.h"
#include "hp/status.h"
#include "scheduler/planner/layer_cost.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace caffe {
class NetParameter;
}

namespace hp {

class ProfileConfig;

/// How fast a node computes.
struct ComputeSpeed {
  double flops = 0;               ///< operations in a second that products reach; more than 0
  double bytes_per_second = 0;    ///< that its memory moves; more than 0
  double calls_per_second = 1e5;  ///< passes of a layer: what starting one costs, whatever its size
};

/// The passes of a layer.
enum class Pass { kForward, kInputGradient, kWeightGradient };

/// Hash of the layers of `net` that train, without what says where data lies and how many samples a batch has: two nets
/// with the same hash take the same time.
uint64_t ProfileHash(const caffe::NetParameter& net);

/// A profile as a commented text file that Profile::Read reads.
std::string ProfileText(const ProfileConfig& config);

/// What a profile says, checked: seconds of the passes of layers by rows. A value; any thread.
class Profile {
 public:
  /// @param path stands in messages.
  /// @return kInvalidArgument: a layer that appears twice, a number out of range, rows that do not ascend.
  static StatusOr<Profile> Create(const ProfileConfig& config, const std::string& path);
  /// Reads a file that hproute --profile wrote. Errors as ReadTextProto's and Create's.
  static StatusOr<Profile> Read(const std::string& path);

  /// Whether it is of this net, for samples of this shape.
  /// @return kInvalidArgument: says which net, or which shape, it is of.
  Status CheckNet(const caffe::NetParameter& net, const SampleShape& sample) const;

  const std::string& host() const { return host_; }
  const std::string& path() const { return path_; }
  /// Of the products that were timed, as a table has it: "BF16".
  const std::string& precision() const { return precision_; }
  int threads() const { return threads_; }
  /// Bytes in a second that memory moves; 0: it does not say.
  double bytes_per_second() const { return bytes_per_second_; }
  /// Whether it has a layer.
  bool Has(const std::string& layer) const { return layers_.contains(layer); }
  /// Seconds that a pass of the whole layer takes with its threads: between the rows that were measured along a line,
  /// beyond them along the line of the two nearest.
  /// @param layer that it has. @param rows at least 1.
  double Seconds(const std::string& layer, Pass pass, double rows) const;

 private:
  struct Timing {
    double rows = 0;
    double seconds[3] = {};  // by Pass
  };

  std::map<std::string, std::vector<Timing>> layers_;
  std::string path_, net_, host_, precision_;
  int threads_ = 1;
  double bytes_per_second_ = 0;
  uint64_t net_hash_ = 0;
  std::vector<int64_t> sample_;
};

/// The time of layers on one kind of node: from a profile where there is one, else counted as
///   max(2 x products / flops, bytes touched / bytes_per_second) + 1 / calls_per_second
/// in which parameters count once a pass, whatever its rows: an inner product of few rows is bound by reading its
/// weights. Immutable; any thread.
class LayerTimes {
 public:
  /// @param costs must outlive it. @param profile null: counts; must outlive it. @param scale how much slower than the
  /// profile's host, with the profile's threads, a node is (2: takes twice as long).
  LayerTimes(const std::vector<LayerCost>& costs, const ComputeSpeed& speed, const Profile* profile = nullptr,
             double scale = 1);

  const std::vector<LayerCost>& costs() const { return *costs_; }
  /// Seconds of a pass; 0 where the layer has none.
  /// @param layer index into costs(). @param rows of the micro-batch. @param share of the layer that the node has, from
  /// 0 to 1: a shard's of its outputs or inputs.
  double Seconds(int layer, Pass pass, double rows, double share = 1) const;
  /// Seconds of an update of its parameters: reads value, history and gradient, writes all three.
  double UpdateSeconds(int layer, double share = 1) const;

 private:
  const std::vector<LayerCost>* costs_;
  ComputeSpeed speed_;
  const Profile* profile_;
  double scale_;
};

}  // namespace hp
