// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/plugin.h"

namespace piper::cuda {

/// A refused device call inside the check; caught in main.
struct DeviceError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A context of one device, and its calls with their refusals thrown.
class Device {
public:
    Device(const PiperCudaApi& api, std::int32_t number);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    [[nodiscard]] const PiperCudaApi& api() const { return m_api; }
    [[nodiscard]] PiperCudaContext* context() const { return m_context; }
    void require(int status, const char* what) const;

    [[nodiscard]] const PiperCudaDevice& info() const { return m_info; }
    [[nodiscard]] std::int32_t number() const { return m_number; }

private:
    const PiperCudaApi& m_api;
    std::int32_t m_number;
    PiperCudaContext* m_context = nullptr;
    PiperCudaDevice m_info{};
};

/// Device memory of `bytes`, freed at the end of its scope.
class DeviceMemory {
public:
    DeviceMemory(const Device& device, std::int64_t bytes);
    /// Holds the values.
    template <class T>
    DeviceMemory(const Device& device, const std::vector<T>& host)
        : DeviceMemory(device, static_cast<std::int64_t>(host.size() * sizeof(T))) {
        write(host);
    }
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    template <class T = void>
    [[nodiscard]] T* as() const {
        return static_cast<T*>(m_data);
    }
    template <class T>
    void write(const std::vector<T>& host) const {
        copyIn(host.data(), static_cast<std::int64_t>(host.size() * sizeof(T)));
    }
    template <class T>
    [[nodiscard]] std::vector<T> read(std::int64_t count) const {
        std::vector<T> host(static_cast<std::size_t>(count));
        copyOut(host.data(), count * static_cast<std::int64_t>(sizeof(T)));
        return host;
    }

private:
    void copyIn(const void* host, std::int64_t bytes) const;
    void copyOut(void* host, std::int64_t bytes) const;

    const Device& m_device;
    void* m_data = nullptr;
};

}  // namespace piper::cuda
