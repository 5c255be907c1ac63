#include "engine/gradient_norms.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

namespace hp {

namespace {

/// Of one clock.
size_t BytesOf(const NodeModel& model) {
  const size_t of_each = model.job().solver().larc() ? 2 : 1;
  return std::max<size_t>(model.stored_params().size(), 1) * of_each * sizeof(double);
}

}  // namespace

size_t GradientNorms::DeviceBytes(const NodeModel& model) { return kDeviceClocks * BytesOf(model); }

StatusOr<std::unique_ptr<GradientNorms>> GradientNorms::Create(const NodeModel& model, const Options& options) {
  std::unique_ptr<GradientNorms> norms(new GradientNorms(model, options));
  HP_ASSIGN_OR_RETURN(norms->host_, options.device->AllocateHost(norms->clocks() * BytesOf(model)));
  if (!options.device->is_host()) {
    HP_ASSIGN_OR_RETURN(norms->device_, options.device->Allocate(DeviceBytes(model)));
  }
  if (!norms->larc()) return norms;
  const std::vector<WholeParam>& whole = model.whole_params();
  norms->whole_of_.assign(options.params->size(), -1);
  for (size_t i = 0; i < whole.size(); ++i) {
    const int param = options.params->Find(whole[i].whole.layer, whole[i].whole.blob);
    norms->param_of_.push_back(param);
    if (param >= 0) norms->whole_of_[param] = static_cast<int>(i);
  }
  return norms;
}

void GradientNorms::Enqueue(int64_t clock, const std::vector<int>& groups) {
  std::vector<int> wanted;
  for (int group : groups) {
    if (!model_.plan().groups[group].counts) continue;
    const std::vector<int> params = model_.ParamsOf(group);
    wanted.insert(wanted.end(), params.begin(), params.end());
  }
  std::erase_if(wanted, [this](int param) { return options_.params->param(param).average_keeps.has_value(); });
  if (wanted.empty()) return;
  std::sort(wanted.begin(), wanted.end());
  double* const to = options_.device->is_host() ? of(clock) : In(device_, clock);
  std::vector<SquaresPart> parts;
  std::vector<int> places;
  const auto add = [&](std::span<const float> values, int place) {
    parts.push_back({values.data(), std::ssize(values), to + place});
    places.push_back(place);
  };
  for (int param : wanted) add(options_.params->gradient(param), param);
  if (larc()) {
    for (int param : wanted) add(options_.params->values(param, clock), options_.params->size() + param);
  }
  options_.backend->SumsOfSquares(parts);
  if (!options_.device->is_host()) Download(clock, places);
}

// A device's stay zero until a NaN, which ends the job.
double* GradientNorms::Check(int64_t clock, int param) {
  if (!options_.device->is_host()) return In(device_, clock) + param;
  Set(clock, param, 0);
  return of(clock) + param;
}

void GradientNorms::FetchChecks(int64_t clock, std::vector<int> params) {
  if (options_.device->is_host()) return;
  std::sort(params.begin(), params.end());
  Download(clock, params);
}

void GradientNorms::Download(int64_t clock, const std::vector<int>& places) {
  const double* const from = In(device_, clock);
  options_.device->Order(Device::kCompute, Device::kCopyOut);
  for (size_t begin = 0, end = 0; begin < places.size(); begin = end) {
    while (end < places.size() && places[end] - places[begin] == static_cast<int>(end - begin)) ++end;
    options_.device->Download(Device::kCopyOut, of(clock) + places[begin], from + places[begin],
                              (end - begin) * sizeof(double));
  }
}

void GradientNorms::AddTo(int64_t clock, double loss_scale, IterationReport* report) const {
  double sum = 0;
  std::string layer_not_finite;
  const double unscaled = 1 / (loss_scale * loss_scale);
  for (int group = 0; group < static_cast<int>(model_.plan().groups.size()); ++group) {
    if (!model_.plan().groups[group].counts) continue;
    for (int param : model_.ParamsOf(group)) {
      const StoredParam& stored = options_.params->param(param);
      if (stored.average_keeps) continue;  // statistics are no gradient
      sum += unscaled * of(clock)[param];
      if (larc() && !stored.frozen()) {
        CHECK_GE(whole_of_[param], 0) << "a parameter that the net has not: " << stored.layer;
        ParamSquares* const squares = report->add_params();
        squares->set_param(whole_of_[param]);
        squares->set_gradient(unscaled * of(clock)[param]);
        squares->set_values(of(clock)[options_.params->size() + param]);
      }
      if (!std::isfinite(sum) && layer_not_finite.empty()) layer_not_finite = model_.NameOf(group);
    }
  }
  report->set_sum_of_squares(sum);
  if (report->finite() && !layer_not_finite.empty()) report->set_layer(layer_not_finite);
}

std::shared_ptr<const std::vector<GradientNorms::Squares>> GradientNorms::OfWhole(const Verdict& verdict) const {
  if (!larc()) return nullptr;
  auto squares = std::make_shared<std::vector<Squares>>(whole_of_.size());
  for (const ParamSquares& said : verdict.params()) {
    const int param = param_of_.at(said.param());  // PeerRules::CheckVerdict
    if (param >= 0) (*squares)[param] = {said.gradient(), said.values()};
  }
  return squares;
}

}  // namespace hp
