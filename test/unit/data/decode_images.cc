// Decodes image files with data/image.h for a program that compares:   decode_images FILE ...
// Prints a line for each file and color, "FILE COLOR HEIGHT WIDTH CHANNELS", whose pixels go to FILE.COLOR; or
// "FILE COLOR error CODE: MESSAGE". What was decoded as stored is encoded anew, to FILE.stored.png and FILE.stored.jpg.
#include "data/image.h"

#include <fstream>
#include <iostream>
#include <string>

namespace {

void WriteBytes(const std::string& path, const void* bytes, size_t size) {
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}

void Decode(const std::string& path, const std::string& name, hp::ImageColor color) {
  const auto image = hp::ReadImageFile(path, color, 0, 0);
  std::cout << path << " " << name << " ";
  if (!image.ok()) {
    std::cout << "error " << image.status() << "\n";
    return;
  }
  std::cout << image->height << " " << image->width << " " << image->channels << "\n";
  WriteBytes(path + "." + name, image->pixels.data(), image->pixels.size());
  if (color != hp::ImageColor::kAsStored) return;
  for (const std::string extension : {"png", "jpg"}) {
    const auto bytes = hp::EncodeImage(*image, extension);
    if (bytes.ok()) WriteBytes(path + ".stored." + extension, bytes->data(), bytes->size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    Decode(argv[i], "stored", hp::ImageColor::kAsStored);
    Decode(argv[i], "gray", hp::ImageColor::kGray);
    Decode(argv[i], "color", hp::ImageColor::kColor);
  }
  return 0;
}
