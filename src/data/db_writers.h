#pragma once

#include "data/db_writer.h"
#include "hp/status.h"

#include <memory>
#include <string>

namespace hp {

/// Writers into the empty folder `partial`; private to DbWriter::Create.
StatusOr<std::unique_ptr<DbWriter>> NewLevelDbWriter(const std::string& path, const std::string& partial);
StatusOr<std::unique_ptr<DbWriter>> NewLmdbWriter(const std::string& path, const std::string& partial);

}  // namespace hp
