// write_openapi FILE: writes openapi.json. The build makes the page's types from it before it builds the page.
#include <cstdio>
#include <fstream>

#include "daemon/head/openapi/openapi.hpp"

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: write_openapi FILE\n");
        return 2;
    }
    std::ofstream file(arguments[1]);
    file << rtrain::head::openapi();
    file.close();
    if (file) return 0;
    std::fprintf(stderr, "write_openapi: %s cannot be written\n", arguments[1]);
    return 1;
}
