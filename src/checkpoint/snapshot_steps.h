#pragma once

#include "checkpoint/incarnation.h"
#include "hp/status.h"

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

namespace hp {

/// What is done around each change of a snapshot's folder (SnapshotContents::before_step, Incarnation::Check). One
/// thread at a time.
class SnapshotSteps {
 public:
  SnapshotSteps(std::function<void(const std::string&)> before_step, const Incarnation* incarnation)
      : before_step_(std::move(before_step)), incarnation_(incarnation) {}

  /// Announces "VERB NAME" and does it.
  template <typename Action>
  Status Step(const char* verb, const std::string& path, const Action& action) const {
    if (before_step_) before_step_(std::string(verb) + " " + std::filesystem::path(path).filename().string());
    return action();
  }
  /// A step that changes what stands under a final name: not if a later start of the job does it now.
  template <typename Action>
  Status Replace(const char* verb, const std::string& path, const Action& action) const {
    return Step(verb, path, [&]() -> Status {
      if (incarnation_ != nullptr) HP_RETURN_IF_ERROR(incarnation_->Check());
      return action();
    });
  }
  /// Of temporary names.
  std::string suffix() const {
    return incarnation_ == nullptr ? ".tmp" : "." + std::to_string(incarnation_->number()) + ".tmp";
  }

 private:
  const std::function<void(const std::string&)> before_step_;
  const Incarnation* const incarnation_;
};

}  // namespace hp
