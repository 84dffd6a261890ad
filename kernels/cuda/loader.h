// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/cuda/plugin.h"

namespace piper::cuda {

/// The plugin, or one line that says why it is not to be had.
struct LoadedPlugin {
    const PiperCudaApi* api = nullptr;
    std::string
        why_not;  ///< "libcublas.so.13: cannot open shared object file: ..."; empty if loaded

    explicit operator bool() const { return api != nullptr; }
};

/// Loads libpiper_cuda.so: `path` when given, else $PIPER_CUDA_PLUGIN, else beside the program
/// (../lib from its folder, then its folder). Never crashes and prints nothing; a plugin once
/// loaded stays until the end of the process. A plugin may load where there is no device.
[[nodiscard]] LoadedPlugin loadPlugin(const std::string& path = {});

/// Number of devices, or 0 and one line in why_not ("no NVIDIA driver ...", "no CUDA device ...").
struct DeviceCount {
    int count = 0;
    std::string why_not;
};
[[nodiscard]] DeviceCount countDevices(const PiperCudaApi& api);

/// What a program prints once when it was asked for CUDA and goes on without:
/// "cuda: <reason>; using cpu".
[[nodiscard]] std::string fallbackLine(const std::string& why_not);

}  // namespace piper::cuda
