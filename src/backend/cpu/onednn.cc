#include "backend/cpu/onednn.h"

#include "base/format.h"

namespace hp::onednn {

using Tag = dnnl::memory::format_tag;

namespace {

/// Whether this host has the instructions of `isa`: the values are sets of bits, and what came later has those before.
bool HasAll(dnnl::cpu_isa isa) {
  const int bits = static_cast<int>(isa);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

bool HasAvx512() {
  // Those of the AVX-512 families contain one of these two beyond AVX2's.
  constexpr int kAvx512Bits =
      (static_cast<int>(dnnl::cpu_isa::avx512_mic) | static_cast<int>(dnnl::cpu_isa::avx512_core)) &
      ~static_cast<int>(dnnl::cpu_isa::avx2);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & kAvx512Bits) != 0;
}

int64_t NativeBlock() { return HasAvx512() ? 16 : 8; }

std::string DescribeInstructions() {
  const dnnl_version_t* const version = dnnl_version();
  const auto isa = dnnl::get_effective_cpu_isa();
  std::string name = Format("instructions_%x", static_cast<unsigned>(isa));
  if (isa == dnnl::cpu_isa::sse41) name = "sse41";
  if (isa == dnnl::cpu_isa::avx) name = "avx";
  if (isa == dnnl::cpu_isa::avx2) name = "avx2";
  if (isa == dnnl::cpu_isa::avx2_vnni) name = "avx2_vnni";
  if (isa == dnnl::cpu_isa::avx512_core) name = "avx512_core";
  if (isa == dnnl::cpu_isa::avx512_core_vnni) name = "avx512_core_vnni";
  if (isa == dnnl::cpu_isa::avx512_core_bf16) name = "avx512_core_bf16";
  if (isa == dnnl::cpu_isa::avx512_core_amx) name = "avx512_core_amx";
  return Format("oneDNN %d.%d.%d %s", version->major, version->minor, version->patch, name.c_str());
}

bool MultipliesBFloat16() { return HasAll(dnnl::cpu_isa::avx512_core_bf16); }

bool HasAmx() { return HasAll(dnnl::cpu_isa::avx512_core_amx); }

dnnl::memory::data_type TypeOf(ElementType element) {
  return element == ElementType::kBFloat16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc Describe(const Shape& shape, int64_t channel_block, dnnl::memory::data_type type) {
  Tag tag = Tag::nhwc;
  if (channel_block == 1) tag = Tag::nchw;
  if (channel_block == 8) tag = Tag::nChw8c;
  if (channel_block == 16) tag = Tag::nChw16c;
  return {shape.dims(), type, tag};
}

dnnl::memory::desc DescribeNhwc(const Shape& shape, dnnl::memory::data_type type) {
  return {shape.dims(), type, Tag::nhwc};
}

std::string FormatName(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& data = desc.data;
  const dnnl_blocking_desc_t& blocking = data.format_desc.blocking;
  std::string name = Format("type%d kind%d", static_cast<int>(data.data_type), static_cast<int>(data.format_kind));
  for (int i = 0; i < data.ndims; ++i) {
    name +=
        Format(" %lld:%lld", static_cast<long long>(data.padded_dims[i]), static_cast<long long>(blocking.strides[i]));
  }
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    name += Format(" %lld%c", static_cast<long long>(blocking.inner_blks[i]),
                   static_cast<char>('a' + blocking.inner_idxs[i]));
  }
  return name;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Reorder::Reorder(const Context& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add)
    : needed_(from != to), from_(from), to_(to) {
  dnnl::primitive_attr attributes;
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  if (!needed_ && !add) return;
  primitive_ = dnnl::reorder({context.engine, from, context.engine, to, attributes});
}

void Reorder::Run(Context* context, const void* from, void* to) const {
  dnnl::memory source = context->Memory(from_, from), target = context->Memory(to_, to);
  context->Execute(primitive_, {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}});
}

}  // namespace hp::onednn
