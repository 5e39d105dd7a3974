// A folder of the test's own, removed with the object.
#pragma once

#include <cassert>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace sluice {

class TempDir {
 public:
    // `name` may hold anything that a file name may.
    explicit TempDir(const std::string& name = "sluice") {
        std::string pattern =
            (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
        const char* made = mkdtemp(pattern.data());
        assert(made);
        path_ = made;
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
    std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    assert(stream);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    assert(stream);
}

// A checkpoint of tests/models in a folder that may be damaged. Links save the copying; a damaged
// file replaces its link.
inline void link_files(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::filesystem::create_directories(to);
    for (const auto& entry : std::filesystem::directory_iterator(from)) {
        std::filesystem::create_symlink(entry.path(), to / entry.path().filename());
    }
}

inline void replace_file(const std::filesystem::path& path, std::string_view bytes) {
    std::filesystem::remove(path);
    write_file(path, bytes);
}

}  // namespace sluice
