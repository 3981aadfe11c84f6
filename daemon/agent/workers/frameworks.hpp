// What TensorFlow and XGBoost look for in a worker's environment, for jobs whose backend names one of them. Pure.
#pragma once

#include <map>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::agent {

// tensorflow: TF_CONFIG with every worker's address. xgboost: the address at which rank 0 starts the tracker. Else
// nothing.
std::map<std::string, std::string> framework_environment(const protocol::Prepare& prepare,
                                                         const protocol::Launch& launch,
                                                         const protocol::LaunchWorker& worker, const spec::Job& job);

}  // namespace rtrain::agent
