// libpng's classic interface: its simplified one composes alpha and converts by gamma.
#include "data/image_png.h"

#include "data/image_exif.h"
#include "data/image_header.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr double kRedWeight = 0.299, kGreenWeight = 0.587;
constexpr int kGrayWithoutWarning = 1;               // of png_set_rgb_to_gray, for color images
constexpr int kFastestDeflate = 1, kRunLengths = 3;  // zlib's Z_BEST_SPEED and Z_RLE

struct PngMessage {
  char text[256] = "";
};

// libpng has us end its functions by longjmp after an error: an exception would pass through frames of C.
[[noreturn]] void OnPngError(png_structp png, png_const_charp text) {
  auto* message = static_cast<PngMessage*>(png_get_error_ptr(png));
  std::snprintf(message->text, sizeof message->text, "%s", text);
  png_longjmp(png, 1);
}

void DropPngWarning(png_structp, png_const_charp) {}

// Runs a step that calls libpng. @return whether it went through; task->message says what did not. longjmp skips
// destructors, so a step has nothing that needs one: what it allocates belongs to `task`.
template <typename Task>
bool TryPng(void (*step)(Task*), Task* task) {
  if (setjmp(png_jmpbuf(task->png)) != 0) return false;
  step(task);
  return true;
}

struct PngDecoding {
  explicit PngDecoding(std::string_view encoded) : rest(encoded) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &message, OnPngError, DropPngWarning);
    if (png != nullptr) info = png_create_info_struct(png);
    if (info != nullptr) end = png_create_info_struct(png);
  }
  ~PngDecoding() { png_destroy_read_struct(&png, &info, &end); }
  PngDecoding(const PngDecoding&) = delete;
  PngDecoding& operator=(const PngDecoding&) = delete;

  PngMessage message;
  png_structp png = nullptr;
  png_infop info = nullptr, end = nullptr;  // what stands in front of the pixels, and behind them
  std::string_view rest;                    // not read yet
  Image image;
  std::vector<png_bytep> rows;  // of image.pixels
};

void ReadPngBytes(png_structp png, png_bytep to, size_t size) {
  auto* rest = static_cast<std::string_view*>(png_get_io_ptr(png));
  if (size > rest->size()) png_error(png, "premature end of the PNG file");
  std::memcpy(to, rest->data(), size);
  rest->remove_prefix(size);
}

void ReadPngHeader(PngDecoding* decoding) {
  png_set_read_fn(decoding->png, &decoding->rest, ReadPngBytes);
  png_read_info(decoding->png, decoding->info);
}

// libpng carries the conversions out in an order of its own.
void ConvertPngPixels(png_structp png, png_infop info, int channels) {
  const int stored = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
  const bool color = (stored & PNG_COLOR_MASK_COLOR) != 0;
  if (depth == 16) png_set_strip_16(png);
  if (channels == 4) {
    png_set_tRNS_to_alpha(png);
  } else {
    png_set_strip_alpha(png);
  }
  if (stored == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (!color && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (channels == 1) {
    png_set_rgb_to_gray(png, kGrayWithoutWarning, kRedWeight, kGreenWeight);
  } else if (color) {
    png_set_bgr(png);
  } else {
    png_set_gray_to_rgb(png);
  }
  png_set_interlace_handling(png);
}

void ReadPngPixels(PngDecoding* decoding) {
  const png_structp png = decoding->png;
  const Image& image = decoding->image;
  ConvertPngPixels(png, decoding->info, image.channels);
  png_read_update_info(png, decoding->info);
  // libpng writes as many bytes as it says here.
  if (png_get_rowbytes(png, decoding->info) != static_cast<size_t>(image.width) * image.channels) {
    png_error(png, "a row has an unexpected size");
  }
  png_read_image(png, decoding->rows.data());
  png_read_end(png, decoding->end);
}

int PngChannelsAsStored(png_structp png, png_infop info) {
  const int stored = png_get_color_type(png, info);
  if ((stored & PNG_COLOR_MASK_ALPHA) != 0) return 4;
  if ((stored & PNG_COLOR_MASK_COLOR) == 0) return 1;
  return png_get_valid(png, info, PNG_INFO_tRNS) != 0 ? 4 : 3;
}

void MakePngImage(int channels, PngDecoding* decoding) {
  Image& image = decoding->image;
  image.height = static_cast<int>(png_get_image_height(decoding->png, decoding->info));
  image.width = static_cast<int>(png_get_image_width(decoding->png, decoding->info));
  image.channels = channels;
  const size_t row_bytes = static_cast<size_t>(image.width) * channels;
  image.pixels.resize(row_bytes * image.height);
  for (int y = 0; y < image.height; ++y) decoding->rows.push_back(image.pixels.data() + y * row_bytes);
}

int PngOrientation(const PngDecoding& decoding) {
  for (const png_infop place : {decoding.info, decoding.end}) {
    png_uint_32 size = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(decoding.png, place, &size, &exif) == 0) continue;
    return ExifOrientation({reinterpret_cast<const char*>(exif), size}).value_or(1);
  }
  return 1;
}

struct PngEncoding {
  explicit PngEncoding(const Image* source) : image(source) {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &message, OnPngError, DropPngWarning);
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~PngEncoding() { png_destroy_write_struct(&png, &info); }
  PngEncoding(const PngEncoding&) = delete;
  PngEncoding& operator=(const PngEncoding&) = delete;

  PngMessage message;
  png_structp png = nullptr;
  png_infop info = nullptr;
  const Image* image;
  std::string bytes;
  bool out_of_memory = false;
};

void WritePngBytes(png_structp png, png_bytep from, size_t size) {
  auto* encoding = static_cast<PngEncoding*>(png_get_io_ptr(png));
  try {
    encoding->bytes.append(reinterpret_cast<const char*>(from), size);
  } catch (const std::bad_alloc&) {
    encoding->out_of_memory = true;
  }
  if (encoding->out_of_memory) png_error(png, "out of memory");
}

void WritePng(PngEncoding* encoding) {
  const png_structp png = encoding->png;
  const Image& image = *encoding->image;
  png_set_write_fn(png, encoding, WritePngBytes, nullptr);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
  png_set_compression_level(png, kFastestDeflate);
  png_set_compression_strategy(png, kRunLengths);
  const int color = image.channels == 1   ? PNG_COLOR_TYPE_GRAY
                    : image.channels == 3 ? PNG_COLOR_TYPE_RGB
                                          : PNG_COLOR_TYPE_RGB_ALPHA;
  png_set_IHDR(png, encoding->info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
               color, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, encoding->info);
  png_set_bgr(png);
  const size_t row_bytes = static_cast<size_t>(image.width) * image.channels;
  for (int y = 0; y < image.height; ++y) png_write_row(png, image.pixels.data() + y * row_bytes);
  png_write_end(png, encoding->info);
}

}  // namespace

StatusOr<Image> DecodePng(std::string_view bytes, ImageColor color) {
  // libpng takes memory for a chunk by the length that it says, up to 2 GB, before it finds the file to be shorter.
  if (!PngChunksFit(bytes)) return DataLoss("cannot decode the image: premature end of the PNG file");
  PngDecoding decoding(bytes);
  if (decoding.end == nullptr) return ResourceExhausted("libpng has no memory to decode an image");
  if (!TryPng(ReadPngHeader, &decoding)) return DataLoss("cannot decode the image: %s", decoding.message.text);
  // Not only by the caller: libpng passes over unknown chunks in front of the header.
  const int64_t width = png_get_image_width(decoding.png, decoding.info);
  HP_RETURN_IF_ERROR(CheckDeclaredPixels(width * png_get_image_height(decoding.png, decoding.info), bytes.size()));
  const bool as_stored = color == ImageColor::kAsStored;
  if (as_stored && png_get_bit_depth(decoding.png, decoding.info) > 8) {
    return InvalidArgument("the image has more than 8 bits per channel");
  }
  MakePngImage(as_stored                    ? PngChannelsAsStored(decoding.png, decoding.info)
               : color == ImageColor::kGray ? 1
                                            : 3,
               &decoding);
  if (!TryPng(ReadPngPixels, &decoding)) return DataLoss("cannot decode the image: %s", decoding.message.text);
  return as_stored ? std::move(decoding.image) : TurnUpright(std::move(decoding.image), PngOrientation(decoding));
}

StatusOr<std::string> EncodePng(const Image& image) {
  PngEncoding encoding(&image);
  if (encoding.info == nullptr) return ResourceExhausted("libpng has no memory to encode an image");
  const bool encoded = TryPng(WritePng, &encoding);
  if (encoding.out_of_memory) return ResourceExhausted("out of memory: encoding an image");
  if (!encoded) return InvalidArgument("cannot encode the image: %s", encoding.message.text);
  return std::move(encoding.bytes);
}

}  // namespace hp
