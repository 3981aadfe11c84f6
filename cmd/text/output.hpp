// stdout is data, stderr is talk. One value, six formats: the same JSON is printed as a table for people and as json,
// jsonl, yaml or name for programs, so that no format knows something that another does not.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.hpp"

namespace rtrain::cmd {

enum class Format { table, wide, json, jsonl, yaml, name };
Format format_from(std::string_view text);  // of the flag's choices

enum class Shape { text, state, age, time, duration, bytes, list, pairs };
struct Column {
    const char* title;
    const char* field;  // "a.b" goes into objects
    Shape shape = Shape::text;
    bool wide = false;  // only with -o wide
};

class Output {
  public:
    Output(Format format, std::string colour_choice);

    // `answer` is {"items": [...]}; without items a table says `none` on stderr.
    void list(const nlohmann::json& answer, const std::vector<Column>& columns, const char* name_field,
              const char* none);
    // One thing; `text` is what people read.
    void document(const nlohmann::json& value, const char* name_field, const std::string& text);
    // One of a stream: printed at once, one line each in json and jsonl.
    void each(const nlohmann::json& value, const char* name_field, const std::string& text);
    void raw(std::string_view text);     // a schema, a script: the same in every format
    void talk(const std::string& text);  // stderr, one line; silent with -q
    void error(const Error& error, const Problems& problems);

    std::string take();  // what waits to be written (for --watch)
    bool flush();        // false: stdout does not take it
    Format format() const { return format_; }
    bool for_people() const { return format_ == Format::table || format_ == Format::wide; }
    bool colour() const { return colour_; }

  private:
    Format format_;
    bool colour_, colour_talk_;
    std::string waiting_;
};

std::string terminal_json(const nlohmann::json& value, int indent);  // control characters beyond ASCII escaped too
std::string yaml_text(const nlohmann::json& value);
std::string table_text(const nlohmann::json& items, const std::vector<Column>& columns, Format format, bool colour);
std::string cell_text(const nlohmann::json& item, const Column& column);
nlohmann::json error_json(const Error& error, const Problems& problems);
std::string_view code_text(ErrorCode code);  // "not_found": the words of the API
ErrorCode code_from(std::string_view text, int http_status);
int exit_code(ErrorCode code);

}  // namespace rtrain::cmd
