// See report_numbers.hpp.
#include "daemon/head/history/report_numbers.hpp"

#include <nlohmann/json.hpp>

namespace rtrain::head {
namespace {

using nlohmann::json;

// Depth 1 has the ranks, depth 2 the metrics of one. Stops reading after rank 0.
class RankZero : public nlohmann::json_sax<json> {
  public:
    std::vector<std::pair<std::string, double>> numbers;

    bool null() override { return true; }
    bool boolean(bool value) override { return add(value ? 1 : 0); }
    bool number_integer(json::number_integer_t value) override { return add(static_cast<double>(value)); }
    bool number_unsigned(json::number_unsigned_t value) override { return add(static_cast<double>(value)); }
    bool number_float(json::number_float_t value, const json::string_t&) override { return add(value); }
    bool string(json::string_t&) override { return true; }
    bool binary(json::binary_t&) override { return true; }
    bool start_object(std::size_t) override {
        ++depth_;
        return true;
    }
    bool end_object() override {
        --depth_;
        return !(within_ && depth_ == 1);
    }
    bool start_array(std::size_t) override {
        ++depth_;
        return true;
    }
    bool end_array() override {
        --depth_;
        return true;
    }
    bool key(json::string_t& name) override {
        if (depth_ == 1) within_ = name == "0";
        if (depth_ == 2 && within_) key_ = std::move(name);
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const json::exception&) override { return false; }

  private:
    bool add(double value) {
        if (within_ && depth_ == 2) numbers.emplace_back(key_, value);
        return true;
    }
    int depth_ = 0;
    bool within_ = false;
    std::string key_;
};

}  // namespace

std::vector<std::pair<std::string, double>> numbers_of_rank_0(const std::string& ranks_json) {
    RankZero reader;
    json::sax_parse(ranks_json, &reader);
    return std::move(reader.numbers);
}

}  // namespace rtrain::head
