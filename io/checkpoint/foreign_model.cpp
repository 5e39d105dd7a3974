#include "io/checkpoint/foreign_model.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/json.h"
#include "io/path_access.h"
#include "io/text.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t config_max = uint64_t{1} << 20;
constexpr size_t entries_max = 10000;

struct Form {
    std::string_view ending, what;
};
constexpr Form forms[] = {
    {".gguf", "a GGUF file, the format of llama.cpp"},
    {".ggml", "a GGML file, an old format of llama.cpp"},
    {".bin", "a PyTorch checkpoint (pickle)"},
    {".pt", "a PyTorch checkpoint (pickle)"},
    {".pth", "a PyTorch checkpoint (pickle)"},
    {".npz", "an MLX checkpoint"},
    {".onnx", "an ONNX model"},
    {".h5", "a Keras checkpoint"},
    {".msgpack", "a Flax checkpoint"},
};

std::string_view form_of(const fs::path& path) {
    std::array<char, 4> head{};
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), head.size());
    if (std::string_view(head.data(), head.size()) == "GGUF") return forms[0].what;
    const std::string ending = path.extension().string();
    for (const Form& form : forms) {
        if (form.ending == ending) return form.what;
    }
    return {};
}

tl::unexpected<Error> refuse(const fs::path& path, std::string_view what) {
    return fail(Code::unsupported,
                cat(printable(path.string()), " is ", what,
                    "; sluice reads original safetensors checkpoints of the models that its "
                    "README names: a folder with config.json, the tokenizer and "
                    "*.safetensors files"));
}

// MLX writes its own quantisation into config.json, where others write quantization_config.
bool is_mlx(const fs::path& folder) {
    const auto text = read_text(folder / "config.json", config_max);
    const auto config = text ? Json::parse(*text) : tl::unexpected(text.error());
    return config && (*config)["quantization"].is_object() &&
           (*config)["quantization"].has("group_size") && (*config)["quantization"].has("bits");
}

}  // namespace

Result<void> refuse_foreign_model(const fs::path& path) {
    if (!is_folder(path)) {
        const std::string_view form = form_of(path);
        return form.empty() ? Result<void>() : refuse(path, form);
    }
    const auto has = [&](const char* name) { return is_there(path / name); };
    if (has("model_index.json") && !has("config.json"))
        return refuse(path, "a diffusion pipeline (model_index.json), not a language model");
    if (has("adapter_config.json") && !has("model.safetensors.index.json"))
        return refuse(path, "an adapter (LoRA), which needs its base model");
    if (has("config.json") && is_mlx(path)) return refuse(path, "an MLX checkpoint");
    std::error_code error;
    std::vector<fs::path> found;
    size_t entries = 0;
    for (fs::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
        const fs::path& file = entry->path();
        if (file.extension() == ".safetensors" || ++entries > entries_max) return {};
        const std::string ending = file.extension().string();
        const auto known = [&](const Form& form) { return form.ending == ending; };
        if (std::ranges::any_of(forms, known)) found.push_back(file);
    }
    if (found.empty() || has("model.safetensors.index.json")) return {};
    const fs::path first = *std::ranges::min_element(found);
    return refuse(path, cat("a folder with ", form_of(first), " (",
                            printable(first.filename().string()), ") and no safetensors files"));
}

}  // namespace sluice
