#pragma once

#include "proto/caffe.pb.h"

#include <compare>
#include <string>
#include <vector>

namespace hp {

/// One of a job's nets, by its index: 0 is training, and from 1 on come the solver's tests, in their order. A small
/// value; compare it, copy it.
class Phase {
 public:
  /// TRAIN is training, TEST the first test, which is the only one of a net that no solver names. Not explicit, because
  /// it is what it says.
  constexpr Phase(caffe::Phase phase) : index_(phase == caffe::TRAIN ? 0 : 1) {}  // NOLINT(google-explicit-constructor)
  static constexpr Phase At(int index) { return Phase(index); }
  static constexpr Phase OfTest(int test) { return Phase(test + 1); }

  constexpr int index() const { return index_; }
  constexpr bool train() const { return index_ == 0; }
  /// Its number among the tests, from 0. Of a test.
  constexpr int test() const { return index_ - 1; }
  /// As Caffe's rules of layers have it.
  constexpr caffe::Phase kind() const { return train() ? caffe::TRAIN : caffe::TEST; }
  /// For messages: "TRAIN", "TEST", and of further tests "TEST (#1)", with the number that the log gives it.
  std::string name() const;

  constexpr auto operator<=>(const Phase&) const = default;

 private:
  explicit constexpr Phase(int index) : index_(index) {}
  int index_;
};

/// Training, and `tests` tests.
std::vector<Phase> PhasesWith(int tests);

}  // namespace hp
