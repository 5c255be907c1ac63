// libjpeg's own interface and not TurboJPEG's: that one refuses JPEGs of unusual subsampling, decodes no CMYK to gray
// and hides the EXIF segments.
#include "data/image_jpeg.h"

#include "data/image_exif.h"
#include "data/image_header.h"

// jpeglib.h needs size_t and FILE of whoever includes it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <new>
#include <utility>

namespace hp {
namespace {

constexpr int kJpegQuality = 95;
constexpr int kExifMarker = JPEG_APP0 + 1;

// libjpeg has us end its functions by longjmp after an error: an exception would pass through frames of C.
struct JpegErrors : jpeg_error_mgr {
  jmp_buf escape;
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void OnJpegError(j_common_ptr codec) {
  auto* errors = static_cast<JpegErrors*>(codec->err);
  errors->format_message(codec, errors->message);
  longjmp(errors->escape, 1);
}

void DropJpegWarning(j_common_ptr) {}

// Runs a step that calls libjpeg. @return whether it went through; errors->message says what did not. longjmp skips
// destructors, so a step has nothing that needs one: what it allocates belongs to `task`.
template <typename Task>
bool TryJpeg(void (*step)(Task*), Task* task) {
  if (setjmp(task->errors.escape) != 0) return false;
  step(task);
  return true;
}

template <typename Codec>
void ReportErrors(JpegErrors* errors, Codec* codec) {
  codec->err = jpeg_std_error(errors);
  errors->error_exit = OnJpegError;
  errors->output_message = DropJpegWarning;
}

struct JpegDecoding {
  JpegDecoding() { ReportErrors(&errors, &codec); }
  ~JpegDecoding() { jpeg_destroy_decompress(&codec); }
  JpegDecoding(const JpegDecoding&) = delete;
  JpegDecoding& operator=(const JpegDecoding&) = delete;

  JpegErrors errors;
  jpeg_decompress_struct codec = {};
  std::string_view bytes;
  DecodedPart part;
};

void ReadJpegHeader(JpegDecoding* decoding) {
  jpeg_decompress_struct* codec = &decoding->codec;
  jpeg_create_decompress(codec);
  jpeg_mem_src(codec, reinterpret_cast<const unsigned char*>(decoding->bytes.data()), decoding->bytes.size());
  jpeg_save_markers(codec, kExifMarker, 0xFFFF);
  jpeg_read_header(codec, TRUE);
}

// Inverted CMYK, as Adobe's programs write it. OpenCV's formulas, in its integers. `bgr` may be `cmyk`.
void CmykToBgr(const JSAMPLE* cmyk, int width, JSAMPLE* bgr) {
  for (int x = 0; x < width; ++x, cmyk += 4, bgr += 3) {
    const int c = cmyk[0], m = cmyk[1], y = cmyk[2], k = cmyk[3];  // all before any is overwritten
    bgr[0] = static_cast<JSAMPLE>(k - ((255 - y) * k >> 8));
    bgr[1] = static_cast<JSAMPLE>(k - ((255 - m) * k >> 8));
    bgr[2] = static_cast<JSAMPLE>(k - ((255 - c) * k >> 8));
  }
}

// 0.299 R + 0.587 G + 0.114 B in units of 1 / 2^14.
void BgrToGray(const JSAMPLE* bgr, int width, JSAMPLE* gray) {
  for (int x = 0; x < width; ++x, bgr += 3) {
    gray[x] = static_cast<JSAMPLE>((1868 * bgr[0] + 9617 * bgr[1] + 4899 * bgr[2] + (1 << 13)) >> 14);
  }
}

// As much of the image as a part needs: a block more on each side, since chroma of fewer samples is smoothed with its
// neighbours and the edge of what is decoded has none. Columns begin with a block, as libjpeg's do.
DecodedPart AroundPart(const jpeg_decompress_struct& codec, const ImagePart& part) {
  const int height = static_cast<int>(codec.image_height), width = static_cast<int>(codec.image_width);
  const int rows = DCTSIZE * codec.max_v_samp_factor, columns = DCTSIZE * codec.max_h_samp_factor;
  DecodedPart around;
  around.height = height;
  around.width = width;
  around.top = std::max(0, part.top - rows);
  around.left = std::max(0, part.left - columns) / columns * columns;
  around.image.height = part.top + part.height - around.top;
  around.image.width = std::min(width, part.left + part.width + columns) - around.left;
  return around;
}

// libjpeg converts between all color spaces but from CMYK.
void ReadJpegPixels(JpegDecoding* decoding) {
  jpeg_decompress_struct* codec = &decoding->codec;
  Image& image = decoding->part.image;
  const bool cmyk = codec->num_components == 4;
  codec->out_color_space = cmyk ? JCS_CMYK : image.channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
  jpeg_start_decompress(codec);
  JDIMENSION left = decoding->part.left, width = image.width;
  if (width < codec->output_width) jpeg_crop_scanline(codec, &left, &width);
  const JDIMENSION top = decoding->part.top;
  if (top > 0) jpeg_skip_scanlines(codec, top);
  const size_t row_bytes = static_cast<size_t>(width) * image.channels;
  const auto common = reinterpret_cast<j_common_ptr>(codec);
  JSAMPARRAY cmyk_row = cmyk ? codec->mem->alloc_sarray(common, JPOOL_IMAGE, 4 * width, 1) : nullptr;
  while (codec->output_scanline < top + image.height) {
    JSAMPROW row = image.pixels.data() + (codec->output_scanline - top) * row_bytes;
    jpeg_read_scanlines(codec, cmyk ? cmyk_row : &row, 1);
    if (!cmyk) continue;
    JSAMPROW bgr = image.channels == 3 ? row : cmyk_row[0];  // three bytes of a pixel never overtake its four
    CmykToBgr(cmyk_row[0], static_cast<int>(width), bgr);
    if (image.channels == 1) BgrToGray(bgr, static_cast<int>(width), row);
  }
}

// By the first segment APP1 alone, like OpenCV: pixels must not depend on the version of hpnode.
int JpegOrientation(const jpeg_decompress_struct& codec) {
  const jpeg_marker_struct* marker = codec.marker_list;  // no others are saved
  if (marker == nullptr || marker->data_length <= kExifPrefix) return 1;
  const std::string_view segment(reinterpret_cast<const char*>(marker->data), marker->data_length);
  return ExifOrientation(segment.substr(kExifPrefix)).value_or(1);
}

// Collects the encoder's bytes.
struct JpegSink : jpeg_destination_mgr {
  std::string bytes;
  std::array<JOCTET, 1 << 14> block;
  bool out_of_memory = false;
};

void AppendJpegBytes(j_compress_ptr codec, size_t count) {
  auto* sink = static_cast<JpegSink*>(codec->dest);
  try {
    sink->bytes.append(reinterpret_cast<const char*>(sink->block.data()), count);
  } catch (const std::bad_alloc&) {
    sink->out_of_memory = true;
  }
  if (sink->out_of_memory) longjmp(static_cast<JpegErrors*>(codec->err)->escape, 1);
}

void BeginJpegBlock(j_compress_ptr codec) {
  auto* sink = static_cast<JpegSink*>(codec->dest);
  sink->next_output_byte = sink->block.data();
  sink->free_in_buffer = sink->block.size();
}

void EndJpegBlock(j_compress_ptr codec) {
  AppendJpegBytes(codec, static_cast<JpegSink*>(codec->dest)->block.size() - codec->dest->free_in_buffer);
}

// A full block: libjpeg leaves free_in_buffer behind, so it does not count here.
boolean NextJpegBlock(j_compress_ptr codec) {
  AppendJpegBytes(codec, static_cast<JpegSink*>(codec->dest)->block.size());
  BeginJpegBlock(codec);
  return TRUE;
}

struct JpegEncoding {
  explicit JpegEncoding(const Image* source) : image(source) {
    ReportErrors(&errors, &codec);
    sink.init_destination = BeginJpegBlock;
    sink.empty_output_buffer = NextJpegBlock;
    sink.term_destination = EndJpegBlock;
  }
  ~JpegEncoding() { jpeg_destroy_compress(&codec); }
  JpegEncoding(const JpegEncoding&) = delete;
  JpegEncoding& operator=(const JpegEncoding&) = delete;

  JpegErrors errors;
  jpeg_compress_struct codec = {};
  JpegSink sink;
  const Image* image;
};

void WriteJpeg(JpegEncoding* encoding) {
  jpeg_compress_struct* codec = &encoding->codec;
  const Image& image = *encoding->image;
  jpeg_create_compress(codec);
  codec->dest = &encoding->sink;
  codec->image_width = static_cast<JDIMENSION>(image.width);
  codec->image_height = static_cast<JDIMENSION>(image.height);
  codec->input_components = image.channels;
  codec->in_color_space = image.channels == 1 ? JCS_GRAYSCALE : image.channels == 3 ? JCS_EXT_BGR : JCS_EXT_BGRX;
  jpeg_set_defaults(codec);
  jpeg_set_quality(codec, kJpegQuality, TRUE);
  jpeg_start_compress(codec, TRUE);
  const size_t row_bytes = static_cast<size_t>(image.width) * image.channels;
  while (codec->next_scanline < codec->image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.pixels.data() + codec->next_scanline * row_bytes);
    jpeg_write_scanlines(codec, &row, 1);
  }
  jpeg_finish_compress(codec);
}

}  // namespace

StatusOr<DecodedPart> DecodeJpeg(std::string_view bytes, ImageColor color, const ChoosePart& choose) {
  JpegDecoding decoding;
  decoding.bytes = bytes;
  if (!TryJpeg(ReadJpegHeader, &decoding)) return DataLoss("cannot decode the image: %s", decoding.errors.message);
  const jpeg_decompress_struct& codec = decoding.codec;
  HP_RETURN_IF_ERROR(CheckDeclaredPixels(int64_t{codec.image_width} * codec.image_height, bytes.size()));
  const int height = static_cast<int>(codec.image_height), width = static_cast<int>(codec.image_width);
  const int orientation = color == ImageColor::kAsStored ? 1 : JpegOrientation(codec);
  DecodedPart& part = decoding.part;
  part = AroundPart(codec, orientation == 1 ? choose(height, width) : ImagePart{0, 0, height, width});
  Image& image = part.image;
  image.channels = color == ImageColor::kGray || (color == ImageColor::kAsStored && codec.num_components == 1) ? 1 : 3;
  image.pixels.resize(static_cast<size_t>(image.height) * image.width * image.channels);
  if (!TryJpeg(ReadJpegPixels, &decoding)) return DataLoss("cannot decode the image: %s", decoding.errors.message);
  if (orientation != 1) {
    image = TurnUpright(std::move(image), orientation);
    part.height = image.height;
    part.width = image.width;
  }
  return std::move(part);
}

StatusOr<std::string> EncodeJpeg(const Image& image) {
  JpegEncoding encoding(&image);
  const bool encoded = TryJpeg(WriteJpeg, &encoding);
  if (encoding.sink.out_of_memory) return ResourceExhausted("out of memory: encoding an image");
  if (!encoded) return InvalidArgument("cannot encode the image: %s", encoding.errors.message);
  return std::move(encoding.sink.bytes);
}

}  // namespace hp
