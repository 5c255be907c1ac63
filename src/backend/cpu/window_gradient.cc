#include "backend/cpu/window_gradient.h"

#include "backend/cpu/vec.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace hp::onednn {
namespace {

// A net's first convolution with large windows: 11 x 11 of 3 channels, but not 7 x 7.
constexpr int64_t kFewChannels = 4, kManyColumns = 256;
constexpr int64_t kFewPixels = 64;                    // of an image of y
constexpr int64_t kPanelBytes = 7 << 19;              // of X that a product reads: 3.5 MiB
constexpr int64_t kMostPanelBytes = 2 * kPanelBytes;  // of one image
constexpr int64_t kMostWindowColumns = 8192;          // 32 rows, which a thread gathers at once, are 512 KiB

int64_t ColumnsOf(const ConvolutionDesc& desc, const Shape& in) { return desc.kernel_h * desc.kernel_w * in[1]; }

int64_t ImageBytes(const ConvolutionDesc& desc, const Shape& in, const Shape& out) {
  return out.count(2) * ColumnsOf(desc, in) * static_cast<int64_t>(sizeof(BFloat16));
}

/// As many as fit, that divide all.
int64_t ImagesAtOnce(const ConvolutionDesc& desc, const Shape& in, const Shape& out) {
  int64_t images = std::clamp(kPanelBytes / ImageBytes(desc, in, out), int64_t{1}, in[0]);
  while (in[0] % images != 0) --images;
  return images;
}

MatrixProduct WindowProduct(const Context& context, int64_t outputs, int64_t columns, int64_t pixels, bool add) {
  return {context,
          {outputs, columns, pixels},
          {1, outputs, ElementType::kBFloat16},
          {columns, 1, ElementType::kBFloat16, /*packed=*/true},
          {columns, add}};
}

/// memcpy, for runs that are too short for a call.
void CopyRun(const BFloat16* from, int64_t count, BFloat16* to) {
  constexpr int64_t kChunk = 16;
  if (count < kChunk) {
    for (int64_t i = 0; i < count; ++i) to[i].bits = from[i].bits;
    return;
  }
  int64_t i = 0;
  for (; i + kChunk <= count; i += kChunk) std::memcpy(to + i, from + i, kChunk * sizeof(BFloat16));
  if (i < count) std::memcpy(to + count - kChunk, from + count - kChunk, kChunk * sizeof(BFloat16));
}

size_t RoundedUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

bool WindowGradient::Fits(const ConvolutionDesc& desc, const Shape& in, const Shape& out) {
  const bool plain = desc.group == 1 && desc.dilation_h == 1 && desc.dilation_w == 1;
  const bool small = ColumnsOf(desc, in) <= kMostWindowColumns && ImageBytes(desc, in, out) <= kMostPanelBytes;
  const bool first = in[1] <= kFewChannels && ColumnsOf(desc, in) >= kManyColumns;
  return plain && small && (first || out.count(2) <= kFewPixels);
}

WindowGradient::WindowGradient(const Context& context, const ConvolutionDesc& desc, const Shape& in, const Shape& out)
    : desc_(desc),
      in_(in),
      out_(out),
      window_(desc.kernel_h * desc.kernel_w),
      columns_(ColumnsOf(desc, in)),
      images_at_once_(ImagesAtOnce(desc, in, out)),
      pixels_(images_at_once_ * out_.height * out_.width),
      set_(WindowProduct(context, out_.channels, columns_, pixels_, false)),
      add_(WindowProduct(context, out_.channels, columns_, pixels_, true)),
      pairs_(PairFormat::Of(set_.b_format(), pixels_)) {}

size_t WindowGradient::panel_bytes() const { return RoundedUp(set_.b_format().get_size()); }
size_t WindowGradient::sums_bytes() const { return RoundedUp(out_.channels * columns_ * sizeof(float)); }
size_t WindowGradient::product_bytes() const { return std::max(set_.scratch_bytes(), add_.scratch_bytes()); }

void WindowGradient::Run(const Context& context, const BFloat16* x, const BFloat16* d_y, bool add, float* d_weights,
                         float* d_bias, std::byte* scratch) const {
  auto* const panel = reinterpret_cast<BFloat16*>(scratch);
  auto* const sums = reinterpret_cast<float*>(scratch + panel_bytes());
  std::byte* const product_scratch = scratch + panel_bytes() + sums_bytes();
  for (int64_t image = 0; image < in_.count; image += images_at_once_) {
    GatherWindows(x + image * in_.height * in_.width * in_.channels, panel);
    (image == 0 ? set_ : add_)
        .Run(context, d_y + image * out_.height * out_.width * out_.channels, panel, sums, product_scratch);
  }
  StoreGradient(sums, add, d_weights);
  if (d_bias != nullptr) SumOverPixels(d_y, out_.pixels(), out_.channels, add, d_bias);
}

// As many rows as lie in one block of the format are gathered and then written together.
void WindowGradient::GatherWindows(const BFloat16* x, BFloat16* panel) const {
  const int64_t blocks = (pixels_ + PairFormat::kRows - 1) / PairFormat::kRows;
#pragma omp parallel if (pixels_ * columns_ > kSerialElements)
  {
    static thread_local std::vector<BFloat16> rows;
    rows.resize(std::max<size_t>(rows.size(), PairFormat::kRows * columns_));
#pragma omp for schedule(static)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * PairFormat::kRows, end = std::min(begin + PairFormat::kRows, pixels_);
      for (int64_t pixel = begin; pixel < end; ++pixel) CopyWindow(x, pixel, rows.data() + (pixel - begin) * columns_);
      pairs_->Write(rows.data(), columns_, begin, end, /*cached=*/true, panel);
    }
  }
}

// A line of a window is a run of neighbours in x.
void WindowGradient::CopyWindow(const BFloat16* x, int64_t pixel, BFloat16* to) const {
  const int64_t image = pixel / (out_.height * out_.width), row = pixel / out_.width % out_.height,
                column = pixel % out_.width;
  const int64_t top = row * desc_.stride_h - desc_.pad_h, left = column * desc_.stride_w - desc_.pad_w;
  const int64_t begin = std::clamp(-left, int64_t{0}, desc_.kernel_w) * in_.channels;
  const int64_t end = std::clamp(in_.width - left, int64_t{0}, desc_.kernel_w) * in_.channels;
  const int64_t line = desc_.kernel_w * in_.channels;
  for (int64_t h = 0; h < desc_.kernel_h; ++h, to += line) {
    const int64_t y = top + h;
    if (y < 0 || y >= in_.height || begin >= end) {
      std::memset(to, 0, line * sizeof(BFloat16));
      continue;
    }
    if (begin > 0) std::memset(to, 0, begin * sizeof(BFloat16));
    CopyRun(x + ((image * in_.height + y) * in_.width + left) * in_.channels + begin, end - begin, to + begin);
    if (end < line) std::memset(to + end, 0, (line - end) * sizeof(BFloat16));
  }
}

void WindowGradient::StoreGradient(const float* sums, bool add, float* d_weights) const {
#pragma omp parallel for schedule(static) if (out_.channels * columns_ > kSerialElements)
  for (int64_t o = 0; o < out_.channels; ++o) {
    const float* const from = sums + o * columns_;
    float* const to = d_weights + o * columns_;
    for (int64_t c = 0; c < in_.channels; ++c) {
      for (int64_t w = 0; w < window_; ++w) {
        const float sum = from[w * in_.channels + c];
        to[c * window_ + w] = add ? to[c * window_ + w] + sum : sum;
      }
    }
  }
}

}  // namespace hp::onednn
