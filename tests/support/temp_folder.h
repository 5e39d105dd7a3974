// A folder of a test's own, removed with the object, and files in it.
#pragma once

#include <unistd.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

namespace sluice {

class TempFolder {
 public:
    // `name` may hold anything that a file name may. The folder is called NAME_PID_NUMBER: nothing
    // in it can be mistaken for the flags and names that tests look for in messages.
    explicit TempFolder(
        const std::string& name = "sluice",
        const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
        static int number = 0;
        do {
            path_ = parent / (name + "_" + std::to_string(getpid()) + "_" + std::to_string(number));
            ++number;
        } while (!std::filesystem::create_directory(path_));
    }
    // In the tests' working folder, where direct reads can be had: the usual place may be memory.
    static TempFolder on_drive() { return TempFolder("sluice", std::filesystem::current_path()); }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
    // Returns the path of the file.
    std::filesystem::path write(std::string_view name, std::string_view bytes) const {
        std::ofstream(path_ / name, std::ios::binary) << bytes;
        return path_ / name;
    }

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

inline std::string random_bytes(size_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

// A checkpoint of tests/models in a folder that may be damaged: links instead of copies, and a
// damaged file replaces its link.
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
