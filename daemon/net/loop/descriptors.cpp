// See descriptors.hpp.
#include "daemon/net/loop/descriptors.hpp"

#include <sys/resource.h>

namespace rtrain::net {

std::uint64_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1'024;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace rtrain::net
