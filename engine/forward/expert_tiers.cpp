#include "engine/forward/expert_tiers.h"

#include <chrono>
#include <thread>

#include "io/profile.h"

namespace sluice {

Result<void> release_uploaded(ExpertTiers& tiers, Backend& device, size_t room) {
    while (!tiers.uploading.empty()) {
        const auto& [handle, bytes, mark, begin] = tiers.uploading.front();
        if (!device.uploads_done(mark)) {
            if (tiers.uploading.size() < room) return {};
            const spans::Leaf leaf("wait for link");
            if (auto done = device.wait_uploads(mark); !done) return done;
        }
        spans::add({"upload", begin, spans::now(), bytes, 0, handle.key.layer, handle.key.expert,
                    spans::Track::uploads, false});
        tiers.cache->release(handle);
        tiers.uploading.pop_front();
    }
    return {};
}

Result<void> finish_uploads(ExpertTiers& tiers, Backend& device) {
    return release_uploaded(tiers, device, 1);
}

Result<void> keep_reading(ExpertTiers& tiers, Backend& device, const PassHooks& hooks) {
    if (device.host_memory()) return {};
    const spans::Leaf leaf("wait for device");
    const uint64_t mark = device.mark_compute();
    while (!device.compute_done(mark)) {
        if (auto done = release_uploaded(tiers, device, SIZE_MAX); !done) return done;
        if (auto go = hooks.go_on(); !go) return go;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return {};
}

void give_up_experts(ExpertTiers& tiers, Backend& device) {
    // Work in flight may still read the slots.
    (void)device.synchronize();
    if (tiers.device) tiers.device->used();
    if (tiers.cpu) {
        (void)tiers.cpu->wait();
        tiers.cpu->drop();
    }
    tiers.uploading.clear();
    tiers.cache->abandon();
}

}  // namespace sluice
