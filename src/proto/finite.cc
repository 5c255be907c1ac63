#include "proto/finite.h"

#include "base/format.h"
#include "proto/caffe.pb.h"

#include <cmath>
#include <vector>

namespace hp {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

double ValueOf(const Message& message, const FieldDescriptor& field, int index) {
  const auto& reflection = *message.GetReflection();
  const bool is_float = field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
  if (!field.is_repeated()) {
    return is_float ? reflection.GetFloat(message, &field) : reflection.GetDouble(message, &field);
  }
  return is_float ? reflection.GetRepeatedFloat(message, &field, index)
                  : reflection.GetRepeatedDouble(message, &field, index);
}

std::string Fault(const Message& message, const FieldDescriptor& field, int index) {
  const auto type = field.cpp_type();
  if (type == FieldDescriptor::CPPTYPE_MESSAGE) {
    if (field.message_type() == caffe::BlobProto::descriptor()) return "";
    const auto& reflection = *message.GetReflection();
    const Message& part = field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, index)
                                              : reflection.GetMessage(message, &field);
    const std::string inside = NonFiniteField(part);
    return inside.empty() ? "" : field.name() + " { " + inside + " }";
  }
  if (type != FieldDescriptor::CPPTYPE_FLOAT && type != FieldDescriptor::CPPTYPE_DOUBLE) return "";
  const double value = ValueOf(message, field, index);
  const bool bound = message.GetDescriptor() == caffe::ClipParameter::descriptor() && std::isinf(value);
  return std::isfinite(value) || bound ? "" : field.name() + Format(": %g", value);
}

}  // namespace

std::string NonFiniteField(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (std::string fault = Fault(message, *field, i); !fault.empty()) return fault;
    }
  }
  return "";
}

}  // namespace hp
