// The rtrain binary: head, agent, shim and command line in one.
#include "cmd/invocation.hpp"

int main(int argc, char** argv) { return rtrain::cmd::run(argc, argv); }
