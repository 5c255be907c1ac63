#include "engine/stage_server.h"

#include <algorithm>
#include <span>
#include <utility>

namespace hp {

StageServer::StageServer(int stage, ExchangedGroups groups, ParamStore* params, GradientsSink on_gradients)
    : stage_(stage), params_(params), on_gradients_(std::move(on_gradients)), groups_(std::move(groups)) {
  for (const auto& [group, of_group] : groups_) {
    for (int param : of_group) group_of_[param] = group;
  }
}

StatusOr<std::unique_ptr<StageServer>> StageServer::Create(int stage, ExchangedGroups groups, ParamStore* params,
                                                           const Connect& connect, GradientsSink on_gradients) {
  std::unique_ptr<StageServer> made(new StageServer(stage, std::move(groups), params, std::move(on_gradients)));
  StageServer* const self = made.get();
  HP_ASSIGN_OR_RETURN(made->server_, connect([self](uint64_t clock, int param) {
                        self->OnGradients(static_cast<int64_t>(clock), param);
                      }));
  return made;
}

void StageServer::OnGradients(int64_t clock, int param) {
  const int group = group_of_.at(param);
  {
    MutexLock lock(&mutex_);
    if (++here_[{clock, group}] < groups_.at(group).size()) return;
    here_.erase({clock, group});
  }
  on_gradients_(clock, stage_, group);
}

void StageServer::Sum(int64_t clock, int group) {
  constexpr int64_t kPiece = 4096;  // floats: what is added up stays in the cache
  const uint64_t update = static_cast<uint64_t>(clock);
  for (int param : groups_.at(group)) {
    const std::span<float> sum = params_->gradient(param);
    const int64_t count = std::ssize(sum);
#pragma omp parallel for schedule(static)
    for (int64_t begin = 0; begin < count; begin += kPiece) {
      const int64_t end = std::min(begin + kPiece, count);
      const std::span<const float> first = server_->GradientOf(update, param, 0);
      std::copy(first.begin() + begin, first.begin() + end, sum.begin() + begin);
      for (int replica = 1; replica < server_->replicas(); ++replica) {
        const float* const part = server_->GradientOf(update, param, replica).data();
        for (int64_t i = begin; i < end; ++i) sum[i] += part[i];
      }
    }
    server_->Release(update, param);
  }
}

void StageServer::Serve(int64_t clock, int group) {
  for (int param : groups_.at(group)) {
    server_->Serve(static_cast<uint64_t>(clock), param, params_->values(param, clock + 1));
  }
}

}  // namespace hp
