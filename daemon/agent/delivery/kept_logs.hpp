// Copies a cut log into the run's directory in the form that readers see: the first bytes, a note, the newest bytes.
#pragma once

#include <string>

#include "base/result.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// Puts the log into the store. No process writes to it any more, but its middle may be dropped meanwhile.
Status put_log(storage::Store& store, const std::string& log, const std::string& to);

}  // namespace rtrain::agent
