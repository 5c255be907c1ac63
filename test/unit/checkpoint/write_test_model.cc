// Writes NET.caffemodel from NET.prototxt and blobs given as raw float32:
//   write_test_model net.prototxt net.caffemodel LAYER BLOB DIM,DIM,... FILE [LAYER BLOB ...]
#include "checkpoint/weights.h"

#include "google/protobuf/text_format.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

hp::Shape ParseShape(const char* text) {
  std::vector<int64_t> dims;
  std::stringstream stream(text);
  for (std::string dim; std::getline(stream, dim, ',');) dims.push_back(std::atoll(dim.c_str()));
  return hp::Shape(dims);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  caffe::NetParameter net;
  if (!google::protobuf::TextFormat::ParseFromString(ReadAll(argv[1]), &net)) return 2;
  std::deque<std::string> files;
  hp::BlobRefs blobs;
  for (int i = 3; i + 3 < argc; i += 4) {
    files.push_back(ReadAll(argv[i + 3]));
    blobs[{argv[i], std::atoi(argv[i + 1])}] = {ParseShape(argv[i + 2]),
                                                reinterpret_cast<const float*>(files.back().data())};
  }
  const hp::Status status = hp::WriteCaffeModel(argv[2], net, blobs);
  if (!status.ok()) std::cerr << status << "\n";
  return hp::ExitStatus(status);
}
