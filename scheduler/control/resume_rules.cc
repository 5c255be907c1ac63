#include "scheduler/control/resume_rules.h"

#include "scheduler/control/slice_tag.h"

namespace hp {

std::vector<ResumePiece> ResumePiecesOf(const JobPlan& job, Rank taker) {
  std::vector<ResumePiece> pieces;
  const std::vector<ParamPlan>& params = job.node(taker, caffe::TRAIN).params();
  for (size_t i = 0; i < params.size(); ++i) {
    const int64_t count = params[i].block.count();
    if (count == 0) continue;
    for (int array = 0; array <= job.HistoriesOf(params[i].spec); ++array) {
      pieces.push_back({ResumeTag(i, array), static_cast<int>(i), array, count});
    }
  }
  return pieces;
}

Status ResumeRules::CheckEarly(Rank from) {
  MutexLock lock(&mutex_);
  if (planned_ || early_.insert(from).second) return OkStatus();
  return InvalidArgument("a second grant for a piece of a snapshot before the first was used");
}

void ResumeRules::SetPlan(const JobPlan& job, const std::set<Rank>& takers) {
  for (const Rank taker : takers) takers_[taker].pieces = ResumePiecesOf(job, taker);
  MutexLock lock(&mutex_);
  planned_ = true;
}

Status ResumeRules::Check(Rank from, const PlaceTag& tag, size_t bytes) {
  const auto taker = takers_.find(from);
  if (taker == takers_.end() || taker->second.next == taker->second.pieces.size())
    return InvalidArgument("a grant for a piece of a snapshot, of which it gets none here");
  const ResumePiece& piece = taker->second.pieces[taker->second.next];
  if (!(piece.tag == tag) || bytes != static_cast<size_t>(piece.count) * sizeof(float)) {
    return InvalidArgument("a grant of %zu bytes for piece %u of a snapshot; expected %lld bytes for piece %u", bytes,
                           tag.channel, static_cast<long long>(piece.count) * static_cast<long long>(sizeof(float)),
                           piece.tag.channel);
  }
  ++taker->second.next;
  return OkStatus();
}

}  // namespace hp
