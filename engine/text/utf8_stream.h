// Joins the bytes of tokens to complete characters.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Holds back an incomplete tail (at most 3 bytes). Each longest run of bytes that began like a
// character but is not one becomes a single U+FFFD. The output does not depend on how the bytes
// were cut into pieces.
class Utf8Stream {
 public:
    std::string push(std::string_view bytes);
    std::string finish();  // U+FFFD if a tail was held; ready for another text

 private:
    std::string held_;
};

}  // namespace sluice
