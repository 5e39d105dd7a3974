// Recognises models in forms that are not read here.
#pragma once

#include <filesystem>

#include "io/error.h"

namespace sluice {

// unsupported, naming what `path` (a file, or a folder) holds and what is read instead, where it is
// a model in another form: GGUF, PyTorch's pickles, MLX, ONNX, an adapter, a diffusion pipeline.
// A folder with a safetensors checkpoint is none of them, whatever else lies beside it.
Result<void> refuse_foreign_model(const std::filesystem::path& path);

}  // namespace sluice
