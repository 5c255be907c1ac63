// A record is viewed in place (raw bytes, floats) or decoded into an interleaved image; one pass over its rows then
// crops, mirrors, subtracts the mean and scales. Random numbers are the first words of Philox counter `sample`: word 0
// decides about the mirror, words 1 and 2 are the place of the crop.
#include "data/transformer.h"

#include "base/format.h"
#include "base/philox.h"
#include "data/image.h"
#include "proto/caffe.pb.h"

#include "glog/logging.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

namespace hp {
namespace {

template <int64_t kValue>
using Constant = std::integral_constant<int64_t, kValue>;

// A word as an integer in [0, n), each as likely to within n / 2^32.
int64_t Below(uint32_t word, int64_t n) { return static_cast<int64_t>(static_cast<uint64_t>(word) * n >> 32); }

// One row: out[w] = (in[w * step] - mean[w]) * scale, from right to left where `mirror`. Turned around at the end: with
// an index that falls g++ makes no vectors of it.
// @tparam Step a constant, for vectors, or int64_t.
template <typename Pixel, typename Step>
void FillRow(const Pixel* __restrict in, Step step, const float* __restrict mean, float mean_value, float scale,
             int64_t width, bool mirror, float* __restrict out) {
  for (int64_t w = 0; w < width; ++w) {
    out[w] = (static_cast<float>(in[w * step]) - (mean != nullptr ? mean[w] : mean_value)) * scale;
  }
  if (mirror) std::reverse(out, out + width);
}

ImagePart All(int height, int width) { return {0, 0, height, width}; }

std::string ShapeText(int64_t channels, int64_t height, int64_t width) {
  return Shape({channels, height, width}).ToString();
}

}  // namespace

// A record's pixels where they lie: bytes [C, H, W] of a raw Datum, floats, or of an encoded one a decoded part with
// bytes [H, W, C].
struct Transformer::Source {
  int64_t channels = 0, height = 0, width = 0;  // of the whole image
  const uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  std::optional<DecodedPart> decoded;
};

struct Transformer::Choice {
  int64_t top = 0, left = 0;
  bool mirror = false;
};

Transformer::Transformer(TransformOptions options, bool train, uint64_t stream_key)
    : options_(std::move(options)), train_(train), stream_key_(stream_key) {}

StatusOr<std::unique_ptr<Transformer>> Transformer::Create(TransformOptions options, bool train, uint64_t seed,
                                                           std::string_view layer, const caffe::Datum& first,
                                                           const std::string& where) {
  auto transformer =
      std::unique_ptr<Transformer>(new Transformer(std::move(options), train, StreamKey(seed, layer, "transform")));
  const TransformOptions& checked = transformer->options_;
  Source source;
  if (const Status status = transformer->View(first, All, &source); !status.ok()) return status.Prepend(where);
  const int64_t channels = source.channels, crop = checked.crop_size;
  const std::string shape = ShapeText(channels, source.height, source.width);
  if (crop > source.height || crop > source.width) {
    return InvalidArgument("crop_size %lld is larger than %s, which has the shape %s", static_cast<long long>(crop),
                           where.c_str(), shape.c_str());
  }
  const size_t values = checked.mean_value.size();
  if (values > 1 && static_cast<int64_t>(values) != channels) {
    return InvalidArgument("%zu mean_value entries, but %s has %lld channel(s); expected 1%s", values, where.c_str(),
                           static_cast<long long>(channels),
                           channels == 1 ? "" : Format(" or %lld", static_cast<long long>(channels)).c_str());
  }
  if (checked.mean.shape.rank() != 0 && checked.mean.shape != Shape({channels, source.height, source.width})) {
    return InvalidArgument("mean_file has the shape %s, but %s has %s", checked.mean.shape.ToString().c_str(),
                           where.c_str(), shape.c_str());
  }
  transformer->output_shape_ =
      crop > 0 ? Shape({channels, crop, crop}) : Shape({channels, source.height, source.width});
  for (int64_t c = 0; c < channels; ++c) {
    transformer->channel_means_.push_back(values == 0 ? 0 : checked.mean_value[values == 1 ? 0 : c]);
  }
  return transformer;
}

Transformer::Choice Transformer::Choose(uint64_t sample, int64_t height, int64_t width) const {
  const auto random = Philox4x32(stream_key_, 0, sample);
  const int64_t spare_h = height - output_shape_[1], spare_w = width - output_shape_[2];
  return {train_ ? Below(random[1], spare_h + 1) : spare_h / 2, train_ ? Below(random[2], spare_w + 1) : spare_w / 2,
          options_.mirror && (random[0] >> 31) != 0};
}

Status Transformer::View(const caffe::Datum& datum, const ChoosePart& choose, Source* source) const {
  if (datum.encoded()) {
    const ImageColor color = options_.force_color  ? ImageColor::kColor
                             : options_.force_gray ? ImageColor::kGray
                                                   : ImageColor::kAsStored;
    HP_ASSIGN_OR_RETURN(source->decoded,
                        DecodeImagePart(datum.data(), color, options_.resize_height > 0 ? All : choose));
    DecodedPart& part = *source->decoded;
    if (options_.resize_height > 0) {
      HP_ASSIGN_OR_RETURN(part.image,
                          ResizeImage(std::move(part.image), options_.resize_height, options_.resize_width));
      part.height = part.image.height;
      part.width = part.image.width;
    }
    source->channels = part.image.channels;
    source->height = part.height;
    source->width = part.width;
    return OkStatus();
  }
  source->channels = datum.channels();
  source->height = datum.height();
  source->width = datum.width();
  const bool bytes = !datum.data().empty();
  const int64_t found = bytes ? static_cast<int64_t>(datum.data().size()) : datum.float_data_size();
  if (source->channels <= 0 || source->height <= 0 || source->width <= 0 ||
      // In an order that can't overflow.
      found % source->channels != 0 || found / source->channels != source->height * source->width) {
    return DataLoss("has the shape %s and %lld %s", ShapeText(source->channels, source->height, source->width).c_str(),
                    static_cast<long long>(found), bytes ? "bytes" : "floats");
  }
  if (bytes) {
    source->bytes = reinterpret_cast<const uint8_t*>(datum.data().data());
  } else {
    source->floats = datum.float_data().data();
  }
  return OkStatus();
}

bool Transformer::Fits(int64_t height, int64_t width) const {
  if (free_size()) return height >= options_.crop_size && width >= options_.crop_size;
  return height == whole_shape()[1] && width == whole_shape()[2];
}

Status Transformer::CheckShape(const Source& source) const {
  const bool fits = Fits(source.height, source.width);
  if (source.channels == output_shape_[0] && fits) return OkStatus();
  return InvalidArgument("has the shape %s, expected %s%s%s",
                         ShapeText(source.channels, source.height, source.width).c_str(),
                         whole_shape().ToString().c_str(), free_size() ? " or larger" : "",
                         fits ? options_.channels_advice.c_str() : options_.size_advice.c_str());
}

Status Transformer::ViewOf(const caffe::Datum& datum, uint64_t sample, Source* source) const {
  const auto height = static_cast<int>(output_shape_[1]), width = static_cast<int>(output_shape_[2]);
  const ChoosePart crop = [&](int whole_height, int whole_width) {
    if (whole_height < height || whole_width < width) return All(whole_height, whole_width);  // CheckShape refuses it
    const Choice choice = Choose(sample, whole_height, whole_width);
    return ImagePart{static_cast<int>(choice.top), static_cast<int>(choice.left), height, width};
  };
  HP_RETURN_IF_ERROR(View(datum, crop, source));
  return CheckShape(*source);
}

Status Transformer::Transform(const caffe::Datum& datum, uint64_t sample, float* out) const {
  Source source;
  HP_RETURN_IF_ERROR(ViewOf(datum, sample, &source));
  Fill(source, Choose(sample, source.height, source.width), out);
  return OkStatus();
}

bool Transformer::HasBytes(const caffe::Datum& datum) { return datum.encoded() || !datum.data().empty(); }

Status Transformer::TakeRaw(const caffe::Datum& datum, uint64_t sample, RawImage* image, uint8_t* out) const {
  Source source;
  HP_RETURN_IF_ERROR(ViewOf(datum, sample, &source));
  const Choice choice = Choose(sample, source.height, source.width);
  const int64_t height = output_shape_[1], width = output_shape_[2];
  *image = {static_cast<int32_t>(choice.top), static_cast<int32_t>(choice.left), choice.mirror ? 1 : 0,
            source.decoded ? 1 : 0};
  if (source.decoded) {
    const Image& decoded = source.decoded->image;
    const int64_t top = choice.top - source.decoded->top, left = choice.left - source.decoded->left;
    for (int64_t h = 0; h < height; ++h, out += width * decoded.channels) {
      std::copy_n(decoded.pixels.data() + ((top + h) * decoded.width + left) * decoded.channels,
                  width * decoded.channels, out);
    }
    return OkStatus();
  }
  CHECK(source.bytes != nullptr);
  for (int64_t c = 0; c < source.channels; ++c) {
    for (int64_t h = 0; h < height; ++h, out += width) {
      std::copy_n(source.bytes + (c * source.height + choice.top + h) * source.width + choice.left, width, out);
    }
  }
  return OkStatus();
}

// Neither turned to gray nor resized, which a device does not do.
bool Transformer::TakesEncoded() const {
  return output_shape_[0] == 3 && !options_.force_gray && options_.resize_height == 0;
}

std::optional<ImageSize> Transformer::EncodedSize(const caffe::Datum& datum) const {
  const auto most_bytes = static_cast<size_t>(output_shape_.count());
  if (!TakesEncoded() || !datum.encoded() || datum.data().size() > most_bytes) return std::nullopt;
  const std::optional<ImageSize> size = PlainJpegSize(datum.data());
  if (!size || !Fits(size->height, size->width)) return std::nullopt;
  const int64_t pixels = int64_t{size->height} * size->width;
  if (pixels > kMostCrops * output_shape_[1] * output_shape_[2]) return std::nullopt;
  return size;
}

bool Transformer::TakeEncoded(const caffe::Datum& datum, uint64_t sample, RawImage* image, uint8_t* out) const {
  const std::optional<ImageSize> size = EncodedSize(datum);
  if (!size) return false;
  const Choice choice = Choose(sample, size->height, size->width);
  *image = {.top = static_cast<int32_t>(choice.top),
            .left = static_cast<int32_t>(choice.left),
            .mirrored = choice.mirror ? 1 : 0,
            .channels_inside = 1,
            .encoded_bytes = static_cast<int32_t>(datum.data().size()),
            .whole_height = size->height,
            .whole_width = size->width};
  std::copy(datum.data().begin(), datum.data().end(), out);
  return true;
}

int64_t Transformer::whole_bytes() const {
  if (!TakesEncoded()) return 0;
  const int64_t most = kMostCrops * output_shape_.count();
  if (free_size()) return most;
  const int64_t whole = whole_shape().count();
  return whole <= most ? whole : 0;
}

RawImageRule Transformer::rule() const {
  RawImageRule rule{output_shape_[0], output_shape_[1], output_shape_[2], options_.scale, channel_means_.data()};
  if (options_.mean.data.empty()) return rule;
  rule.mean = options_.mean.data.data();
  rule.mean_height = options_.mean.shape[1];
  rule.mean_width = options_.mean.shape[2];
  return rule;
}

Status Transformer::Check(const caffe::Datum& datum) const {
  Source source;
  HP_RETURN_IF_ERROR(View(datum, All, &source));
  return CheckShape(source);
}

void Transformer::Fill(const Source& source, const Choice& choice, float* out) const {
  const int64_t top = choice.top, left = choice.left;
  const int64_t height = output_shape_[1], width = output_shape_[2];
  for (int64_t c = 0; c < source.channels; ++c) {
    for (int64_t h = 0; h < height; ++h, out += width) {
      const int64_t row = c * source.height + top + h;  // of a planar image
      const float* mean = options_.mean.data.empty() ? nullptr : options_.mean.data.data() + row * source.width + left;
      const auto fill = [&](const auto* in, auto step) {
        FillRow(in, step, mean, channel_means_[c], options_.scale, width, choice.mirror, out);
      };
      if (source.floats != nullptr) {
        fill(source.floats + row * source.width + left, Constant<1>());
      } else if (!source.decoded) {
        fill(source.bytes + row * source.width + left, Constant<1>());
      } else {
        const Image& image = source.decoded->image;
        const int64_t pixel = (top + h - source.decoded->top) * image.width + left - source.decoded->left;
        const uint8_t* const in = image.pixels.data() + pixel * image.channels + c;
        image.channels == 3 ? fill(in, Constant<3>()) : fill(in, source.channels);
      }
    }
  }
}

}  // namespace hp
