// Writes FOLDER/NAME.jpg for every kind of JPEG that libjpeg writes and OpenCV does not:   write_test_jpegs FOLDER
// jpeglib.h needs size_t and FILE of whoever includes it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr JDIMENSION kWidth = 61, kHeight = 43;  // no multiples of a block, nor of two

struct Kind {
  const char* name;
  J_COLOR_SPACE from, stored;
  int channels;
  int horizontal, vertical;  // sampling of the first channel, and of the fourth
  bool progressive = false, arithmetic = false;
  unsigned restart = 0;  // in blocks
  int quality = 90;
};

const Kind kKinds[] = {
    {"444", JCS_RGB, JCS_YCbCr, 3, 1, 1},
    {"422", JCS_RGB, JCS_YCbCr, 3, 2, 1},
    {"420", JCS_RGB, JCS_YCbCr, 3, 2, 2},
    {"440", JCS_RGB, JCS_YCbCr, 3, 1, 2},
    {"411", JCS_RGB, JCS_YCbCr, 3, 4, 1},
    {"444_progressive", JCS_RGB, JCS_YCbCr, 3, 1, 1, true},
    {"422_progressive", JCS_RGB, JCS_YCbCr, 3, 2, 1, true},
    {"420_progressive_restart", JCS_RGB, JCS_YCbCr, 3, 2, 2, true, false, 3},
    {"420_arithmetic", JCS_RGB, JCS_YCbCr, 3, 2, 2, false, true},
    {"422_restart", JCS_RGB, JCS_YCbCr, 3, 2, 1, false, false, 2},
    {"420_coarse", JCS_RGB, JCS_YCbCr, 3, 2, 2, false, false, 0, 7},
    {"rgb", JCS_RGB, JCS_RGB, 3, 1, 1},
    {"gray", JCS_GRAYSCALE, JCS_GRAYSCALE, 1, 1, 1},
    {"gray_progressive", JCS_GRAYSCALE, JCS_GRAYSCALE, 1, 1, 1, true},
    {"cmyk", JCS_CMYK, JCS_CMYK, 4, 1, 1},
    {"ycck", JCS_CMYK, JCS_YCCK, 4, 1, 1},
    {"ycck_420_progressive", JCS_CMYK, JCS_YCCK, 4, 2, 2, true},
    {"two_channels", JCS_UNKNOWN, JCS_UNKNOWN, 2, 1, 1},
};

// Waves with noise on them: smooth parts and edges.
void FillRow(const Kind& kind, JDIMENSION y, unsigned* noise, std::vector<JSAMPLE>* row) {
  row->clear();
  for (JDIMENSION x = 0; x < kWidth; ++x) {
    for (int c = 0; c < kind.channels; ++c) {
      *noise = *noise * 1103515245 + 12345;
      const double wave = std::sin(0.11 * (c + 1) * x + 0.07 * y) + ((x / 9 + y / 7 + c) % 3 == 0 ? 0.6 : 0);
      row->push_back(static_cast<JSAMPLE>(std::fmod(128 + 70 * wave + (*noise >> 27) + 256, 256)));
    }
  }
}

// An error of libjpeg's ends the program.
void Write(const Kind& kind, const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::exit(2);
  jpeg_error_mgr errors;
  jpeg_compress_struct codec = {};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  jpeg_stdio_dest(&codec, file);
  codec.image_width = kWidth;
  codec.image_height = kHeight;
  codec.input_components = kind.channels;
  codec.in_color_space = kind.from;
  jpeg_set_defaults(&codec);
  jpeg_set_colorspace(&codec, kind.stored);
  jpeg_set_quality(&codec, kind.quality, TRUE);
  for (const int c : {0, 3}) {
    if (c >= kind.channels) continue;
    codec.comp_info[c].h_samp_factor = kind.horizontal;
    codec.comp_info[c].v_samp_factor = kind.vertical;
  }
  if (kind.progressive) jpeg_simple_progression(&codec);
  codec.arith_code = kind.arithmetic ? TRUE : FALSE;
  codec.restart_interval = kind.restart;
  jpeg_start_compress(&codec, TRUE);
  std::vector<JSAMPLE> row;
  unsigned noise = 1;
  while (codec.next_scanline < kHeight) {
    FillRow(kind, codec.next_scanline, &noise, &row);
    JSAMPROW pixels = row.data();
    jpeg_write_scanlines(&codec, &pixels, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const Kind& kind : kKinds) Write(kind, std::string(argv[1]) + "/" + kind.name + ".jpg");
  return 0;
}
