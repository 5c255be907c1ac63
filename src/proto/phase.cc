#include "proto/phase.h"

#include "base/format.h"

namespace hp {

std::string Phase::name() const { return index_ > 1 ? Format("TEST (#%d)", test()) : caffe::Phase_Name(kind()); }

std::vector<Phase> PhasesWith(int tests) {
  std::vector<Phase> phases;
  for (int index = 0; index <= tests; ++index) phases.push_back(Phase::At(index));
  return phases;
}

}  // namespace hp
