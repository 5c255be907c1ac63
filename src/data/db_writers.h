#pragma once

#include "data/db_writer.h"
#include "hp/status.h"

#include <memory>
#include <string>

namespace hp {

// The writers of the two backends, for DbWriter::Create only: each writes into the empty folder `partial`, which
// DbWriter moves to `path` at the end. Errors as DbWriter::Put's.
StatusOr<std::unique_ptr<DbWriter>> NewLevelDbWriter(const std::string& path, const std::string& partial);
StatusOr<std::unique_ptr<DbWriter>> NewLmdbWriter(const std::string& path, const std::string& partial);

}  // namespace hp
