// Only this file uses spdlog.
#include "daemon/agent/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace rtrain::agent {
namespace {

spdlog::logger& logger() {
    static const std::shared_ptr<spdlog::logger> agent_logger = [] {
        auto stderr_logger = spdlog::stderr_logger_mt("agent");
        stderr_logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
        return stderr_logger;
    }();
    return *agent_logger;
}

}  // namespace

void log_info(const std::string& text) { logger().info("{}", text); }
void warn(const std::string& text) { logger().warn("{}", text); }

}  // namespace rtrain::agent
