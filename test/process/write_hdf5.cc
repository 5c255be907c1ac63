// Writes an HDF5 file of the float64 values that come through its standard input:
//   write_hdf5 FILE [NAME float|double|int DIM,DIM,...] ...
// Exits with 2 where there is no HDF5.
#include "test/support/write_hdf5.h"

#include <iostream>
#include <sstream>

int main(int argc, char** argv) {
  std::vector<hp::test::Hdf5Set> sets;
  for (int i = 2; i + 2 < argc; i += 3) {
    hp::test::Hdf5Set set{argv[i], argv[i + 1], {}, {}};
    int64_t count = 1;
    std::istringstream dims(argv[i + 2]);
    for (std::string dim; std::getline(dims, dim, ',');) {
      set.dims.push_back(std::stoll(dim));
      count *= set.dims.back();
    }
    set.values.resize(static_cast<size_t>(count));
    const auto bytes = static_cast<std::streamsize>(set.values.size() * sizeof(double));
    if (!std::cin.read(reinterpret_cast<char*>(set.values.data()), bytes)) return 1;
    sets.push_back(std::move(set));
  }
  const hp::Status status = hp::test::WriteHdf5(argc > 1 ? argv[1] : "", sets);
  if (!status.ok()) std::cerr << status << "\n";
  return hp::ExitStatus(status);
}
