#include "layers/layer.h"

#include "proto/caffe.pb.h"

namespace hp {

const std::string& Layer::name() const { return param_.name(); }
const std::string& Layer::type() const { return param_.type(); }

float Layer::loss_weight(int top) const { return top < param_.loss_weight_size() ? param_.loss_weight(top) : 0; }

void Layer::SetMultipliers(int index, ParamSpec* spec) const {
  if (index >= param_.param_size()) return;
  spec->lr_mult = param_.param(index).lr_mult();
  spec->decay_mult = param_.param(index).decay_mult();
}

}  // namespace hp
