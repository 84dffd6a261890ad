// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace piper::cuda {
namespace {

constexpr const char* kFileName = "libpiper_cuda.so";

std::string oneLine(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

std::string pluginPath() {
    if (const char* named = std::getenv("PIPER_CUDA_PLUGIN"); named != nullptr && *named != '\0') {
        return named;
    }
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return kFileName;
    const auto folder = program.parent_path();
    // Installed, in the build tree, or beside a worker that was copied to a host.
    const auto prefix = folder.parent_path();
    for (const auto& place :
         {prefix / PIPER_PLUGIN_DIR / kFileName, prefix / "lib" / kFileName, folder / kFileName}) {
        if (std::filesystem::exists(place, error)) return place.string();
    }
    return {};
}

LoadedPlugin refuse(std::string why) {
    return {nullptr, oneLine(std::move(why))};
}

}  // namespace

LoadedPlugin loadPlugin(const std::string& path) {
    const std::string file = path.empty() ? pluginPath() : path;
    if (file.empty()) return refuse(std::string(kFileName) + ": not built or not installed");
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* text = dlerror();
        return refuse(text != nullptr ? text : file + ": cannot be loaded");
    }
    const auto entry = reinterpret_cast<PiperCudaEntry>(dlsym(library, PIPER_CUDA_ENTRY));
    if (entry == nullptr) return refuse(file + ": no symbol " PIPER_CUDA_ENTRY);
    const PiperCudaApi* api = entry(PIPER_CUDA_INTERFACE);
    if (api == nullptr || api->interface_version != PIPER_CUDA_INTERFACE ||
        api->table_bytes < sizeof(PiperCudaApi)) {
        return refuse(file + ": of another version than this program; build both together");
    }
    return {api, {}};
}

DeviceCount countDevices(const PiperCudaApi& api) {
    std::int32_t count = 0;
    if (api.deviceCount(&count) != PIPER_CUDA_OK) return {0, oneLine(api.lastError())};
    return {count, {}};
}

std::string fallbackLine(const std::string& why_not) {
    return "cuda: " + why_not + "; using cpu";
}

}  // namespace piper::cuda
