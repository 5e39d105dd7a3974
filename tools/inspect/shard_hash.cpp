#include "tools/inspect/shard_hash.h"

#include <algorithm>
#include <charconv>

#include "io/checksum.h"
#include "io/clock.h"
#include "io/memory.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr uint64_t block_bytes = 4u << 20;
constexpr uint32_t blocks_in_flight = 8;

// A window of blocks over one file: blocks arrive in any order and are hashed in file order.
class Window final : public ReadClient {
 public:
    Window(ReadRing& ring, std::byte* memory) : ring_(ring), memory_(memory) {}

    // False: `progress` asked to stop.
    Result<bool> hash(const File& file, const std::function<bool(uint64_t)>& progress,
                      const std::function<void(uint64_t, std::span<const std::byte>)>& look);
    uint64_t value() const { return checksum_->value(); }
    std::optional<Error> error() { return std::move(error_); }

    void read_done(uint64_t tag, std::optional<Error> error) override {
        done_[tag % blocks_in_flight] = true;
        if (error && !error_) error_ = std::move(error);
    }

 private:
    void queue(const File& file, uint64_t block);

    ReadRing& ring_;
    std::byte* memory_;
    std::unique_ptr<Checksum> checksum_;
    bool done_[blocks_in_flight] = {};
    std::optional<Error> error_;
};

void Window::queue(const File& file, uint64_t block) {
    const uint64_t offset = block * block_bytes;
    const auto needed = static_cast<uint32_t>(std::min(block_bytes, file.size() - offset));
    const uint64_t slot = block % blocks_in_flight;
    done_[slot] = false;
    ring_.queue({&file, offset, memory_ + slot * block_bytes,
                 static_cast<uint32_t>(round_up(needed, file.alignment())), needed, this, block});
}

Result<bool> Window::hash(const File& file, const std::function<bool(uint64_t)>& progress,
                          const std::function<void(uint64_t, std::span<const std::byte>)>& look) {
    checksum_ = std::make_unique<Checksum>();
    error_.reset();
    const uint64_t blocks = (file.size() + block_bytes - 1) / block_bytes;
    uint64_t queued = 0, hashed = 0;
    bool stopped = false;
    while (hashed < queued || (queued < blocks && !error_ && !stopped)) {
        while (queued < blocks && !error_ && !stopped && queued - hashed < blocks_in_flight) {
            queue(file, queued++);
        }
        if (auto reaped = ring_.reap(true); !reaped) {
            return tl::unexpected(std::move(reaped).error());
        }
        for (; hashed < queued && done_[hashed % blocks_in_flight]; ++hashed) {
            const uint64_t bytes = std::min(block_bytes, file.size() - hashed * block_bytes);
            const std::byte* data = memory_ + hashed % blocks_in_flight * block_bytes;
            checksum_->add(data, bytes);
            if (!error_) look(hashed * block_bytes, {data, bytes});
            stopped = !progress(bytes) || stopped;
        }
    }
    return !stopped;
}

// "0123456789abcdef  2173768  name"
std::optional<ShardHash> parse_line(std::string_view line) {
    ShardHash shard;
    const size_t first = line.find("  ");
    const size_t second = first == line.npos ? line.npos : line.find("  ", first + 2);
    if (first != 16 || second == line.npos || second + 2 == line.size()) return {};
    const auto number = [&](size_t from, size_t to, int base, uint64_t& value) {
        const char* end = line.data() + to;
        const auto [at, problem] = std::from_chars(line.data() + from, end, value, base);
        return problem == std::errc() && at == end;
    };
    if (!number(0, first, 16, shard.hash)) return {};
    if (!number(first + 2, second, 10, shard.bytes)) return {};
    shard.name = line.substr(second + 2);
    return shard;
}

const ShardHash* find_shard(const std::vector<ShardHash>& shards, std::string_view name) {
    const auto at = std::find_if(shards.begin(), shards.end(),
                                 [&](const ShardHash& shard) { return shard.name == name; });
    return at == shards.end() ? nullptr : &*at;
}

}  // namespace

Result<HashRun> hash_shards(const std::vector<File>& shards, const RingOptions& options,
                            const std::function<bool(uint64_t)>& progress,
                            const LookAtBytes& look) {
    RingOptions ring_options = options;
    ring_options.depth = blocks_in_flight;
    auto choice = make_ring_engine(ring_options);
    if (!choice) return tl::unexpected(std::move(choice).error());
    auto memory = PageBuffer::create(blocks_in_flight * block_bytes, "reading the shards");
    if (!memory) return tl::unexpected(std::move(memory).error());
    ReadRing ring(std::move(choice->engine), blocks_in_flight);
    HashRun run;
    run.engine = ring.engine_name();
    if (!choice->cause.empty()) run.engine += cat(": ", choice->cause);
    const auto start = Clock::now();
    Window window(ring, memory->data());
    for (const File& file : shards) {
        if (auto added = ring.add_file(file); !added) {
            return tl::unexpected(std::move(added).error());
        }
        const auto count = [&](uint64_t bytes) {
            run.bytes += bytes;
            return progress(run.bytes);
        };
        const auto shard = static_cast<uint32_t>(run.shards.size());
        const auto hashed =
            window.hash(file, count, [&](uint64_t offset, std::span<const std::byte> bytes) {
                if (look) look(shard, offset, bytes);
            });
        if (!hashed) return tl::unexpected(hashed.error());
        if (!*hashed) return fail(Code::interrupted, "interrupted");
        run.shards.push_back(
            {file.path().filename().string(), file.size(), window.value(), window.error()});
    }
    run.seconds = seconds_since(start);
    return run;
}

std::string hash_file_text(const std::vector<ShardHash>& shards) {
    std::string out = cat(hash_file_head, "\n");
    for (const ShardHash& shard : shards) {
        out += cat(checksum_text(shard.hash), "  ", shard.bytes, "  ", shard.name, "\n");
    }
    return out;
}

Result<std::vector<ShardHash>> parse_hash_file(std::string_view text) {
    std::vector<ShardHash> shards;
    for (size_t number = 1; !text.empty(); ++number) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (number == 1) {
            if (line != hash_file_head) break;
            continue;
        }
        auto shard = parse_line(line);
        if (!shard || find_shard(shards, shard->name)) {
            return fail(Code::usage, cat("line ", number,
                                         ": expected \"HASH  BYTES  NAME\" of a shard that no "
                                         "earlier line names"));
        }
        shards.push_back(std::move(*shard));
    }
    if (shards.empty()) {
        return fail(Code::usage,
                    cat("not a hash file: the first line must be \"", hash_file_head, "\""));
    }
    return shards;
}

std::vector<std::string> compare_hashes(const std::vector<ShardHash>& now,
                                        const std::vector<ShardHash>& before) {
    std::vector<std::string> differences;
    for (const ShardHash& shard : now) {
        if (shard.error) continue;
        const std::string name = printable(shard.name);
        const ShardHash* old = find_shard(before, shard.name);
        if (!old) {
            differences.push_back(cat(name, ": not in the hash file"));
        } else if (old->bytes != shard.bytes) {
            differences.push_back(cat(name, ": ", shard.bytes, " bytes, were ", old->bytes));
        } else if (old->hash != shard.hash) {
            differences.push_back(cat(name, ": hash ", checksum_text(shard.hash), ", was ",
                                      checksum_text(old->hash)));
        }
    }
    for (const ShardHash& old : before) {
        if (find_shard(now, old.name)) continue;
        differences.push_back(cat(printable(old.name), ": only in the hash file"));
    }
    return differences;
}

}  // namespace sluice
