// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check/device.h"

namespace piper::cuda {

Device::Device(const PiperCudaApi& api, std::int32_t number) : m_api(api), m_number(number) {
    require(m_api.deviceInfo(number, &m_info), "deviceInfo");
    require(m_api.openContext(number, &m_context), "openContext");
}
Device::~Device() {
    m_api.closeContext(m_context);
}

void Device::require(int status, const char* what) const {
    if (status != PIPER_CUDA_OK) throw DeviceError(std::string(what) + ": " + m_api.lastError());
}

DeviceMemory::DeviceMemory(const Device& device, std::int64_t bytes) : m_device(device) {
    device.require(device.api().allocate(device.context(), bytes, &m_data), "allocate");
}
DeviceMemory::~DeviceMemory() {
    (void)m_device.api().release(m_device.context(), m_data);
}

void DeviceMemory::copyIn(const void* host, std::int64_t bytes) const {
    m_device.require(m_device.api().copyToDevice(m_device.context(), host, m_data, bytes),
                     "copyToDevice");
}
void DeviceMemory::copyOut(void* host, std::int64_t bytes) const {
    m_device.require(m_device.api().copyToHost(m_device.context(), m_data, host, bytes),
                     "copyToHost");
}

}  // namespace piper::cuda
