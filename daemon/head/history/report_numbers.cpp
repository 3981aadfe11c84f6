// See report_numbers.hpp.
#include "daemon/head/history/report_numbers.hpp"

#include <string_view>

#include "base/json_members.hpp"

namespace rtrain::head {

std::vector<std::pair<std::string, double>> numbers_of_rank_0(const std::string& ranks_json) {
    using storage::each_member, storage::name_of, storage::number_of;
    std::vector<std::pair<std::string, double>> numbers;
    each_member(ranks_json, [&](std::string_view rank, std::string_view metrics) {
        if (rank != "0") return;
        each_member(metrics, [&](std::string_view name, std::string_view value) {
            if (const auto number = number_of(value)) numbers.emplace_back(name_of(name), *number);
            if (value == "true" || value == "false") numbers.emplace_back(name_of(name), value == "true" ? 1 : 0);
        });
    });
    return numbers;
}

}  // namespace rtrain::head
