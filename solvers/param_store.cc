// Layout comes before memory: offsets of all parameters in the three arenas are computed first, by the same rule that
// BytesFor uses, and then each arena is allocated at once, on the host or on the device.
#include "solvers/param_store.h"

#include "glog/logging.h"

#include <algorithm>
#include <utility>

namespace hp {
namespace {

constexpr int64_t kLine = 16;  // floats in 64 bytes

// Lays parameters out one after another in an arena.
class Layout {
 public:
  /// The offset of `copies` times `rounded` floats, or -1 where they are not wanted.
  int64_t Place(int64_t rounded, int copies, bool wanted) {
    if (!wanted) return -1;
    return std::exchange(end_, end_ + rounded * copies);
  }
  size_t bytes() const { return end_ * sizeof(float); }

 private:
  int64_t end_ = 0;
};

void CheckBlock(const StoredParam& param) {
  CHECK(param.block.LiesIn(param.whole)) << param.name() << " [" << param.whole << "]: " << param.block;
}

bool WantsGradient(const StoredParam& param) { return !param.frozen() && param.keeps_gradient; }
int HistoriesHere(const StoredParam& param) { return param.keeps_histories ? param.histories() : 0; }

}  // namespace

int64_t ParamStore::Rounded(int64_t count) { return (count + kLine - 1) / kLine * kLine; }

ParamStore::ParamStore(Device* device, std::vector<StoredParam> params, const Versions& versions)
    : device_(device), params_(std::move(params)), kept_(versions.kept), latest_(versions.first) {
  Layout values, gradients, histories;
  for (int i = 0; i < size(); ++i) {
    const StoredParam& param = params_[i];
    CheckBlock(param);
    const int64_t count = param.block.count();
    counts_.push_back(count);
    values_at_.push_back(values.Place(Rounded(count), SlotsOf(i), true));
    gradients_at_.push_back(gradients.Place(Rounded(param.gradient_count()), 1, WantsGradient(param)));
    histories_at_.push_back(histories.Place(Rounded(count), HistoriesHere(param), HistoriesHere(param) > 0));
    changes_.emplace_back(SlotsOf(i), 1);
    auto& packed = packed_.emplace_back();
    for (int slot = 0; slot < SlotsOf(i); ++slot) packed.push_back(std::make_unique<PackedParams>(device_));
  }
  values_bytes_ = values.bytes();
  gradients_bytes_ = gradients.bytes();
  histories_bytes_ = histories.bytes();
}

ParamStore::ParamStore(std::vector<StoredParam> params) : ParamStore(nullptr, std::move(params), {1, 0}) {
  const Status status = AllocateOnHost(nullptr);
  CHECK(status.ok()) << status;
}

// Replicas sum gradients where they lie.
Status ParamStore::AllocateOnHost(Device* device) {
  HP_ASSIGN_OR_RETURN(values_, Buffer::Allocate(values_bytes_));
  HP_ASSIGN_OR_RETURN(
      gradients_, device == nullptr ? Buffer::Allocate(gradients_bytes_) : device->AllocateShared(gradients_bytes_));
  HP_ASSIGN_OR_RETURN(histories_, Buffer::Allocate(histories_bytes_));
  return OkStatus();
}

StatusOr<std::unique_ptr<ParamStore>> ParamStore::Create(Device* device, std::vector<StoredParam> params,
                                                         const Versions& versions) {
  std::unique_ptr<ParamStore> store(new ParamStore(device->is_host() ? nullptr : device, std::move(params), versions));
  if (device->is_host()) {
    HP_RETURN_IF_ERROR(store->AllocateOnHost(device).Prepend("parameters"));
    return store;
  }
  HP_ASSIGN_OR_RETURN(store->values_, device->Allocate(store->values_bytes_));
  // Collectives of this process's GPUs reach into each other's gradients.
  HP_ASSIGN_OR_RETURN(store->gradients_, device->AllocateShared(store->gradients_bytes_));
  HP_ASSIGN_OR_RETURN(store->histories_, device->Allocate(store->histories_bytes_));
  return store;
}

void ParamStore::MarkUpdated(int i, int64_t version) {
  ++changes_[i][static_cast<size_t>(SlotOf(i, version))];
  latest_ = std::max(latest_, version);
}

Status ParamStore::Read(std::span<const float> from, std::span<float> to) const {
  CHECK_EQ(from.size(), to.size());
  if (device_ == nullptr) {
    std::copy(from.begin(), from.end(), to.begin());
    return OkStatus();
  }
  device_->Download(Device::kCompute, to.data(), from.data(), from.size_bytes());
  return device_->Wait(device_->Record(Device::kCompute));
}

Status ParamStore::Write(std::span<float> to, std::span<const float> from) {
  CHECK_EQ(from.size(), to.size());
  if (device_ == nullptr) {
    std::copy(from.begin(), from.end(), to.begin());
    return OkStatus();
  }
  device_->Upload(Device::kCompute, to.data(), from.data(), from.size_bytes());
  return device_->Wait(device_->Record(Device::kCompute));
}

Status ParamStore::WriteValues(int i, std::span<const float> from) {
  MarkUpdated(i);
  return Write(values(i), from);
}

int ParamStore::Find(const std::string& layer, int blob) const {
  for (int i = 0; i < size(); ++i) {
    if (params_[i].layer == layer && params_[i].blob == blob) return i;
  }
  return -1;
}

Status ParamStore::Fill(const Filler& filler) {
  std::vector<float> filled;
  for (int i = 0; i < size(); ++i) {
    if (device_ == nullptr) {
      filler(params_[i], values(i).data());
      MarkUpdated(i);
      continue;
    }
    filled.resize(counts_[i]);
    filler(params_[i], filled.data());
    HP_RETURN_IF_ERROR(WriteValues(i, filled));
  }
  return OkStatus();
}

size_t ParamStore::BytesFor(const std::vector<StoredParam>& params, int versions) {
  Layout all;
  for (const StoredParam& param : params) {
    CheckBlock(param);
    const int64_t rounded = Rounded(param.block.count());
    all.Place(rounded, param.frozen() ? 1 : versions, true);
    all.Place(Rounded(param.gradient_count()), 1, WantsGradient(param));
    all.Place(rounded, HistoriesHere(param), HistoriesHere(param) > 0);
  }
  return all.bytes();
}

}  // namespace hp
