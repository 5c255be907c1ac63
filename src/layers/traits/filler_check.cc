#include "layers/traits/filler_check.h"

#include "proto/caffe.pb.h"

namespace hp {
namespace {

bool HasMeaning(const std::string& type, const std::string& field) {
  if (field == "type") return true;
  if (type == "constant") return field == "value";
  if (type == "uniform") return field == "min" || field == "max";
  if (type == "gaussian") return field == "mean" || field == "std" || field == "sparse";
  return (type == "xavier" || type == "msra") && field == "variance_norm";
}

Status CheckType(const std::string& type, const std::string& where) {
  for (const char* known : {"constant", "uniform", "gaussian", "positive_unitball", "xavier", "msra", "bilinear"}) {
    if (type == known) return OkStatus();
  }
  return InvalidArgument(
      "%s: unknown filler type \"%s\"; expected one of constant, uniform, gaussian, positive_unitball, xavier, msra, "
      "bilinear",
      where.c_str(), type.c_str());
}

}  // namespace

std::vector<std::string> FieldsWithoutMeaning(const caffe::FillerParameter& filler) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  filler.GetReflection()->ListFields(filler, &fields);
  std::vector<std::string> without;
  for (const auto* field : fields) {
    if (!HasMeaning(filler.type(), field->name())) without.push_back(field->name());
  }
  return without;
}

Status CheckFillerFields(const caffe::FillerParameter& filler, const std::string& where) {
  HP_RETURN_IF_ERROR(CheckType(filler.type(), where));
  if (filler.type() == "uniform" && !(filler.min() <= filler.max())) {
    return InvalidArgument("%s: min %g is greater than max %g", where.c_str(), filler.min(), filler.max());
  }
  if (filler.type() != "gaussian" && filler.sparse() != -1) {
    return InvalidArgument("%s: sparse: %d is only for type \"gaussian\", not for \"%s\"", where.c_str(),
                           filler.sparse(), filler.type().c_str());
  }
  if (filler.type() == "gaussian" && !(filler.std() >= 0)) {
    return InvalidArgument("%s: std %g is negative", where.c_str(), filler.std());
  }
  return OkStatus();
}

Status CheckFiller(const caffe::FillerParameter& filler, const Shape& whole, const std::string& where) {
  HP_RETURN_IF_ERROR(CheckFillerFields(filler, where));
  if (filler.type() == "gaussian" && (filler.sparse() < -1 || filler.sparse() > whole.dim(0))) {
    return InvalidArgument("%s: sparse %d is not in -1..%lld (non-zero weights per output; -1: all)", where.c_str(),
                           filler.sparse(), static_cast<long long>(whole.dim(0)));
  }
  if (filler.type() == "bilinear" && (whole.rank() != 4 || whole[2] != whole[3])) {
    return InvalidArgument(
        "%s: type \"bilinear\" does not fit shape [%s]; expected four axes, the last two of one size (a square kernel)",
        where.c_str(), whole.ToString().c_str());
  }
  return OkStatus();
}

}  // namespace hp
