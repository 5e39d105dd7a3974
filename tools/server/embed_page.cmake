# Writes OUTPUT, a C++ source with the bytes of PAGE: cmake -DPAGE=... -DOUTPUT=... -P embed_page.cmake
file(READ ${PAGE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)"
       "\\1\n    " bytes "${bytes}")
file(WRITE ${OUTPUT} "// Made from page.html by embed_page.cmake.
#include \"tools/server/page.h\"

namespace sluice {

namespace {
constexpr unsigned char bytes[] = {
    ${bytes}
};
}  // namespace

std::string_view page_html() {
    return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

}  // namespace sluice
")
