#pragma once

#include <string>

namespace hp {

/// A layer type that BVLC Caffe 1.0 or its master branch registers, supported here or not. Messages tell a user who
/// names one that it is not supported, rather than unknown.
struct CaffeType {
  const char* name;         ///< as the prototxt's `type`
  bool source = false;      ///< its tops come from outside the net
  bool parameters = false;  ///< has blobs that are learned or saved (BatchNorm's statistics, too)
  /// Why it is not supported, and what does instead, for messages; null: it is supported.
  const char* reason = nullptr;
};

/// The entry for type `name` (case counts), which lives as long as the process; null: not a type of Caffe's.
const CaffeType* FindCaffeType(const std::string& name);

/// A layer type that forks of Caffe have and Caffe itself has not, and that is not supported here.
struct ForkType {
  const char* name;               ///< as the prototxt's `type`
  const char* field = nullptr;    ///< of a layer, with its parameters; null: it has none that Caffe has not
  const char* instead = nullptr;  ///< what computes the same, for messages; null: nothing known
};

/// The entry for type `name` (case counts), which lives as long as the process; null: it is not known.
const ForkType* FindForkType(const std::string& name);
/// The first entry with this field; null likewise.
const ForkType* FindForkField(const std::string& field);
/// "type NAME is no layer of Caffe's but of a fork ...", and what instead.
std::string DescribeForkType(const ForkType& type);
/// "type NAME is no layer of Caffe's ...", of one that is neither Caffe's nor a known fork's.
std::string DescribeStrangeType(const std::string& name);

}  // namespace hp
