// The variables that TensorFlow and XGBoost read in a worker, for jobs whose backend names one of them. Pure.
#pragma once

#include <map>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::agent {

// Returns TF_CONFIG with every worker's address for tensorflow, and the address at which rank 0 starts the tracker for
// xgboost. Empty for other backends.
std::map<std::string, std::string> framework_environment(const protocol::Prepare& prepare,
                                                         const protocol::Launch& launch,
                                                         const protocol::LaunchWorker& worker, const spec::Job& job);

}  // namespace rtrain::agent
