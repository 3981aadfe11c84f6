#include "runtime/torch/csv.hpp"

#include <ATen/ATen.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace rtrain::ddp {
namespace {

// Appends the numbers of a line. Returns false if a field is not a number.
bool parse_row(std::string_view line, std::vector<double>& out) {
    for (;;) {
        double value = 0;
        const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
        if (error != std::errc{}) return false;
        out.push_back(value);
        line.remove_prefix(static_cast<std::size_t>(end - line.data()));
        if (line.empty()) return true;
        if (line.front() != ',') return false;
        line.remove_prefix(1);
    }
}

}  // namespace

at::Tensor read_csv(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
    std::vector<double> values;
    std::string line;
    std::size_t rows = 0, columns = 0;
    while (std::getline(file, line)) {
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (line.empty()) continue;
        const std::size_t before = values.size();
        const bool sound = parse_row(line, values);
        ++rows;
        if (rows == 1) columns = values.size();
        if (!sound || values.size() - before != columns) {
            throw std::runtime_error(path + ":" + std::to_string(rows) + ": expected " + std::to_string(columns) +
                                     " numbers with commas between, found '" + line.substr(0, 80) + "'");
        }
    }
    if (rows == 0) throw std::runtime_error(path + " holds no rows");
    return at::tensor(values, at::TensorOptions(at::kDouble))
        .reshape({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)});
}

}  // namespace rtrain::ddp
