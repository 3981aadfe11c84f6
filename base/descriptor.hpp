// An open file that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace rtrain::storage {

class Descriptor {
  public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    // Returns 0. Returns -1 with errno if the file system reports that earlier writes failed.
    int close() { return ::close(std::exchange(number_, -1)); }
    int number() const { return number_; }
    bool open() const { return number_ >= 0; }

  private:
    int number_;
};

}  // namespace rtrain::storage
