// spdlog stays in this file.
#include "daemon/agent/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace rtrain::agent {
namespace {

spdlog::logger& logger() {
    static const std::shared_ptr<spdlog::logger> one = [] {
        auto made = spdlog::stderr_logger_mt("agent");
        made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
        return made;
    }();
    return *one;
}

}  // namespace

void log_info(const std::string& text) { logger().info("{}", text); }
void warn(const std::string& text) { logger().warn("{}", text); }

}  // namespace rtrain::agent
