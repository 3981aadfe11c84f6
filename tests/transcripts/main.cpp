// Runs transcripts: `$ command` lines, each with its expected answer below. `--rewrite` renews the answers in place.
//   test_transcripts [--rewrite] FILE...
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/transcripts/stage.hpp"

namespace {

std::string read(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

// Returns the file with renewed answers; commands, comments and blank lines are unchanged.
std::string renewed(const std::string& text) {
    rtrain::transcripts::Stage stage;
    std::istringstream in(text);
    std::string out;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("$ "))
            out += line + "\n" + stage.perform(rtrain::transcripts::parse_command(line.substr(2)));
        else if (line.empty() || line.starts_with("#"))
            out += line + "\n";
    }
    return out;
}

void show_difference(const std::string& path, const std::string& expected, const std::string& got) {
    std::istringstream a(expected), b(got);
    std::string x, y;
    for (int number = 1;; ++number) {
        const bool more_x = static_cast<bool>(std::getline(a, x)), more_y = static_cast<bool>(std::getline(b, y));
        if (!more_x && !more_y) return;
        if (more_x == more_y && x == y) continue;
        std::fprintf(stderr, "%s:%d:\n  expected: %s\n  got:      %s\n", path.c_str(), number, x.c_str(), y.c_str());
        return;
    }
}

}  // namespace

int main(int argc, char** argv) {
    bool rewrite = false;
    int wrong = 0, files = 0;
    for (int i = 1; i < argc; ++i) {
        const std::string path = argv[i];
        if (path == "--rewrite") {
            rewrite = true;
            continue;
        }
        ++files;
        const std::string expected = read(path), got = renewed(expected);
        if (expected.find("$ ") == std::string::npos) {
            std::fprintf(stderr, "%s: no command in it\n", path.c_str());
            ++wrong;
        } else if (rewrite) {
            std::ofstream(path) << got;
        } else if (expected != got) {
            show_difference(path, expected, got);
            ++wrong;
        }
    }
    if (files == 0) std::fprintf(stderr, "usage: test_transcripts [--rewrite] FILE...\n");
    return wrong != 0 || files == 0 ? 1 : 0;
}
