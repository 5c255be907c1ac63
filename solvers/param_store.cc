#include "solvers/param_store.h"

#include "glog/logging.h"

#include <utility>

namespace hp {
namespace {

constexpr int64_t kLine = 16;  // floats in 64 bytes

// Lays parameters out one after another in an arena.
class Layout {
 public:
  /// The offset of `count` floats, or -1 where they are not wanted.
  int64_t Place(int64_t count, bool wanted) {
    if (!wanted) return -1;
    return std::exchange(end_, end_ + (count + kLine - 1) / kLine * kLine);
  }
  size_t bytes() const { return end_ * sizeof(float); }

 private:
  int64_t end_ = 0;
};

void CheckRows(StoredParam* param) {
  const int64_t rows = param->whole.dim(0);
  if (param->end_row < 0) param->end_row = rows;
  CHECK(0 <= param->begin_row && param->begin_row <= param->end_row && param->end_row <= rows)
      << param->name() << " [" << param->whole << "]: rows " << param->begin_row << " to " << param->end_row;
}

bool WantsGradient(const StoredParam& param) { return !param.frozen() && param.keeps_gradient; }

}  // namespace

ParamStore::ParamStore(std::vector<StoredParam> params) : params_(std::move(params)), versions_(params_.size(), 1) {
  Layout values, gradients, histories;
  for (StoredParam& param : params_) {
    CheckRows(&param);
    const int64_t count = param.local().count();
    counts_.push_back(count);
    values_at_.push_back(values.Place(count, true));
    gradients_at_.push_back(gradients.Place(count, WantsGradient(param)));
    histories_at_.push_back(histories.Place(count, !param.frozen()));
    packed_.push_back(std::make_unique<PackedParams>());
  }
  values_ = Buffer(values.bytes());
  gradients_ = Buffer(gradients.bytes());
  histories_ = Buffer(histories.bytes());
}

int ParamStore::Find(const std::string& layer, int blob) const {
  for (int i = 0; i < size(); ++i) {
    if (params_[i].layer == layer && params_[i].blob == blob) return i;
  }
  return -1;
}

void ParamStore::Fill(const Filler& filler) {
  for (int i = 0; i < size(); ++i) {
    const int64_t begin = params_[i].begin_row * params_[i].whole.count(1);
    filler(params_[i], begin, begin + counts_[i], values(i).data());
    MarkUpdated(i);
  }
}

size_t ParamStore::BytesFor(std::vector<StoredParam> params) {
  Layout all;
  for (StoredParam& param : params) {
    CheckRows(&param);
    const int64_t count = param.local().count();
    all.Place(count, true);
    all.Place(count, WantsGradient(param));
    all.Place(count, !param.frozen());
  }
  return all.bytes();
}

}  // namespace hp
